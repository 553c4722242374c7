"""Files are named for what they hold, whatever their names are."""

from __future__ import annotations

import gzip
import io
import json
import pathlib
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from support.problems import raises

import dmlgraph as dg
from dmlgraph.cli.commands import main
from dmlgraph.files.kinds import kind_of_bytes
from dmlgraph.formats import onnx as onnx_models

YAML = b"dmlgraph: 1\ninputs: {x: {dtype: float32, sizes: [2]}}\nnodes: {y: {op: identity, input: x}}\noutputs: [y]\n"
NAMES = ["model", "model.bin", "model.pb", "model.yaml", "model.onnx", "model.ONNX"]


def _model() -> onnx.ModelProto:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Identity (x) }'
    return onnx.parser.parse_model(text)


def _archive(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, b"123")
    return stream.getvalue()


def _tar() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("model.onnx"))
    return stream.getvalue()


def _npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.zeros(3))
    return stream.getvalue()


def _safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(4)


# TensorFlow's GraphDef {node {name, op}} and SavedModel {schema_version, meta_graphs}, by hand.
GRAPH_DEF = bytes([0x0A, 0x0A, 0x0A, 0x01]) + b"x" + bytes([0x12, 0x05]) + b"Const" + bytes([0x22, 0x02, 0x08, 0x11])
SAVED_MODEL = bytes([0x08, 0x01, 0x12, 0x04, 0x0A, 0x02, 0x0A, 0x00])
OTHERS = {
    "a pointer of Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
    "a web page": b"\n  <!DOCTYPE HTML>\n<html><body>Not found</body></html>",
    "XML": b'<?xml version="1.0"?>\n<net name="m" version="10"></net>',
    "text syntax": b'<ir_version: 8, opset_import: ["" : 17]> g () => () {}',
    "as text": b"ir_version: 8\ngraph { name: 'g' }\n",
    "as JSON": b'{\n "irVersion": "8", "graph": {}}',
    "a GGUF model": b"GGUF" + bytes(20),
    "TensorFlow Lite": b"\x1c\0\0\0TFL3" + bytes(20),
    "ONNX Runtime's own format": b"\x20\0\0\0ORTM" + bytes(20),
    "an HDF5 file": b"\x89HDF\r\n\x1a\n" + bytes(20),
    "an array of NumPy": _npy(),
    "an .npz archive": _archive("w.npy"),
    "PyTorch": _archive("archive/data.pkl", "archive/data/0"),
    "a zip archive": _archive("model.onnx"),
    "a gzip archive": gzip.compress(_model().SerializeToString()),
    "a tar archive": _tar(),
    "a Python pickle": pickle.dumps({"w": [1.0]}, protocol=2),
    "a safetensors file": _safetensors(),
    "an ONNX tensor": onnx.numpy_helper.from_array(np.zeros(300, np.float32), "w").SerializeToString(),
    "TensorFlow and Core ML": GRAPH_DEF,
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", OTHERS)
def test_other_files_are_named_for_what_they_are(what: str, name: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / name).write_bytes(OTHERS[what])
    for load in (dg.load, onnx_models.load):
        with pytest.raises(dg.DocumentError) as caught:
            load(tmp_path / name)
        (problem,) = caught.value.problems
        assert (problem.code, what in problem.message) == ("file-kind", True), problem
        assert problem.location is not None
        assert problem.location.file == str(tmp_path / name)


def test_a_saved_model_is_no_onnx_model() -> None:
    kind = kind_of_bytes(SAVED_MODEL)
    assert kind is not None
    assert "TensorFlow" in kind.what


@pytest.mark.parametrize("name", NAMES)
def test_models_and_graph_files_are_read_whatever_their_names(name: str, tmp_path: pathlib.Path) -> None:
    for data in (_model().SerializeToString(), YAML, b"\xef\xbb\xbf" + YAML):
        (tmp_path / name).write_bytes(data)
        graph = dg.load(tmp_path / name)
        result = graph.compile("reference").run({"x": np.array([-1, 2], np.float32)})
        np.testing.assert_array_equal(result["y"], [-1, 2])


def test_a_model_is_recognized_with_its_fields_in_any_order() -> None:
    parts = [onnx.ModelProto(graph=_model().graph), onnx.ModelProto(ir_version=8), onnx.ModelProto(producer_name="p")]
    parts.append(onnx.ModelProto(opset_import=_model().opset_import, domain="d", model_version=3))
    data = [each.SerializeToString() for each in parts]
    for order in ([0, 1, 2, 3], [3, 1, 0, 2], [1, 3, 2, 0]):
        kind = kind_of_bytes(b"".join(data[each] for each in order))
        assert kind is not None
        assert kind.is_model


def test_a_model_that_is_cut_is_a_damaged_model(tmp_path: pathlib.Path) -> None:
    data = _model().SerializeToString()
    (tmp_path / "model").write_bytes(data[:-10])
    with raises(dg.ModelError, "model"):
        dg.load(tmp_path / "model")


@pytest.mark.parametrize(
    "data", [b"", b"\n", YAML, b"# a comment: 3\n" + YAML, b"{dmlgraph: 1}", b'"dmlgraph": 1\n', b"a"]
)
def test_text_is_nothing_else(data: bytes) -> None:
    assert kind_of_bytes(data) is None


COMMANDS: dict[str, Callable[[str], list[Any]]] = {
    "check": lambda file: ["check", file],
    "lower": lambda file: ["lower", file],
    "show": lambda file: ["show", file],
    "cut": lambda file: ["cut", file, "--outputs", "y", "-o", "part.yaml"],
    "run": lambda file: ["run", file, "--random", "0", "--device", "reference"],
    "bench": lambda file: ["bench", file, "--device", "reference", "--repeats", "2"],
    "diff": lambda file: ["diff", file, "--device", "reference", "--device", "cpu"],
    "test": lambda file: ["test", file, "--device", "reference"],
    "export": lambda file: ["export", file, "-o", "made.json"],
    "import": lambda file: ["import", file, "-o", "folder"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_looks_at_the_content(
    command: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("model").write_bytes(_model().SerializeToString())
    pathlib.Path("page").write_bytes(OTHERS["a web page"])
    fine, wrong = (CliRunner().invoke(main, COMMANDS[command](file)) for file in ("model", "page"))
    assert fine.exit_code == 0, fine.output
    assert wrong.exit_code != 0
    assert "a web page" in wrong.output


def test_standard_input_is_named_too() -> None:
    result = CliRunner().invoke(main, ["check", "-"], input=_model().SerializeToString())
    assert result.exit_code == 1
    assert (
        "<stdin>:1:1: error[file-kind]: the file is an ONNX model\n    = allowed: text of YAML or JSON" in result.output
    )
