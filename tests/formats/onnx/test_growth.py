"""What an import costs: calls that grow as the model does, and memory."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.helper import make_node, make_tensor_value_info

import dmlgraph as dg

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
MIB = 1 << 20
Part = Callable[[int], list[onnx.NodeProto]]


def _gated(index: int) -> list[onnx.NodeProto]:
    """Element-wise nodes that all read one weight."""
    a, b, x, y = (f"/block.{index}/a", f"/block.{index}/b", f"x{index}", f"x{index + 1}")
    return [
        make_node("Add", [x, "w"], [a], name=f"/block.{index}/Add"),
        make_node("Sigmoid", [a], [b], name=f"/block.{index}/Sigmoid"),
        make_node("Mul", [a, b], [y], name=f"/block.{index}/Mul"),
    ]


def _shaped(index: int) -> list[onnx.NodeProto]:
    """A reshape as PyTorch writes it, and back; unnamed nodes."""
    shape, first, to, there = (f"{name}{index}" for name in ("shape", "first", "to", "there"))
    return [
        make_node("Shape", [f"x{index}"], [shape]),
        make_node("Gather", [shape, "zero"], [first]),
        make_node("Concat", [first, "eight", "eight"], [to], axis=0),
        make_node("Reshape", [f"x{index}", to], [there]),
        make_node("Reshape", [there, shape], [f"x{index + 1}"]),
    ]


def _same_name(index: int) -> list[onnx.NodeProto]:
    """Nodes that all have one name, of which each becomes several: a product with a matrix."""
    return [make_node("MatMul", [f"x{index}", "m"], [f"x{index + 1}"], name="MatMul")]


def _model(part: Part, count: int) -> onnx.ModelProto:
    nodes = [node for index in range(count) for node in part(index)]
    infos = [make_tensor_value_info(name, FLOAT, [2, 1, 64]) for name in ("x0", f"x{count}")]
    weights: dict[str, np.ndarray] = {
        "w": np.ones(64, np.float32),
        "m": np.eye(64, dtype=np.float32),
        "zero": np.zeros(1, np.int64),
        "eight": np.array([8], np.int64),
    }
    data = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    return onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "g", infos[:1], infos[1:], data),
        opset_imports=[onnx.helper.make_opsetid("", 17)],
        ir_version=8,
    )


def _calls(path: pathlib.Path) -> int:
    """The number of Python calls of an import."""
    count = 0

    def seen(_: Any, event: str, __: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        dg.load(path)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("part", [_gated, _shaped, _same_name], ids=lambda each: each.__name__)
def test_calls_grow_with_the_number_of_nodes(part: Part, tmp_path: pathlib.Path) -> None:
    """Twice the nodes, twice the calls: what looks at all nodes for each would make it four times."""
    counts = []
    for size in (20, 100, 200):  # the first fills caches
        onnx.save_model(_model(part, size), tmp_path / f"{size}.onnx")
        counts.append(_calls(tmp_path / f"{size}.onnx"))
    assert counts[2] < 2.1 * counts[1]


def test_a_schema_is_read_once_for_all_nodes(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dmlgraph.formats.onnx import checking, definitions

    asked: list[str] = []
    found = onnx.defs.get_schema

    def get_schema(operator: str, *rest: Any) -> Any:
        asked.append(operator)
        return found(operator, *rest)

    monkeypatch.setattr(onnx.defs, "get_schema", get_schema)
    definitions.schema.cache_clear()
    checking.signature.cache_clear()
    onnx.save_model(_model(_gated, 50), tmp_path / "model.onnx")
    dg.load(tmp_path / "model.onnx")
    assert len(asked) == len(set(asked))
    assert {"Add", "Sigmoid", "Mul"} <= set(asked)


# Memory.

_MEASURE = """
import resource, sys
import dmlgraph as dg
from dmlgraph.formats.onnx import importer, model, table

table.rows()
unit = 1 if sys.platform == "darwin" else 1024
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
try:
    print(len(dg.load(sys.argv[1]).nodes))
except dg.DmlGraphError as error:
    print(error.code)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - before)
"""


def _loaded(path: pathlib.Path) -> tuple[str, int]:
    """What a process says of a model, and the bytes of memory that it took."""
    pytest.importorskip("resource")
    command = [sys.executable, "-P", "-c", _MEASURE, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said, used = done.stdout.split()
    return said, int(used)


def _external(folder: pathlib.Path, dims: list[int], stored: int, length: int | None) -> pathlib.Path:
    """A model that adds an external tensor, whose file is sparse."""
    with (folder / "w.bin").open("wb") as stream:
        stream.truncate(stored)
    tensor = onnx.TensorProto(name="w", data_type=FLOAT, dims=dims, data_location=onnx.TensorProto.EXTERNAL)
    given = {"location": "w.bin", "offset": "0"} | ({} if length is None else {"length": str(length)})
    for key, value in given.items():
        tensor.external_data.add(key=key, value=value)
    infos = [make_tensor_value_info(name, FLOAT, [1]) for name in "xy"]
    graph = onnx.helper.make_graph([make_node("Add", ["x", "w"], ["y"])], "g", infos[:1], infos[1:], [tensor])
    onnx.save_model(onnx.helper.make_model(graph, ir_version=8), folder / "model.onnx")
    return folder / "model.onnx"


def test_external_data_takes_at_most_twice_its_size(tmp_path: pathlib.Path) -> None:
    """The mapped file, and the constant."""
    size = 128 * MIB
    said, used = _loaded(_external(tmp_path, [size // 4], size, size))
    assert int(said) >= 3
    assert used < 2.3 * size


@pytest.mark.parametrize(
    ("dims", "length"),
    [([1 << 40], None), ([1 << 40], 16), ([1 << 62, 4], None), ([-1], None), ([4], 1 << 40)],
    ids=["too large", "larger than its length", "above 64 bits", "negative", "a length beyond the file"],
)
def test_a_size_that_the_file_does_not_have_is_refused_before_memory_is_taken(
    tmp_path: pathlib.Path, dims: list[int], length: int | None
) -> None:
    path = _external(tmp_path, dims, 16, length)
    with pytest.raises(dg.ModelError) as caught:
        dg.load(path)
    assert (caught.value.code, caught.value.node) == ("model", "w")


def test_external_data_behind_a_link_out_of_the_folder_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "inner").mkdir()
    path = _external(tmp_path / "inner", [4], 16, 16)
    (tmp_path / "inner" / "w.bin").rename(tmp_path / "outside.bin")
    try:
        (tmp_path / "inner" / "w.bin").symlink_to(tmp_path / "outside.bin")
    except OSError:
        pytest.skip("links cannot be made here")
    with pytest.raises(dg.ModelError) as caught:
        dg.load(path)
    assert (caught.value.code, caught.value.node) == ("outside-folder", "w")


def test_a_large_fill_stays_one_number(tmp_path: pathlib.Path) -> None:
    """Neither its other forms nor its conversion take the memory of its elements, 8 GB."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[4] x) => (float[a, b] y) <int64[1] n = {2000000000}, int64[2] s = {4, 500000000}> {
        ones = ConstantOfShape <value = float[1] {1.0}> (n)
        r = Reshape (ones, s)
        h = Cast <to = 10> (r)
        t = Transpose (h)
        f = Cast <to = 1> (t)
        y = Add (f, x)
    }"""
    onnx.save_model(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    said, used = _loaded(tmp_path / "model.onnx")
    assert int(said) == 7
    assert used < 200 * MIB
