"""Exported C++, compiled with the official headers and run on the software adapter: the same bits as Python's.

The folder of the official headers is that of test_abi.py.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from support.cpp_export import FOLDERS, INCLUDE, MINGW, SOURCES, WARNINGS, Program, assert_same_bits, compiled, require
from support.every_operator import every_operator

import dmlgraph as dg
from dmlgraph.base.levels import NEWEST, FeatureLevel
from dmlgraph.formats import cpp
from dmlgraph.testing import random_inputs

CONTRACT = pathlib.Path(__file__).parent / "contract.cpp"
ROOT = pathlib.Path(__file__).parents[3]
LEVEL = FeatureLevel.V6_2  # of the library for Linux


@pytest.fixture(autouse=True)
def _can_compile() -> None:
    require()


def test_every_operator_computes_the_same_bits(tmp_path: pathlib.Path) -> None:
    graph, inputs = every_operator(LEVEL)
    assert len(graph.outputs) > 170
    cpp.save(graph, tmp_path, fuse=False, level=LEVEL)
    got = Program(tmp_path).run(graph, inputs)
    assert_same_bits(got, graph.compile("directml:software", fuse=False).run(inputs))


def cache() -> dg.Graph:
    """What a decoder has: a cache that grows, a state that is replaced, weights, a strided input and 4-bit numbers."""
    g = dg.Graph("random", dims={"capacity": 8})  # as a function of C
    x = g.input("x", sizes=[2, 1, 3], strides=[1, 6, 2], dtype="float32")
    w = g.constant("w", np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 4, 3))
    keys = g.state("keys", sizes=[2, "capacity", 3], dtype="float32", grows=1)
    g.append(keys, x)
    mean = g.state("mean", sizes=[2, 4, 3], dtype="float32", initial=0.5)
    after = mean * 0.5 + (x + w)
    g.update(mean, after)
    g.output("mean", after)
    g.output("keys.now", dg.identity(keys))
    g.output("length", dg.identity(keys.length))
    return g


# With sanitizers, which must be loaded first.  COM objects have other types in the library that makes them.
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize=vptr", "-fno-sanitize-recover=undefined")
RUN = f"""
import os, pathlib, sys
del os.environ["LD_PRELOAD"]  # the compiler does not need them
from support.cpp_export import Program
print(*Program(pathlib.Path(sys.argv[1]), options={SANITIZED})(*sys.argv[2:]))
"""


def library(name: str) -> str:
    """The file of one of the compiler's libraries."""
    command = ["g++", f"-print-file-name={name}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_states_go_on_and_begin_again_after_a_lost_device(tmp_path: pathlib.Path, directml_path: pathlib.Path) -> None:
    graph = cache()
    inputs = random_inputs(graph, 1)
    cpp.save(graph, tmp_path, level=LEVEL)
    np.save(tmp_path / "x.npy", inputs["x"])
    # The third of four executions is lost, and a device can be made only when all of the other is released.
    strict = {"DMLGRAPH_DIRECTML": str(directml_path), "DMLGRAPH_SOFTWARE_STRICT": "validation,one_device,remove_at=3"}
    settings = {
        "LD_PRELOAD": " ".join(map(library, ("libasan.so", "libstdc++.so"))),  # the second for exceptions
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter keeps memory
        "PYTHONPATH": str(ROOT / "tests"),
    }
    files = ["--weights", str(tmp_path / "weights.bin"), f"x={tmp_path / 'x.npy'}"]
    command = [sys.executable, "-P", "-c", RUN, str(tmp_path), "--steps", "3", "-o", str(tmp_path), *files]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=os.environ | strict | settings)
    assert done.stdout.startswith("0 "), done.stdout + done.stderr
    assert len(re.findall(r"the device was lost: \S+ failed with 0x887A000[56]; starting again", done.stdout)) == 1
    expected = graph.compile("directml:software").run(inputs, steps=3, collect=list(graph.outputs))
    assert_same_bits({name: np.load(tmp_path / f"{name}.npy") for name in expected}, expected)


def contract() -> dg.Graph:
    g = dg.Graph("contract", dims={"capacity": 4}, target=str(LEVEL))
    x = g.input("x", sizes=[2], dtype="float32")
    added = [g.constant(f"w{index}", np.full(20, index, np.float32)) for index in (1, 2)]
    rows = g.state("rows", sizes=["capacity"], dtype="float32", grows=0)
    g.append(rows, x)
    total = g.state("total", sizes=[1], dtype="float32", initial=10)
    sums = [dg.reduce(value, function="sum", axes=[0]) for value in (x, *added, rows)]
    after = total + sums[0] + sums[1] + sums[2]
    g.update(total, after)
    g.output("y", after + sums[3] + dg.cast(rows.length, dtype="float32"))
    return g


def test_an_engine_can_rely_on_the_class(tmp_path: pathlib.Path) -> None:
    cpp.save(contract(), tmp_path, most_bytes=100, fuse=False)  # the weights are split over two buffers
    assert (tmp_path / "graph.h").read_text("utf-8").count(", 80, false},") == 2
    shutil.copy(CONTRACT, tmp_path)
    program = Program(tmp_path, "contract", options=("-Wall", "-Wextra", "-Werror", "-Wl,-Bsymbolic"))
    status, text = program(tmp_path / "weights.bin", 20 * (1 + 2))
    # What the adapter says of a buffer in another state than is documented: it meets the barriers of the wanted kind.
    met = re.findall(r"(\w+): the transition of ID3D12Resource [^\n]* from (\w+) to (\w+)", text)
    wanted = "UNORDERED_ACCESS", "COPY_DEST"
    assert (status, met, text.count("\n")) == (0, [("ResourceBarrier", *wanted), ("Barrier", *wanted)], 2), text


def step(count: int) -> dg.Graph:
    """Rows that are made with weights go behind those of a state."""
    g = dg.Graph("step")
    x = g.input("x", sizes=[count, 8], dtype="float32")
    w = g.constant("w", np.arange(64, dtype=np.float32).reshape(8, 8))
    keys = g.state("keys", sizes=[8, 8], dtype="float32", grows=0)
    g.append(keys, dg.gemm(x, w))
    g.output("y", dg.identity(keys))
    return g


def test_several_graphs_read_the_same_weights_and_states(tmp_path: pathlib.Path) -> None:
    cpp.save({"four": step(4), "one": step(1)}, tmp_path, level=LEVEL)
    assert (tmp_path / "weights.bin").stat().st_size == 256
    shutil.copy(CONTRACT.with_name("shared.cpp"), tmp_path)
    program = Program(tmp_path, "shared", graphs=("four", "one"))
    assert program(tmp_path / "weights.bin") == (0, "")


def test_the_program_says_what_is_wrong(tmp_path: pathlib.Path) -> None:
    g = dg.Graph("newer")
    scale = g.constant("scale", np.ones((1, 1, 1, 1), np.float32))
    x = g.input("x", sizes=[1, 1, 1, 4], dtype="float32")
    rounded = dg.quantize(x, [scale], quantization_type="scale", output={"dtype": "int8"}, name="rounded")
    g.output("y", rounded)
    cpp.save(g, tmp_path, fuse=False)
    program = Program(tmp_path, options=(*WARNINGS, "-DDML_IS_SHIPPED"))
    np.save(tmp_path / "x.npy", np.ones((1, 1, 1, 4), np.float32))
    np.save(tmp_path / "short.npy", np.ones(3, np.float32))
    weights = "--weights", tmp_path / "weights.bin"
    status, text = program(*weights, f"x={tmp_path / 'x.npy'}")
    assert status == 1
    assert "CheckFeatureSupport of the feature level failed with 0x887A0004, at 'rounded'" in text
    assert "feature level 6.3" in text
    # The headers are those of DirectML 1.15, and the library for Linux is older.
    older = "libdirectml.so is older than the DirectML that this program ships: it does not have feature level 6.4"
    assert older in text
    for arguments, status, said in (
        ((), 2, "there is no file for the input 'x'"),
        (("y=y.npy",), 2, "there is no file for the input 'x'"),
        ((f"x={tmp_path / 'x.npy'}", "y=y.npy"), 2, "the graph has no input 'y'"),
        (("--steps",), 2, "nothing follows --steps"),
        (("--steps", "0"), 2, "--steps is a number above 0"),
        ((f"x={tmp_path / 'none.npy'}",), 1, "is not a .npy file that can be read"),
        ((f"x={tmp_path / 'short.npy'}",), 1, "and 'x' is float32 (1, 1, 1, 4) in C order"),
    ):
        got, text = program(*arguments)
        assert (got, said in text) == (status, True), text


def test_windows_compiles_it_without_warnings(tmp_path: pathlib.Path) -> None:
    if shutil.which(MINGW) is None:
        pytest.skip(f"{MINGW} is not installed")
    headers = tmp_path / "headers"
    headers.mkdir()
    (headers / "directx").symlink_to(INCLUDE / "directx")  # the rest of the folder is not for Windows
    # This compiler's system headers lack the annotation, and those of DirectML have pragmas of others.
    options = ("-std=c++17", *WARNINGS, "-D_Maybenull_=", "-fsyntax-only", f"-isystem{headers}/directx")
    cpp.save(every_operator(NEWEST)[0], tmp_path / "all", fuse=False)  # those that no library for Linux has, too
    cpp.save(chain(), tmp_path / "chain", self_check=True)
    for folder, sources in (("all", (*SOURCES, "main.cpp")), ("chain", ("self_check.cpp",))):
        for source in sources:
            compiled([MINGW, *options, source], tmp_path / folder)


def test_cmake_builds_the_program(tmp_path: pathlib.Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    g = dg.Graph("ramp")
    g.output("y", g.fill_value_sequence(sizes=[3], dtype="float32", value_start=1, value_delta=1))
    cpp.save(g, tmp_path)
    configure = ["cmake", "-B", "build", f"-DDIRECTX_INCLUDE={INCLUDE}"]
    refused = subprocess.run(
        [*configure, "-DDML_REDIST=none"], check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert "there is no DirectML.dll in DML_REDIST," in refused.stderr
    (tmp_path / "DirectML.dll").touch()
    for command in ([*configure, f"-DDML_REDIST={tmp_path}"], ["cmake", "--build", "build"]):
        subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    built = tmp_path / "build"
    assert {"DirectML.dll", "weights.bin", "dml_ramp_main"} <= {path.name for path in built.iterdir()}
    # Outside of this process there is no DirectML.
    done = subprocess.run([built / "dml_ramp_main"], check=False, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, "libdirectml.so" in done.stderr) == (1, True)
    # Several graphs are built together, each beside the weights that they share.
    both = tmp_path / "both"
    cpp.save({"one": g, "two": g}, both)
    for command in (configure, ["cmake", "--build", "build", "--target", "dml_two_main"]):
        subprocess.run(command, check=True, capture_output=True, cwd=both)
    assert {"weights.bin", "dml_two_main"} <= {path.name for path in (both / "build" / "two").iterdir()}


def test_500_nodes_are_described_quickly(tmp_path: pathlib.Path) -> None:
    g = dg.Graph("long")
    value = g.input("x", sizes=[1, 3, 8, 8], dtype="float32")
    for index in range(500):
        value = dg.activation_elu(value, alpha=1 + index / 512)
    g.output("y", value)
    cpp.save(g, tmp_path, fuse=False)
    command = ["g++", "-std=c++17", "-fsyntax-only", *FOLDERS, "graph.cpp"]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path, timeout=60)


def chain() -> dg.Graph:
    """A few nodes, with float16 and integers among them."""
    g = dg.Graph("chain")
    x = g.input("x", sizes=[1, 2, 3, 4], dtype="float32")
    scaled = dg.activation_linear(x, alpha=2.5, beta=0.25, name="scaled")
    half = dg.cast(scaled, dtype="float16", name="half")
    root = dg.sqrt(dg.abs(half, name="size"), name="root")
    rounded = dg.cast(root, dtype="int32", name="rounded")
    total = g.state("total", sizes=[1, 2, 3, 4], dtype="int32", initial=3)
    g.update(total, dg.add(total, rounded, name="sum"))
    g.output("y", rounded)
    return g


def test_the_self_check_names_the_first_node_that_is_wrong(tmp_path: pathlib.Path) -> None:
    x = np.zeros((1, 2, 3, 4), np.float32)
    x[0, 1, 0, 2] = 4
    cpp.save(chain(), tmp_path, fuse=False, level=LEVEL, self_check=True, inputs={"x": x})
    files = "--weights", tmp_path / "weights.bin", "--expected", tmp_path / "expected.bin"
    assert Program(tmp_path, "self_check")(*files) == (0, "all of 6 outputs are as expected\n")

    wrong = tmp_path / "wrong"
    cpp.save(chain(), wrong, fuse=False, level=LEVEL, self_check=True, inputs={"x": x})
    text = (wrong / "graph.cpp").read_text("utf-8")
    assert text.count("2.5f,") == 1
    (wrong / "graph.cpp").write_text(text.replace("2.5f,", "3.5f,"), "utf-8")
    said = "element [0, 1, 0, 2] of 'scaled' (float32 (1, 2, 3, 4)): got 14.25, expected 10.25\n"
    assert Program(wrong, "self_check")(*files) == (1, f"the first node that differs is 'scaled': {said}")
