"""Files that appear completely or not at all."""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess
import sys

import pytest

from dmlgraph.files.whole import NewFiles, write_text


def test_files_appear_together_at_the_end(tmp_path: pathlib.Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"old")
    with NewFiles() as files:
        for path in (one, other):
            with files.open(path) as stream:
                stream.write(b"new")
        assert one.read_bytes() == b"old"
        assert not other.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "other"]
    assert one.read_bytes() == other.read_bytes() == b"new"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_exception_leaves_everything_as_it_was(tmp_path: pathlib.Path, error: type[BaseException]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def work() -> None:
        with NewFiles() as files:
            with files.open(path) as stream:
                stream.write(b"new")
            with files.open(tmp_path / "second") as stream:
                stream.write(b"new")
                raise error

    with pytest.raises(error):
        work()
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"old"


def test_a_killed_process_leaves_the_old_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    script = f"""
import os, signal
from dmlgraph.files.whole import NewFiles
with NewFiles() as files, files.open({str(path)!r}) as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGTERM)
"""
    command = [sys.executable, "-P", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{script}"]
    process = subprocess.run(command, check=False)
    assert process.returncode != 0
    assert path.read_bytes() == b"old"


@pytest.mark.skipif(os.name != "posix", reason="modes and links are those of POSIX")
def test_modes_and_links_stay(tmp_path: pathlib.Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_text(link, "new")
    assert link.is_symlink()
    assert path.read_text(encoding="utf-8") == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    umask = os.umask(0o027)
    try:
        write_text(tmp_path / "made", "new")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o640


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
def test_a_fifo_is_written_into(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_text(path, "text")
        assert os.read(reader, 100) == b"text"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_an_error_names_the_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "missing" / "file"
    with pytest.raises(FileNotFoundError) as caught:
        write_text(path, "text")
    assert caught.value.filename == str(path)
