"""Runs tests in processes of their own, so that a driver that hangs or crashes takes only one test with it.

A process is given a request, a line of JSON on its standard input, and writes its answer as JSON into a file; see
`dmlgraph.testing.subprocess_main`.  It leads a group of processes (on Windows a tree), which is killed as a whole.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from dmlgraph.base.errors import DmlGraphError
from dmlgraph.testing.records import Outcome, Result

if TYPE_CHECKING:
    from dmlgraph.testing.bundle import Bundle

SECONDS = 300.0  # that a test may take if nothing is said
TAIL = 16 << 10  # bytes at the end of what a process prints that are kept
MOST_LINES = 40  # of them that a report shows
_CRASH = "Fatal Python error: "  # what Python prints before it says where each thread is
MOST_ANSWERED = 16 << 20  # bytes of an answer
_STACKS = 1.0  # seconds for a process that is about to be killed to print where it is
_GONE = 5.0  # seconds to wait for a killed process; one that waits for its driver may not end

_POSIX = os.name == "posix"
_GROUP: dict[str, Any] = (
    {"start_new_session": True} if _POSIX else {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
)


class EndedError(Exception):
    """A process gave no answer: `result` says how it ended, with the last lines it printed."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.report)
        self.result = result


@dataclasses.dataclass(frozen=True, slots=True)
class How:
    """How a graph is tried.

    Attributes:
        doctor: whether its nodes are examined in place of its tests, as `dmlgraph doctor` does.
        metacommands, half_precision: as in `Graph.compile`.
    """

    doctor: bool = False
    metacommands: bool = True
    half_precision: bool = False


BY_TESTS = How()


def run_test(
    bundle: Bundle, dims: Mapping[str, int], test: str | None, device: str, *, seconds: float, how: How = BY_TESTS
) -> Result:
    """The result of a test on a device, run in a process of its own.

    Args:
        bundle: the graph file and the files it names.
        dims: values that replace those of its dims.
        test: its name; None runs the graph with random inputs and compares nothing.
        device: the name of the device.
        seconds: after which the process is killed.
        how: whether the doctor examines the graph instead, and what DirectML may do.
    """
    begin = time.monotonic()
    try:
        with bundle.unpacked() as folder:
            request = {
                "task": "test",
                "folder": os.fspath(folder),
                "file": bundle.file,
                "text": bundle.text,
                "dims": dict(dims),
                "test": test,
                "device": device,
                "how": dataclasses.asdict(how),
            }
            answer = ask(request, seconds=seconds, shown=[bundle.file, test or "", device])
        return Result(Outcome(answer["outcome"]), str(answer["report"]), float(answer["seconds"]))
    except EndedError as error:
        return error.result
    except (DmlGraphError, OSError) as error:  # the files cannot be written, or the process cannot start
        return Result(Outcome.LOST, f"the test could not be started: {error}", time.monotonic() - begin)


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A device of a machine.

    Attributes:
        text: what it is, or why it cannot be used.
        usable: whether it can be used.
        listed: whether `dmlgraph devices` lists it; others are only used by tests that name them.
    """

    text: str
    usable: bool
    listed: bool


def list_devices(names: Iterable[str], *, every: bool, seconds: float) -> dict[str, Found]:
    """Devices of this machine by name, looked for in a process of its own.

    Args:
        names: of devices to open.
        every: whether to list all that are here, too.
        seconds: after which the process is killed.

    Raises:
        EndedError: a driver hung or crashed.
        OSError: the process cannot be started.
    """
    found = ask({"task": "devices", "names": list(names), "all": every}, seconds=seconds)["devices"]
    return {str(name): Found(str(text), bool(usable), bool(listed)) for name, (text, usable, listed) in found.items()}


def ask(request: Mapping[str, Any], *, seconds: float, shown: Sequence[str] = ()) -> dict[str, Any]:
    """The answer of a new process to a request.

    Args:
        request: what JSON can express.
        seconds: after which the process is killed.
        shown: what those who list processes see behind the name of the task.

    Raises:
        EndedError: it crashed, or was killed because it took longer.
        OSError: it cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="dmlgraph-", ignore_cleanup_errors=True) as folder:
        answer = pathlib.Path(folder, "answer.json")
        # -P: a folder with a file `numpy.py` is not where Python looks for its modules.
        command = [sys.executable, "-P", "-m", "dmlgraph.testing.subprocess_main", request["task"], *shown]
        begin = time.monotonic()
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **_GROUP
        )
        code, gone, tail = None, False, _Tail(process)
        try:
            _tell(process, {**request, "answer": os.fspath(answer), "seconds": seconds})
            code = _wait(process, seconds)
            if code is None:
                _show_stacks(process, tail)
        finally:
            gone = _kill(process)
            tail.close()
        took = time.monotonic() - begin
        if code is None:
            report = f"no end after {seconds:g} s: the process was killed"
            report += "" if gone else ", but does not end: its driver may wait for the device"
            raise EndedError(Result(Outcome.TIMED_OUT, tail.under(report), took))
        found = _read(answer)
        if code != 0 or found is None:
            raise EndedError(Result(Outcome.CRASHED, tail.under(_how(code)), took))
        return found


def _tell(process: subprocess.Popen[bytes], request: Mapping[str, Any]) -> None:
    """Writes the request; the pipe stays open, and its end tells the process that this one is gone."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # it has crashed already
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The exit code; None if it has not ended by then."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def _show_stacks(process: subprocess.Popen[bytes], tail: _Tail) -> None:
    """Lets a process print where each of its threads is, which it does even if a driver does not return."""
    if hasattr(signal, "SIGUSR1"):
        before = tail.mark()
        process.send_signal(signal.SIGUSR1)
        end = time.monotonic() + _STACKS
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
            if tail.length > before and tail.is_quiet():
                return


def _kill(process: subprocess.Popen[bytes]) -> bool:
    """Kills a process and those that it started; returns whether it has ended."""
    if _POSIX:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # its group is empty
            os.killpg(process.pid, signal.SIGKILL)
    elif process.poll() is None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            tree = ["taskkill", "/F", "/T", "/PID", str(process.pid)]
            subprocess.run(tree, capture_output=True, timeout=_GONE, check=False)
    return _wait(process, _GONE) is not None


def _read(path: pathlib.Path) -> dict[str, Any] | None:
    """The answer in a file; None if the file does not exist or is not whole."""
    try:
        with path.open("rb") as stream:
            found = json.loads(stream.read(MOST_ANSWERED))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _how(code: int) -> str:
    """How a process ended."""
    if code == 0:
        return "its process ended without a result"
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"its process was ended by {signal.Signals(-code).name}"
    shown = f"{code:#x}" if code > 0xFFFF else str(code)  # Windows' codes of crashes
    return f"its process ended with exit status {shown}"


class _Tail:
    """The end of what a process prints, read in a thread: a pipe that nobody reads would stop the process.

    The thread closes the pipe, too: on Windows, closing a file descriptor waits for whoever reads from it.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.length = 0
        self._stdin: IO[bytes] = process.stdin
        self._stdout: IO[bytes] = process.stdout
        self._last, self._mark = time.monotonic(), sys.maxsize
        self._pieces: collections.deque[bytes] = collections.deque()
        # What the process started may hold the pipe open for ever.
        self._thread = threading.Thread(target=self._run, name="dmlgraph-tail", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(OSError), self._stdout:
            while piece := os.read(self._stdout.fileno(), TAIL):
                self._pieces.append(piece)
                self.length += len(piece)
                self._last = time.monotonic()
                while sum(map(len, self._pieces)) - len(self._pieces[0]) > TAIL:
                    self._pieces.popleft()

    def mark(self) -> int:
        """Notes that what is printed from now on says where the process is; returns what is printed so far."""
        self._mark = self.length
        return self._mark

    def is_quiet(self) -> bool:
        return time.monotonic() - self._last > 0.1

    def close(self) -> None:
        """Lets the process see the end of its input, and waits a moment for the rest of what it prints."""
        with contextlib.suppress(OSError):
            self._stdin.close()
        self._thread.join(1)

    def under(self, report: str) -> str:
        """A report with the last lines below it; of lines that say where the process was, the first ones."""
        kept = b"".join(tuple(self._pieces))
        where = max(0, self._mark - (self.length - len(kept)))
        printed, stacks = (part.decode(errors="replace").splitlines() for part in (kept[:where], kept[where:]))
        crash = next((at for at, line in enumerate(printed) if line.startswith(_CRASH)), len(printed))
        printed, stacks = printed[:crash], printed[crash:] + stacks
        shown = [*printed[-MOST_LINES:], *[line for line in stacks if "<frozen " not in line][:MOST_LINES]]
        return "\n".join((report, *(f"  {line}" for line in shown)))
