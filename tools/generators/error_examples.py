"""An example of each code in dmlgraph/base/codes.py: docs/errors.md shows it, and a test runs it.

A text that begins with `dmlgraph:` is the graph file `graph.yaml`, one that begins with `$` is a command, and any other
is Python, with `dg` and `np` imported.  Commands may read `graph.yaml`, which is then GRAPH, and `x.npy`, an array for
its inputs.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shlex
import subprocess
import tempfile
from collections.abc import Iterator

import numpy as np
from click.testing import CliRunner

import dmlgraph as dg
from dmlgraph.cli.commands import main
from dmlgraph.cli.messages import lines

GRAPH = """\
dmlgraph: 1
inputs: {x: {dtype: float32, sizes: [2]}, z: {dtype: float32, sizes: [2]}}
nodes: {y: {op: exp, input: x}}
outputs: [y]
"""

_SEQUENCE = """\
dmlgraph: 1
nodes:
  s: {{op: fill_value_sequence, output: {{dtype: {}, sizes: [3000]}}, value_start: 0, value_delta: 1}}
outputs: [s]
"""
_TEMPLATE = """\
dmlgraph: 1
inputs: {{x: {{dtype: float32, sizes: [2]}}}}
templates:
  block: {{inputs: [x{}], nodes: {{y: {}}}, outputs: [y]}}
nodes: {{y: {}}}
outputs: [y]
"""
_BLOCK = "{op: exp, input: x}"
_X = 'g = dg.Graph()\nx = g.input("x", sizes=[2, 3], dtype="float32")\n'
_EXP = _X + 'g.output("y", dg.exp(x))\n'
_RUN = _EXP + 'exe = g.compile("reference")\n'
_ADAPTER = _EXP + 'exe = g.compile("directml:software")\n'
_MODEL = """\
import onnx

text = '<ir_version: 8, opset_import: ["" : {opset}]> g ({x} x) => (float[n] y) {{ {nodes} }}'
onnx.save_model(onnx.parser.parse_model(text), "model.onnx")
dg.load("model.onnx")
"""
_STATE = """\
g = dg.Graph()
s = g.state("s", sizes=[2, 4], dtype="float32", grows=1)
x = g.input("x", sizes=[2, 3], dtype="float32")
g.append(s, x)
g.output("y", dg.exp(s))
"""
_DATA = "data = np.zeros((2, 3), np.float32)\n"

EXAMPLES = {
    "unused-dim": "dmlgraph: 1\ndims: {N: 4}\ninputs: {x: {dtype: float32, sizes: [2]}}\noutputs: [x]\n",
    "unused-node": """\
dmlgraph: 1
inputs: {x: {dtype: float32, sizes: [2]}}
nodes: {y: {op: exp, input: x}}
outputs: [x]
""",
    "unused-input": GRAPH,
    "unused-constant": """\
dmlgraph: 1
inputs: {x: {dtype: float32, sizes: [2]}}
constants: {k: {dtype: float32, sizes: [1], data: [1]}}
outputs: [x]
""",
    "unused-state": """\
dmlgraph: 1
inputs: {x: {dtype: float32, sizes: [2]}}
states: {s: {dtype: float32, sizes: [2]}}
outputs: [x]
""",
    "unchanged-state": """\
dmlgraph: 1
states: {s: {dtype: float32, sizes: [2], initial: {value: 1}}}
nodes: {y: {op: exp, input: s}}
outputs: [y]
""",
    "unused-template": _TEMPLATE.format("", _BLOCK, _BLOCK),
    "unused-template-input": _TEMPLATE.format(", w", _BLOCK, "{use: block, x: x, w: x}"),
    "sequence-range": _SEQUENCE.format("uint8"),
    "sequence-inexact": _SEQUENCE.format("float16"),
    "aligned-axis": """\
dmlgraph: 1
inputs: {x: {dtype: float32, sizes: [2, 4, 4]}, w: {dtype: float32, sizes: [4]}}
nodes:
  y: {op: mean_variance_normalization1, input: x, scale: w, axes: [2], normalize_variance: true, epsilon: 0.00001}
outputs: [y]
""",
    "missing": "dmlgraph: 1\ninputs: {x: {sizes: [2]}}\noutputs: [x]\n",
    "unknown-field": "dmlgraph: 1\ninputs: {x: {dtype: float32, sizes: [2], layout: NCHW}}\noutputs: [x]\n",
    "unknown-name": _X + 'dg.reduce(x, function="total", axes=[1])\n',
    "unknown-code": "dmlgraph: 1\nallow: [unused]\ninputs: {x: {dtype: float32, sizes: [2]}}\noutputs: [x]\n",
    "kind": "dmlgraph: 1\ninputs: {x: {dtype: float32, sizes: 2}}\noutputs: [x]\n",
    "expression": 'dg.Graph(dims={"N": 8}).input("x", sizes=["N / 3"], dtype="float32")\n',
    "range": _X + 'dg.reduce(x, function="sum", axes=[5])\n',
    "count": _X + "dg.slice1(x, input_window_offsets=[0, 0], input_window_sizes=[1], input_window_strides=[1, 1])\n",
    "does-not-fit": 'dg.Graph().fill_value_constant(sizes=[2], dtype="uint8", value=300)\n',
    "conflict": _X + 'dg.exp(x, output={"sizes": [3, 2]})\n',
    "duplicate": _X + 'g.input("x", sizes=[2], dtype="float32")\n',
    "undetermined": "dg.Graph().fill_value_constant(sizes=[2], value=1)\n",
    "dtype": _X + 'dg.add(x, g.input("h", sizes=[2, 3], dtype="float16"))\n',
    "unknown-dtype": 'dg.Graph().input("x", sizes=[2], dtype="bfloat16")\n',
    "rank": 'dg.Graph().input("x", sizes=[1, 1, 1, 1, 1, 1, 1, 1, 2], dtype="float32")\n',
    "sizes": _X + 'dg.add(x, g.input("z", sizes=[2], dtype="float32"))\n',
    "strides": 'dg.Graph().input("x", sizes=[2, 3], strides=[3], dtype="float32")\n',
    "too-large": 'dg.Graph().input("x", sizes=[65536, 65536], dtype="float32")\n',
    "shared-memory": _RUN
    + _DATA
    + """\
row = np.zeros(3, np.float32)
exe.run({"x": data}, out={"y": np.lib.stride_tricks.as_strided(row, (2, 3), (0, 4))})
""",
    "masked": 'dg.Graph().constant("k", np.ma.masked_less([1, 2, 3], 2))\n',
    "owned": """\
dmlgraph: 1
inputs:
  x: {dtype: float32, sizes: [1, 1, 2, 2], owned: true}
constants: {k: {dtype: float32, sizes: [1, 1, 3, 2], data: [1, 2, 3, 4, 5, 6]}}
nodes: {y: {op: rnn, input: x, weight: k, recurrence: k, activation_descs: [activation_tanh], direction: forward}}
outputs: [y]
""",
    "level": 'g = dg.Graph(target="4.1")\ndg.activation_gelu(g.input("x", sizes=[2], dtype="float32"))\n',
    "unknown-level": 'dg.Graph(target="7.3")\n',
    "unknown-operator": """\
dmlgraph: 1
inputs: {x: {dtype: float32, sizes: [2]}}
nodes: {y: {op: relu, input: x}}
outputs: [y]
""",
    "activation": _X + 'dg.gemm(x, g.input("w", sizes=[3, 4], dtype="float32"), fused_activation="exp")\n',
    "name": 'dg.Graph().input("", sizes=[2], dtype="float32")\n',
    "unknown-node": _X + 'g.value("z")\n',
    "unknown-output": _X
    + 'dg.top_k1(x, axis=1, k=1, axis_direction="decreasing", name="best")\ng.value("best.index")\n',
    "left-out": """\
dmlgraph: 1
inputs: {x: {dtype: float32, sizes: [1, 1, 4, 4]}}
nodes:
  p: {op: max_pooling1, input: x, window_size: 2, strides: 2}
  y: {op: cast, input: p.output_indices, output: {dtype: float32}}
outputs: [y]
""",
    "unknown-dim": 'dg.Graph(dims={"N": 8}).input("x", sizes=["M", 3], dtype="float32")\n',
    "not-a-value": _X + 'dg.add(x, "w")\n',
    "foreign-value": _X + 'dg.Graph("other").output("y", x)\n',
    "cycle": "dmlgraph: 1\nnodes: {a: {op: exp, input: b}, b: {op: exp, input: a}}\noutputs: [a]\n",
    "unknown-template": _TEMPLATE.format("", _BLOCK, "{use: blok, x: x}"),
    "recursion": _TEMPLATE.format("", "{use: block, x: x}", "{use: block, x: x}"),
    "copies": _TEMPLATE.format("", _BLOCK, "{use: block, repeat: 2, x: [x, x, x]}"),
    "fixed-dim": """\
g = dg.loads(\"\"\"
dmlgraph: 1
dims: {layers: 2}
inputs: {x: {dtype: float32, sizes: [2]}}
templates: {block: {inputs: [x], nodes: {y: {op: exp, input: x}}, outputs: [y]}}
nodes: {tower: {use: block, repeat: layers, x: {first: x, then: y}}}
outputs: [tower]
\"\"\")
g.with_dims({"layers": 4})
""",
    "no-outputs": "dg.Graph().lower()\n",
    "unknown-rule": _EXP + 'g.compile("cpu", fuse=["faster"])\n',
    "other-graph": """\
from unittest import mock

from dmlgraph.devices.recipe import SharedFile

with open("graph.yaml", "w") as file:
    file.write("dmlgraph: 1\\ninputs: {x: {dtype: float32, sizes: [2]}}\\noutputs: [x]\\n")
with mock.patch("platform.node", lambda: "worker7"):  # a machine that has another file under the path
    SharedFile("graph.yaml", None, digest="0" * 64).graph
""",
    "fused-graph": "from dmlgraph.passes import fuse\n\n" + _EXP + 'fuse(g).graph.save("fused.onnx")\n',
    "unreadable": 'dg.load("nowhere.yaml")\n',
    "other-results": """\
from pathlib import Path

from dmlgraph.distributed.results import Results

results = Results(Path("results"), {"y": dg.DataType.FLOAT32})  # as run_chunks writes them
results.claim({"graph": "classify"})
results.claim({"graph": "segment"})
""",
    "unwritable": "$ dmlgraph show graph.yaml -o nowhere/graph.svg\n",
    "system": """\
$ ln -s nowhere results
$ dmlgraph run graph.yaml --device reference --input x=x.npy --input z=x.npy --output-dir results
""",
    "syntax": "dmlgraph: 1\noutputs: [x\n",
    "empty-file": 'open("empty.yaml", "w").close()\ndg.load("empty.yaml")\n',
    "folder": 'import os\nos.mkdir("model")\ndg.generation.Generator("model")\n',
    "file-kind": 'open("model.onnx", "w").write("<!DOCTYPE html>")\ndg.load("model.onnx")\n',
    "version": "dmlgraph: 2\ninputs: {x: {dtype: float32, sizes: [2]}}\noutputs: [x]\n",
    "array-file": "$ dmlgraph run graph.yaml --input x=graph.yaml\n",
    "outside-folder": "dmlgraph: 1\nconstants: {k: {file: ../weights.npy}}\noutputs: [k]\n",
    "file-name": "dmlgraph: 1\nconstants: {k: {file: aux.npy}}\noutputs: [k]\n",
    "no-folder": 'dg.loads("{dmlgraph: 1, constants: {k: {file: weights.npy}}, outputs: [k]}")\n',
    "unknown-resource": """\
import json

model = {"resources": {}, "dispatchables": {}, "commands": [{"type": "print", "resource": "y"}]}
open("model.json", "w").write(json.dumps(model))
dg.load_dxdispatch("model.json")
""",
    "unsupported": """\
import json

dispatch = {"type": "dispatch", "dispatchable": "d"}
model = {"resources": {}, "dispatchables": {"d": {"type": "hlsl"}}, "commands": [dispatch]}
open("model.json", "w").write(json.dumps(model))
dg.load_dxdispatch("model.json")
""",
    "model": """\
open("model.onnx", "wb").write(b"a graph")
dg.load("model.onnx")
""",
    "opset": _MODEL.format(opset=99, x="float[2]", nodes="y = Relu (x)"),
    "unknown-value": _MODEL.format(opset=21, x="float[2]", nodes="y = NonZero (x)"),
    "empty-tensor": _MODEL.format(opset=21, x="float[0, 2]", nodes="y = Relu (x)"),
    "extra": """\
import sys
from unittest import mock

with mock.patch.dict(sys.modules, {"onnx_ir": None}):  # as where it is not installed
    dg.load("model.onnx")
""",
    "too-many": """\
names = "".join(f"  x{number}: {{dtype: float}}\\n" for number in range(4000))
dg.loads(f"dmlgraph: 1\\ninputs:\\n{names}outputs: [x0]\\n")
""",
    "strict": "$ dmlgraph check --strict graph.yaml\n",
    "no-derivative": _X + 's = g.constant("s", np.ones(1, "f4"))\nz = g.constant("z", np.zeros(1, "u1"))\n'
    'y = dg.dequantize_linear(dg.cast(x, dtype="uint8"), s, z)\ndg.gradient(dg.reduce(y, function="sum"), [s])\n',
    "independent": _X + 'z = g.input("z", sizes=[1], dtype="float32")\n'
    'dg.gradient(dg.reduce(x, function="sum"), [z])\n',
    "not-a-state": _X + "g.update(x, dg.exp(x))\n",
    "not-an-input": _STATE + 'g.make_state("s")\n',
    "decoder": _X + 'dg.generation.Generator(g)\n',
    "states": _STATE + 'dg.save_dxdispatch(g, "model.json")\n',
    "capacity": _STATE + 'exe = g.compile("cpu")\nexe.run({"x": np.ones((2, 3), "f4")}, steps=2)\n',
    "unknown-state": _STATE + 'g.compile("cpu").states["t"]\n',
    "missing-input": _RUN + "exe.run({})\n",
    "unknown-array": _RUN + _DATA + 'exe.run({"x": data, "z": data})\n',
    "other-device": _RUN
    + _DATA
    + """\
kept = g.compile("cpu").run({"x": data}, keep=["y"])["y"]
exe.run({"x": kept})
""",
    "read-only": _RUN + _DATA + 'data.flags.writeable = False\nexe.run({"x": data}, out={"y": data})\n',
    "closed": _RUN + _DATA + 'exe.close()\nexe.run({"x": data})\n',
    "cancelled": "from dmlgraph import _native\n\n"
    + _ADAPTER
    + _DATA
    + """\
cancellation = _native.Cancellation()  # what Ctrl-C in another thread asks for
cancellation.cancel()
exe._run_native([], [data], [np.empty_like(data)], cancellation)
""",
    "memory": 'dg.Graph().constant("k", np.broadcast_to(np.float32(0), (2**20, 2**20, 2**10)))\n',
    "unknown-device": _EXP + 'g.compile("cuda")\n',
    "adapter": _EXP + 'g.compile("directml:99")\n',
    "native-module": """\
import sys
from unittest import mock

with mock.patch.dict(sys.modules, {"dmlgraph.devices.directml.device": None}):  # as where it was not built
    dg.Graph().compile("directml")
""",
    "library": 'from dmlgraph.devices.directml.library import find_directml\n\nfind_directml("nowhere.so")\n',
    "install": """\
import os
from pathlib import Path
from unittest import mock

from dmlgraph.devices.directml.install import install

with mock.patch.dict(os.environ, DMLGRAPH_CACHE_DIR="cache"):
    install(Path("torch_directml.whl"))
""",
    "software-adapter": """\
import sys
from unittest import mock

from dmlgraph.devices.directml.software import llvm

with mock.patch.dict(sys.modules, {"llvmlite": None}):  # as where it is not installed
    raise llvm.lacking()
""",
    "shader": 'from dmlgraph.devices.directml.software.container import read_module\n\nread_module(b"HLSL")\n',
    "refused": """\
import dataclasses

from dmlgraph.devices.directml.device import DirectMLDevice

"""
    + _EXP
    + """\
torn = dataclasses.replace(g.lower(), input_edges=())  # nothing feeds the input of the node
DirectMLDevice("software").compile(torn, reason="")
""",
    "directml": "from dmlgraph import _native\n\n"
    + _ADAPTER
    + """\
(node,) = exe.graph.nodes
torn = _native.GraphDesc("torn", [], [("y", 24, "back")], [(node.name, node.operator.native())], [], [(7, 0, 0)], [])
_native.Executable(exe._native.device, torn)  # an edge from a node that does not exist
""",
    "debug-layer": _EXP + 'g.compile("directml:software", debug=True)\n',
    "bundle": """\
from dmlgraph.distributed import sweep

g = dg.Graph("g")
g.output("y", dg.exp(g.input("x", sizes=[8], dtype="float32")))
sweep([g], most_bytes=100)
""",
    "cluster": """\
from dmlgraph.distributed import connect

with connect("nowhere"):
    pass
""",
    "device-removed": _ADAPTER
    + _DATA
    + 'exe._native.device.remove()  # as a driver that fails does\nexe.run({"x": data})\n',
    "plan": """\
from unittest import mock

from dmlgraph.devices.cpu.plan import Plan

g = dg.Graph("g")
g.output("y", dg.exp(g.input("x", sizes=[2], dtype="float32")))
wrong = Plan([], [], [7])
with mock.patch("dmlgraph.devices.cpu.executable.make_plan", return_value=wrong):  # as a mistake in it may do
    g.compile("cpu")
""",
    "evaluation": """\
from unittest import mock

g = dg.Graph()
x = g.input("x", sizes=[6], dtype="uint8")
scale, zero_point = (g.input(name, sizes=[n], dtype=t) for name, n, t in (("s", 2, "float32"), ("z", 3, "uint8")))
g.output("y", dg.dequantize(x, [scale, zero_point], quantization_type="scale_zero_point"))
exe = g.compile("cpu")  # where NumPy computes this node: blocks of 3 and of 2 elements overlap
operator = type(exe.graph.nodes[-1].operator)
with mock.patch.object(operator, "evaluate", side_effect=ArithmeticError("it went wrong")):
    exe.run({"x": np.zeros(6, "uint8"), "s": np.ones(2, "float32"), "z": np.zeros(3, "uint8")})
""",
}


@contextlib.contextmanager
def folder() -> Iterator[None]:
    """Within the context the current folder is a new one."""
    before = pathlib.Path.cwd()
    with tempfile.TemporaryDirectory() as new:
        os.chdir(new)
        try:
            yield
        finally:
            os.chdir(before)


def told(example: str) -> list[dg.Problem] | str:
    """The problems that an example provokes; for a command, its output about them."""
    with folder():
        np.save("x.npy", np.zeros(2, np.float32))
        pathlib.Path("graph.yaml").write_text(example if example.startswith("dmlgraph:") else GRAPH, encoding="utf-8")
        if example.startswith("$"):
            return "".join(_said(line.removeprefix("$ ")) for line in example.splitlines())
        try:
            if example.startswith("dmlgraph:"):
                return dg.load("graph.yaml").warnings()
            exec(example, {"dg": dg, "np": np})
        except dg.DmlGraphError as error:
            return list(error.problems)
    return []


def _said(command: str) -> str:
    """The standard error of a command."""
    program, *arguments = shlex.split(command)
    if program == "dmlgraph":
        return CliRunner(env={"NO_COLOR": "1"}).invoke(main, arguments).stderr
    return subprocess.run([program, *arguments], stderr=subprocess.PIPE, text=True, check=True).stderr


def shown(code: str) -> str:
    """The message for the example of a code: the first of its problems with this code."""
    found = told(EXAMPLES[code])
    if isinstance(found, str):
        return found
    problem = next((each for each in found if each.code == code), None)
    return "" if problem is None else "".join(f"{line}\n" for line in lines(problem))
