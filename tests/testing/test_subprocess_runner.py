"""A test in a process of its own: whatever becomes of that process, there is a result, and nothing is left behind."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from dmlgraph.devices.names import DeviceName

pytest.importorskip("psutil")

import psutil
from support.case_processes import BAD, GOOD, LONG, MODULE, RELU, SECONDS, case_processes, is_gone, until

from dmlgraph.testing.bundle import Bundle
from dmlgraph.testing.records import Outcome, Result
from dmlgraph.testing.subprocess_runner import How, _Tail, list_devices, run_test

posix = pytest.mark.skipif(os.name != "posix", reason="Windows has no signals")


def run(text: str, test: str | None, device: DeviceName = "cpu", *, seconds: float = SECONDS, **dims: int) -> Result:
    return run_test(Bundle("g.yaml", text, {}), dims, test, device, seconds=seconds)


def test_its_result_is_that_of_this_process() -> None:
    done = run(BAD, "bad")
    assert done.outcome is Outcome.FAILED
    assert done.report.startswith("g.yaml:6:9: test 'bad' failed on cpu\n  output 'y': 2 of 2")
    assert done.seconds > 0


def test_dims_and_graphs_without_tests() -> None:
    assert run(RELU, None, N=3).outcome is Outcome.PASSED
    wrong = run(RELU, None, N=0)
    assert (wrong.outcome, "dims.N" in wrong.report) == (Outcome.BROKEN, True)


def test_a_device_that_is_not_here_is_a_reason_to_skip() -> None:
    done = run(GOOD.replace("[cpu]", '["directml:77"]'), "good", "directml:77")  # type: ignore[arg-type]
    assert (done.outcome, done.report.startswith("'directml:77' is not here")) == (Outcome.SKIPPED, True)


def test_its_files_are_those_of_the_bundle_alone(tmp_path: pathlib.Path) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('executed')", "utf-8")
    text = GOOD.replace("{value: 1}}, expect", f"{{file: {tmp_path}/x.npy}}}}, expect")
    bundle = Bundle("g.yaml", text, {"numpy.py": b"raise SystemExit('executed')"})
    done = run_test(bundle, {}, "good", "cpu", seconds=SECONDS)
    assert (done.outcome, "lies outside the document's folder" in done.report) == (Outcome.FAILED, True), done


def test_a_bundle_that_leads_outside_is_not_written() -> None:
    done = run_test(Bundle("g.yaml", GOOD, {"../x.npy": b""}), {}, "good", "cpu", seconds=99)
    assert (done.outcome, "../x.npy" in done.report) == (Outcome.LOST, True)


def test_one_that_does_not_end_is_killed_and_says_where_it_was() -> None:
    done = run(LONG, "long", "reference", seconds=4)
    assert done.outcome is Outcome.TIMED_OUT
    first, *lines = done.report.splitlines()
    assert first == "no end after 4 s: the process was killed"
    if os.name == "posix":
        assert any("most recent call first" in line for line in lines), done.report
    assert case_processes() == []


@posix
def test_one_that_is_stopped_and_cannot_even_say_where_is_killed() -> None:
    def stop() -> None:
        until(case_processes)[0].send_signal(signal.SIGSTOP)

    other = threading.Thread(target=stop)
    other.start()
    assert run(LONG, "long", "reference", seconds=4).outcome is Outcome.TIMED_OUT
    other.join()


@posix
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT])
def test_one_that_crashes_says_how(number: signal.Signals) -> None:
    def crash() -> None:
        process = until(case_processes)[0]
        if number is signal.SIGSEGV:
            until(lambda: process.num_threads() > 1)  # it has begun, and prints where it is
        process.send_signal(number)

    other = threading.Thread(target=crash)
    other.start()
    done = run(LONG, "long", "reference")
    other.join()
    assert done.outcome is Outcome.CRASHED
    first, *lines = done.report.splitlines()
    assert first == f"its process was ended by {number.name}"
    if number is signal.SIGSEGV:
        assert "  Fatal Python error: Segmentation fault" in lines


@posix
def test_what_it_starts_ends_with_it_and_what_it_prints_is_kept(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a driver may, every Python of this environment starts a process, prints much, and ends with a status."""
    script = f"""\
        import os, subprocess, sys
        if {MODULE!r} in sys.orig_argv:
            child = subprocess.Popen(["sleep", "600"])
            open({str(tmp_path / "child")!r}, "w").write(str(child.pid))
            print("x" * 1_000_000, flush=True)
            print("last words", flush=True)
            os._exit(3)
    """
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(script), "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = run(GOOD, "good")
    assert done.outcome is Outcome.CRASHED
    first, *lines = done.report.splitlines()
    assert (first, lines[-1]) == ("its process ended with exit status 3", "  last words")
    assert len(done.report) < 40_000
    pid = int((tmp_path / "child").read_text("utf-8"))
    until(lambda: not psutil.pid_exists(pid) or is_gone(psutil.Process(pid)))


def test_a_pipe_that_something_else_holds_is_closed_by_whoever_reads_it() -> None:
    """On Windows, closing it meanwhile would wait for as long as it is read."""
    command = [sys.executable, "-P", "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        tail = _Tail(process)
        tail.close()
        assert not process.stdout.closed
        process.kill()
        until(lambda: process.stdout is not None and process.stdout.closed)


def test_one_ends_when_its_input_does(tmp_path: pathlib.Path) -> None:
    """Also if whoever asked lives on, and does not kill it."""
    request = {
        **{"task": "test", "folder": str(tmp_path), "file": "g.yaml", "text": LONG, "dims": {}, "test": "long"},
        **{"device": "reference", "how": dataclasses.asdict(How()), "seconds": 900, "answer": str(tmp_path / "answer")},
    }
    command = [sys.executable, "-P", "-m", MODULE, "test"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(3)
        process.stdin.close()
        assert process.wait(SECONDS) == 1


@posix
def test_one_whose_parent_is_killed_ends(tmp_path: pathlib.Path) -> None:
    script = f"""
from dmlgraph.testing.subprocess_runner import run_test
from dmlgraph.testing.bundle import Bundle
run_test(Bundle("g.yaml", {LONG!r}, {{}}), {{}}, "long", "reference", seconds=900)
"""
    with subprocess.Popen([sys.executable, "-P", "-c", script], cwd=tmp_path) as parent:
        (process,) = until(lambda: case_processes(psutil.Process(parent.pid)))
        parent.kill()
    until(lambda: is_gone(process))


def test_the_devices_are_looked_for_apart_too() -> None:
    found = list_devices(["directml:77", "cpu"], every=True, seconds=SECONDS)
    assert (found["cpu"].usable, found["cpu"].listed) == (True, True)
    assert (found["directml:77"].usable, found["directml:77"].listed) == (False, False)
    assert set(list_devices(["reference"], every=False, seconds=SECONDS)) == {"reference"}
