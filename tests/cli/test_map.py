"""`dmlgraph map`: a graph over very many chunks."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dmlgraph as dg
from dmlgraph.cli.commands import main

pytest.importorskip("distributed.client")

X = np.arange(30, dtype=np.float32).reshape(10, 3)


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """y = 2 · x in double.yaml, and an array in x.npy."""
    g = dg.Graph("double", dims={"batch": 1, "wide": 3})
    g.output("y", g.input("x", sizes=["batch", "wide"], dtype="float32") * 2)
    g.save(tmp_path / "double.yaml")
    np.save(tmp_path / "x.npy", X)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["map", *arguments])


GIVEN = ("double.yaml", "--input", "x=x.npy", "--out", "out", "--device", "cpu")


def test_a_local_cluster_does_it_and_goes_on(folder: pathlib.Path) -> None:
    done = run(*GIVEN, "--chunk", "batch=4", "--workers", "1")
    assert (done.exit_code, done.stdout) == (0, "3 chunks: 3 done now, 0 before\n")
    assert "3/3 chunks" in done.stderr
    y = [np.load(path) for path in sorted((folder / "out" / "results" / "y").rglob("*.npy"))]
    np.testing.assert_array_equal(np.concatenate(y), X * 2)
    again = run(*GIVEN, "--chunk", "batch=4", "--quiet")
    assert (again.stdout, again.stderr) == ("3 chunks: 0 done now, 3 before\n", "")
    other = run(*GIVEN, "--chunk", "batch=5")
    assert other.exit_code == 1
    assert "error[other-results]: field 'chunks.batch'" in other.stderr


def test_a_scheduler_does_it(folder: pathlib.Path, spawned: Any) -> None:
    os.mkdir("in")
    for name in ("one", "two"):
        np.save(f"in/{name}.npy", X)
    np.save("in/three.npy", X.astype(np.int32))
    arguments = ["double.yaml", "--input", "x=in", "--out", "out", "--scheduler", spawned.scheduler.address]
    done = run(*arguments, "--device", "cpu", "--no-fuse", "--dim", "batch=2")
    assert (done.exit_code, done.stdout) == (
        1,
        f"3 chunks: 2 done now, 0 before, 1 failed; see {pathlib.Path('out', 'failed')}\n",
    )
    (told,) = (json.loads(path.read_text("utf-8")) for path in (folder / "out" / "failed").rglob("*.json"))
    assert told["code"] == "dtype"
    assert f"the first: {told['chunk']}: BindingError: {told['message']}" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "x"], "'x' is not NAME=PATH"),
        (["--input", "x=a", "--input", "x=b"], "'x' is given twice"),
        (["--input", "x=x.npy", "--chunk", "batch"], "'batch' is not NAME=SIZE"),
        (["--input", "x=x.npy", "--workers", "0"], "--workers"),
        (["--input", "x=x.npy", "--workers", "1", "--scheduler", "tcp://127.0.0.1:1"], "without --scheduler"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_wrong_usage(arguments: list[str], message: str) -> None:
    done = run("double.yaml", "--out", "out", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "z=x.npy"], "error[unknown-array]"),
        (["--input", "x=nowhere.npy"], "error[unreadable]: field 'x': '"),
        (["--input", "x=x.npy", "--device", "gpu"], "error[unknown-device]"),
        (["--input", "x=x.npy", "--chunk", "deep=4"], "error[unknown-dim]"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_wrong_with_the_data(arguments: list[str], message: str) -> None:
    done = run("double.yaml", "--out", "out", *arguments)
    assert done.exit_code == 1
    assert message in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
def test_ctrl_c_leaves_a_state_that_goes_on(folder: pathlib.Path) -> None:
    np.save(folder / "x.npy", np.zeros((3000, 3), np.float32))
    command = [sys.executable, "-P", "-m", "dmlgraph.cli", "map", *GIVEN, "--chunk", "batch=1", "--workers", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        end = time.monotonic() + 120
        while not any((folder / "out").rglob("*.npy")):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it: to the workers, too
        said = process.communicate(timeout=120)[1]
    assert process.returncode == 130, said
    assert "Traceback" not in said
    found = list((folder / "out" / "results").rglob("*.npy"))
    assert 0 < len(found) < 3000
    assert all(np.load(path).shape == (1, 3) for path in found)
    done = run(*GIVEN, "--chunk", "batch=1", "--workers", "1", "--quiet")
    assert f"{3000 - len(found)} done now, {len(found)} before" in done.stdout
