"""Constants in safetensors files: written by us, read from anyone."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.formats import yaml as document

W = np.arange(100, dtype=np.float32).reshape(10, 10)


def packed(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def graph_file(folder: pathlib.Path, constant: str) -> pathlib.Path:
    path = folder / "graph.yaml"
    path.write_text(f"dmlgraph: 1\nconstants: {{w: {constant}}}\noutputs: [w]\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("dtype", [str(each) for each in dg.DataType])
def test_large_constants_of_every_type_come_back(tmp_path: pathlib.Path, dtype: str) -> None:
    graph = dg.Graph()
    values = (np.arange(100).reshape(4, 25) % 7).astype(dg.DataType.parse(dtype).numpy)
    graph.output("y", graph.constant("layer.0/w", values))
    graph.output("z", graph.constant("v", values[::2]))
    document.save(graph, tmp_path / "graph.yaml", weights="weights.safetensors")
    assert {each.name for each in tmp_path.iterdir()} == {"graph.yaml", "weights.safetensors"}
    again = dg.load(tmp_path / "graph.yaml")
    for name in ("layer.0/w", "v"):
        before, after = graph.node(name).data, again.node(name).data  # type: ignore[union-attr]
        assert after.dtype == before.dtype
        np.testing.assert_array_equal(after, before)


def test_the_file_is_as_its_format_says(tmp_path: pathlib.Path) -> None:
    graph = dg.Graph()
    graph.output("y", graph.constant("w", W))
    document.save(graph, tmp_path / "graph.yaml", weights="weights.safetensors")
    data = (tmp_path / "weights.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert length % 8 == 0
    assert json.loads(data[8 : 8 + length]) == {"w": {"dtype": "F32", "shape": [10, 10], "data_offsets": [0, 400]}}
    assert data[8 + length :] == W.tobytes()


def test_a_file_of_others_is_read(tmp_path: pathlib.Path) -> None:
    header = {"__metadata__": {"format": "pt"}, "a": {"dtype": "BOOL", "shape": [3], "data_offsets": [0, 3]}}
    (tmp_path / "w.safetensors").write_bytes(packed(header, b"\1\0\1"))
    graph = dg.load(graph_file(tmp_path, "{file: w.safetensors, tensor: a}"))
    assert graph.node("w").data.tolist() == [1, 0, 1]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("constant", "code", "field"),
    [
        ("{file: w.safetensors}", "missing", "tensor"),
        ("{file: w.safetensors, tensor: b}", "unknown-array", "tensor"),
        ("{file: w.safetensors, tensor: 3}", "kind", "tensor"),
        ("{file: w.safetensors, tensor: a, dtype: int32}", "dtype", "dtype"),
        ("{file: w.safetensors, tensor: a, sizes: [4]}", "sizes", "sizes"),
        ("{file: w.npy, tensor: a}", "conflict", "tensor"),
        ("{file: ../w.safetensors, tensor: a}", "outside-folder", "file"),
        ("{file: v.safetensors, tensor: a}", "unreadable", "file"),
    ],
)
def test_a_wrong_constant_is_refused(tmp_path: pathlib.Path, constant: str, code: str, field: str) -> None:
    header = {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    (tmp_path / "w.safetensors").write_bytes(packed(header, bytes(4)))
    np.save(tmp_path / "w.npy", W)
    with pytest.raises(dg.DocumentError) as caught:
        dg.load(graph_file(tmp_path, constant))
    assert (caught.value.code, caught.value.field) == (code, field)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 20,
        packed(b"{"),
        packed(b"[" * 100_000),
        packed([]),
        packed({"a": 1}),
        packed({"a": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}, bytes(2)),
        packed({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}),
        packed({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 4]}}, bytes(4)),
        packed({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, bytes(4)),
        packed({"a": {"dtype": "F32", "shape": [1], "data_offsets": [-8, -4]}}, bytes(4)),
        packed({"a": {"dtype": [], "shape": [1], "data_offsets": [0, 4]}}, bytes(4)),
    ],
)
def test_a_broken_file_is_refused(tmp_path: pathlib.Path, data: bytes) -> None:
    (tmp_path / "w.safetensors").write_bytes(data)
    with pytest.raises(dg.DocumentError) as caught:
        dg.load(graph_file(tmp_path, "{file: w.safetensors, tensor: a}"))
    assert (caught.value.code, caught.value.field) == ("array-file", "file")


def entry(shape: list[int], begin: int, end: int) -> dict[str, object]:
    return {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}


ONE = json.dumps(entry([1], 0, 4))


@pytest.mark.parametrize(
    ("header", "length", "message"),
    [
        ({"a": entry([1], 4, 8)}, 8, "the bytes before 'a' belong to no tensor"),
        ({"a": entry([1], 0, 4), "b": entry([1], 8, 12)}, 12, "the bytes before 'b' belong to no tensor"),
        ({"a": entry([1], 0, 4)}, 12, "its last bytes belong to no tensor"),
        ({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, 12, "the bytes of 'a' and 'b' overlap"),
        ({"b": entry([1], 0, 4), "a": entry([1], 0, 4)}, 4, "the bytes of 'b' and 'a' overlap"),
        ({"a": entry([1], 0, 4), "b": entry([1], 4, 8)}, 4, "it is shorter than its header says"),
        ({"a": entry([2**62] * 60, 0, 4)}, 4, "the bytes of 'a' do not fit its shape"),
        (f'{{"a": {ONE}, "a": {ONE}}}'.encode(), 4, "its header has 'a' twice"),
        (b'{"a": {"dtype": "I8", ' + ONE[1:].encode() + b"}", 4, "its header has 'dtype' twice"),
        (f'{{"a": {ONE.replace("[1]", "[" + "9" * 5000 + "]")}}}'.encode(), 4, "a number in its header is too large"),
        (f'{{"a\\ud800": {ONE}}}'.encode(), 4, "is not Unicode text: 'a\\ud800'"),
        (f'{{"a": {ONE}}}'.encode("utf-16"), 4, "its header is not JSON"),
    ],
)
def test_what_is_wrong_with_a_header_is_said(tmp_path: pathlib.Path, header: object, length: int, message: str) -> None:
    (tmp_path / "w.safetensors").write_bytes(packed(header, bytes(length)))
    with pytest.raises(dg.DocumentError) as caught:
        dg.load(graph_file(tmp_path, "{file: w.safetensors, tensor: a}"))
    (problem,) = caught.value.problems
    assert (problem.code, problem.field, problem.got) == ("array-file", "file", "w.safetensors")
    assert message in problem.message
    assert problem.location is not None


@pytest.mark.parametrize(
    ("shape", "length", "code", "field"),
    [([1] * 65, 4, "rank", "sizes"), ([1] * 9, 4, "rank", "sizes"), ([2**62, 0], 0, "sizes", "sizes.1")],
)
def test_what_no_tensor_can_be_is_refused_before_it_is_read(
    tmp_path: pathlib.Path, shape: list[int], length: int, code: str, field: str
) -> None:
    header = {"b": entry([1], 0, 4), "a": entry(shape, 4, 4 + length)}
    (tmp_path / "w.safetensors").write_bytes(packed(header, bytes(4 + length)))
    assert dg.load(graph_file(tmp_path, "{file: w.safetensors, tensor: b}"))  # the others can be read
    with pytest.raises(dg.DocumentError) as caught:
        dg.load(graph_file(tmp_path, "{file: w.safetensors, tensor: a}"))
    (problem,) = caught.value.problems
    assert (problem.code, problem.field) == (code, field)
    assert problem.location is not None
