"""Standard output and error of the command in every encoding that a system may give them."""

from __future__ import annotations

import json
import os
import pathlib
import random
import subprocess
import sys

import onnx
import pytest

import dmlgraph as dg
from dmlgraph.cli.commands import COMMANDS
from dmlgraph.operators.catalog.registry import OPERATORS

ENCODINGS = {"cp1252": "cp1252", "cp437": "cp437", "utf-16": "utf-16", "ascii": "utf-8"}  # what click makes of each
# A name with characters that most code pages lack, which every command has to print in one way or another.
GRAPH = """\
dmlgraph: 1
inputs: {"größe→∞": {dtype: float32, sizes: [2]}}
nodes: {"結果.é": {op: multply, a: "größe→∞", b: "größe→∞"}}
outputs: ["結果.é"]
"""
MODEL = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
).SerializeToString()
FINE = (
    GRAPH.replace("multply", "multiply")
    + """\
tests:
  größe→∞: {inputs: {"größe→∞": {value: 2}}, expect: {"結果.é": {value: 5}}}
"""
)
ARGUMENTS = {
    "bench": ["grüß.yaml", "--device", "reference", "--repeats", "1"],
    "check": ["wrong→.yaml"],
    "compare": ["∑→.onnx", "--with", "onnxruntime", "--device", "reference"],
    "completion": ["zsh"],
    "cut": ["grüß.yaml", "--outputs", "結果.é", "-o", "∑→.yaml"],
    "devices": [],
    "diff": ["grüß.yaml", "--device", "cpu", "--device", "reference"],
    "directml": ["info"],
    "doctor": ["grüß.yaml", "--device", "cpu"],
    "dxdispatch": ["import", "∑→.json"],
    "export": ["grüß.yaml", "-o", "∑→2.onnx"],
    "generate": ["grüß.yaml", "--prompt", "größe→∞", "--device", "reference"],
    "golden": ["grüß.yaml", "-o", "∑→.npz"],
    "import": ["∑→.onnx", "-o", "∑→"],
    "lower": ["grüß.yaml", "--explain"],
    "map": ["grüß.yaml", "--input", "größe→∞=nirgends→", "--out", "∑→"],
    "new": ["∑→.yaml"],
    "onnx": ["operators"],
    "operators": [],
    "run": ["grüß.yaml", "--device", "reference"],
    "schema": [],
    "show": ["grüß.yaml", "--format", "svg"],
    "test": ["grüß.yaml"],
    "train": ["grüß.yaml", "--device", "reference"],
}
REFUSING = ("check", "generate", "map", "run", "test", "train")  # what they are given


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "grüß.yaml").write_text(FINE, "utf-8")
    (tmp_path / "wrong→.yaml").write_text(GRAPH, "utf-8")
    (tmp_path / "∑→.onnx").write_bytes(MODEL)
    dg.save_dxdispatch(dg.loads(FINE), tmp_path / "∑→.json")
    return tmp_path


def printed(folder: pathlib.Path, encoding: str | None, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONIOENCODING"}
    if encoding is not None:
        environment["PYTHONIOENCODING"] = encoding
    command = [sys.executable, "-P", "-m", "dmlgraph.cli", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False, timeout=300)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_encoding_keeps_a_command_from_printing(command: str, folder: pathlib.Path) -> None:
    encoding, printed_in = random.choice(list(ENCODINGS.items()))
    done = printed(folder, encoding, command, *ARGUMENTS[command])
    told = done.stderr.decode(printed_in)
    assert "Traceback" not in told, encoding
    assert done.returncode == (command in REFUSING) or command == "directml", told


def test_the_help_of_any_operator_is_printed_in_any_encoding(folder: pathlib.Path) -> None:
    chosen = random.sample(sorted(OPERATORS), len(ENCODINGS))
    for (encoding, printed_in), name in zip(ENCODINGS.items(), chosen, strict=True):
        done = printed(folder, encoding, "operators", name)
        assert (done.returncode, done.stderr) == (0, b""), (encoding, name)
        assert done.stdout.decode(printed_in)


def test_what_an_encoding_lacks_is_escaped(folder: pathlib.Path) -> None:
    told = printed(folder, "cp437", "check", "wrong→.yaml").stderr.decode("cp437").replace("\r\n", "\n")
    assert told.startswith("wrong\\u2192.yaml:3:")
    assert "größe\\u2192∞" in told  # code page 437 has the infinity sign


@pytest.mark.parametrize("command", ["schema", "show", "dxdispatch"])
def test_documents_are_utf_8_with_plain_newlines_in_any_encoding(command: str, folder: pathlib.Path) -> None:
    for encoding in ("cp437", "utf-16"):
        text = printed(folder, encoding, command, *ARGUMENTS[command]).stdout.decode()
        assert "\r" not in text
        assert text.endswith("\n")
        assert ("größe→∞" in text) is (command != "schema")
    if command == "schema":
        json.loads(text)


if sys.platform == "win32":  # which gives pipes a code page

    def test_a_pipe_gets_utf_8_on_windows(folder: pathlib.Path) -> None:
        assert "größe→∞" in printed(folder, None, "check", "wrong→.yaml").stderr.decode()


def test_every_command_is_tried() -> None:
    assert set(ARGUMENTS) == set(COMMANDS)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no names of bytes that are not text")
def test_a_file_name_that_is_not_text_is_printed(folder: pathlib.Path) -> None:
    name = os.fsdecode(b"\xff\xfe.yaml")
    for encoding in ("utf-8", "cp1252"):
        made = printed(folder, encoding, "new", name, "--force")
        assert (made.returncode, made.stderr) == (0, b"")
        assert "\\udcff" in made.stdout.decode(encoding)
        assert dg.load(folder / name).name == "ramp_times_x"
        assert b"Traceback" not in printed(folder, encoding, "check", name).stderr
