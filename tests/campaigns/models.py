"""Damaged ONNX models: bits flipped, truncated, nodes and sizes changed; a message each."""

from __future__ import annotations

import functools
import pathlib
import random
import resource
import tempfile
import warnings
from typing import Any

import numpy as np
import onnx
from support.onnx.node_cases import cases

import dmlgraph as dg
from campaigns.campaign import Campaign

MOST_MEMORY = 2 << 30  # bytes of the process
HUGE = (0, -1, 7, 2**31, 2**40, 2**62)
NAMES = ("", "/", "a//b", "a/", " ", "a", "a_1", "a.output", "fill_value_constant", "\t\0", "層" * 900, "x/" * 900)
PLACES = ("w.bin", "../w.bin", "/etc/hostname", "", "gone.bin", "sub/../w.bin", "link.bin", "a\0b", "w" * 300)


@functools.cache
def _models() -> list[bytes]:
    """The models of the node cases, of which most have one node, and a small network."""
    return [*(case.model.SerializeToString() for case in cases()), *[_network().SerializeToString()] * 200]


def _network() -> onnx.ModelProto:
    """A model with initializers, shapes that are computed, a condition and a function."""
    text = """
    <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
    net (float[batch, 3, 8, 8] x) => (float[n, m] y)
    <float[4, 3, 3, 3] w = {FILTER}, int64[1] minus = {-1}, bool flag = {1}>
    {
        c = Conv <pads = [1, 1, 1, 1]> (x, w)
        r = local.twice (c)
        s = Shape (r)
        zero = Constant <value_ints = [0]> ()
        n = Gather (s, zero)
        to = Concat <axis = 0> (n, minus)
        f = Reshape (r, to)
        y = If (flag) <then_branch = a () => (float[n, m] p) { p = Relu (f) },
                       else_branch = b () => (float[n, m] q) { q = Neg (f) }>
    }
    <domain: "local", opset_import: ["" : 21]>
    twice (v) => (o) { o = Add (v, v) }
    """
    return onnx.parser.parse_model(text.replace("FILTER", ", ".join(["0.5"] * 108)))


def one_case(seed: int) -> str | None:
    rng = random.Random(seed)
    data = bytearray(rng.choice(_models()))
    rng.choice((_flip, _cut, _join, _change))(data, rng)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = pathlib.Path(folder) / "model.onnx"
        path.write_bytes(data)
        (path.parent / "w.bin").write_bytes(bytes(64))
        (path.parent / "link.bin").symlink_to("/etc/hostname")
        try:
            graph = dg.load(path, dims={}, values=_values(rng))
            graph.lower(fuse=False)
        except dg.DmlGraphError as error:
            if not str(error).strip():
                return "an error without a message"
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return f"{used} bytes of memory" if used > MOST_MEMORY else None


def _values(rng: random.Random) -> dict[str, Any]:
    return {} if rng.random() < 0.7 else {"shape": np.array([rng.choice(HUGE), 2]), "x": np.zeros((2, 3), np.float32)}


def _flip(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.randint(1, 20)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def _join(data: bytearray, rng: random.Random) -> None:
    """A part of one model in another."""
    other = rng.choice(_models())
    start = rng.randrange(len(other))
    place = rng.randrange(len(data))
    data[place : place + rng.randrange(8)] = other[start : start + rng.randrange(64)]


def _change(data: bytearray, rng: random.Random) -> None:
    """A model that can be read with wrong names, numbers or types."""
    model = onnx.ModelProto.FromString(bytes(data))
    graph = model.graph
    for _ in range(rng.randint(1, 4)):
        node = rng.choice(graph.node) if graph.node else None
        names = [name for each in graph.node for name in (*each.input, *each.output)] or ["x"]
        what = rng.randrange(9)
        if node is not None and what == 0 and node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice([*names, "nowhere", ""])
        elif node is not None and what == 1 and node.output:
            node.output[rng.randrange(len(node.output))] = rng.choice(names)
        elif node is not None and what == 2 and node.attribute:
            _wrong_attribute(rng.choice(node.attribute), rng)
        elif node is not None and what == 3:
            node.op_type = rng.choice(
                ["Reshape", "Conv", "Concat", "Slice", "Gather", "Range", "Expand", "Tile", "Pad"]
            )
        elif what == 4 and graph.input:
            _wrong_type(rng.choice(graph.input).type.tensor_type, rng)
        elif what == 5:
            model.opset_import[0].version = rng.choice([0, 1, 7, 11, 13, 21, 999])
        elif what == 6 and graph.initializer:
            tensor = rng.choice(graph.initializer)
            tensor.dims.append(rng.choice(HUGE))
        elif what == 7 and graph.initializer:
            _make_external(rng.choice(graph.initializer), rng)
        elif node is not None and what == 8:
            node.name = rng.choice(NAMES)
    data[:] = model.SerializeToString()


def _make_external(tensor: onnx.TensorProto, rng: random.Random) -> None:
    """A tensor in a file, which may be elsewhere, missing or too short."""
    tensor.ClearField("raw_data")
    tensor.ClearField("float_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    given = {"location": rng.choice(PLACES), "offset": str(rng.choice((0, 4, *HUGE))), "length": str(rng.choice(HUGE))}
    for key, value in given.items():
        if rng.random() < 0.8:
            tensor.external_data.add(key=key, value=value)


def _wrong_attribute(attribute: onnx.AttributeProto, rng: random.Random) -> None:
    kind = rng.randrange(4)
    if kind == 0:
        attribute.i = rng.choice(HUGE)
    elif kind == 1:
        attribute.ints.append(rng.choice(HUGE))
    elif kind == 2:
        attribute.type = rng.choice([1, 2, 3, 4, 5, 6, 7, 8])  # type: ignore[assignment]
    else:
        attribute.name = rng.choice(["axis", "pads", "to", "nothing"])


def _wrong_type(tensor: onnx.TypeProto.Tensor, rng: random.Random) -> None:
    if rng.random() < 0.5 or not tensor.shape.dim:
        tensor.elem_type = rng.randrange(24)
    else:
        tensor.shape.dim[rng.randrange(len(tensor.shape.dim))].dim_value = rng.choice(HUGE)


CAMPAIGN = Campaign("models", "damaged ONNX models: a message each", one_case, hang_seconds=120)
