"""Reading untrusted paths: everything that is not a plain file is refused at once, wherever a file is read."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dmlgraph as dg
from dmlgraph.cli.commands import main
from dmlgraph.files.untrusted import NotAFileError, open_file, read_file, reason, what_failed
from dmlgraph.formats.arrays import read_array

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")

GRAPH = "dmlgraph: 1\ninputs: {x: {dtype: float32, sizes: [2]}}\nnodes: {y: {op: abs, input: x}}\noutputs: [y]\n"
MODEL = """{"resources": {"x": {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": "FILE"}}},
"dispatchables": {"f": {"type": "DML_OPERATOR_ELEMENT_WISE_ABS", "desc": {
  "InputTensor": {"DataType": "FLOAT32", "Sizes": [2]}, "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2]}}}},
"commands": [{"type": "print", "resource": "x"}]}"""

# Things that are not plain files, with their names in messages.
OTHERS: dict[str, Any] = {
    "a named pipe": getattr(os, "mkfifo", None),
    "a folder": os.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),  # without end
    "a device ": lambda path: path.symlink_to("/dev/tty"),  # which may wait
}


@pytest.fixture(params=OTHERS)
def other(request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """`other.npy` in the working folder, which is not a plain file; returns its kind."""
    monkeypatch.chdir(tmp_path)
    OTHERS[request.param](tmp_path / "other.npy")
    (tmp_path / "g.yaml").write_text(GRAPH, encoding="utf-8")
    return str(request.param).strip()


def test_it_is_not_opened(other: str) -> None:
    with pytest.raises(NotAFileError) as caught:
        open_file("other.npy")
    assert caught.value.strerror == f"it is {other}, not a file"


def test_a_plain_file_is_read(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("file")
    assert read_file(tmp_path / "link") == b"abc"


@pytest.mark.parametrize("path", ["nowhere", "a\0b", "x" * 300, "loop"])
def test_a_path_that_leads_nowhere_is_an_error_with_a_reason(path: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match=r"\w") as caught:
        open_file(tmp_path / path)
    assert caught.value.strerror


def test_an_error_of_windows_is_told_in_the_words_of_other_systems() -> None:
    error = FileNotFoundError(2, "Das System kann die angegebene Datei nicht finden", "g.yaml")
    assert reason(error) == "Das System kann die angegebene Datei nicht finden"
    error.winerror = 2  # type: ignore[attr-defined]
    assert reason(error) == os.strerror(2)
    assert what_failed(error) == f"{os.strerror(2)}: g.yaml"


def test_a_graph_file(other: str) -> None:
    with pytest.raises(dg.DocumentError, match=f"cannot read the file: it is {other}, not a file"):
        dg.load("other.npy")
    with pytest.raises(dg.DocumentError, match=f"cannot read the file: it is {other}, not a file"):
        dg.load_dxdispatch("other.npy")


@pytest.mark.usefixtures("other")
def test_a_file_that_a_document_names() -> None:
    text = GRAPH.replace("nodes:", "constants: {k: {file: other.npy}}\nnodes:")
    with pytest.raises(dg.DocumentError, match=r"there is no such file|not a file|outside the document"):
        dg.loads(text, folder=pathlib.Path())
    pathlib.Path("m.json").write_text(MODEL.replace("FILE", "other.npy"), encoding="utf-8")
    with pytest.raises(dg.DocumentError, match=r"there is no such file|not a file|outside the document"):
        dg.load_dxdispatch("m.json")


def test_an_input(other: str) -> None:
    result = CliRunner().invoke(main, ["run", "g.yaml", "--input", "x=other.npy"])
    assert result.exit_code == 1
    assert f"cannot read 'other.npy': it is {other}, not a file" in result.stderr


def test_an_array_that_is_cut_off_takes_no_room(tmp_path: pathlib.Path) -> None:
    """Its header says 8 TiB."""
    np.save(tmp_path / "x.npy", np.zeros(2))
    data = (tmp_path / "x.npy").read_bytes()
    shape, vast = b"(2,), }" + b" " * 12, b"(1099511627776,), }"
    (tmp_path / "x.npy").write_bytes(data.replace(shape, vast))
    with pytest.raises(ValueError, match=r"broken .npy file: it has 144 bytes, but its header says 8796093022336"):
        read_array(tmp_path / "x.npy")
