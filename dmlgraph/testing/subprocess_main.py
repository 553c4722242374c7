"""The process that `subprocess_runner` starts: answers one request, and ends with the process that asked.

If a driver crashes it prints where it was.  If one hangs, the process that asked kills this one; if that process is
gone, this one ends by itself: at once, or, while a driver holds the interpreter, when the system's timer says so.

Windows serves one call at a time on a pipe that is not overlapped: while a thread waits there for input, the start of a
library that asks what standard input is waits, too.  So nothing waits there: the pipe is looked at now and then.
"""

from __future__ import annotations

import faulthandler
import json
import os
import pathlib
import signal
import sys
import threading
import time
from typing import Any

_GRACE = 30  # seconds after the limit until the timer ends the process
_LOOK = 0.5  # seconds between two looks at the pipe


def main() -> None:
    """Answers the request on standard input; does not return."""
    faulthandler.enable()
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    request = json.loads(sys.stdin.buffer.readline())
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the system ends the process, whatever it is doing
        signal.setitimer(signal.ITIMER_REAL, request["seconds"] + _GRACE)
    threading.Thread(target=_end_with_the_other, daemon=True).start()
    answer = _TASKS[request["task"]](request)
    from dmlgraph.files.whole import write_text

    write_text(request["answer"], json.dumps(answer))
    sys.stdout.flush()
    _end(0)


def _end(code: int) -> None:
    """Ends the process; what drivers do at the end of one is not waited for."""
    if sys.platform == "win32":
        import _winapi

        # ExitProcess, which os._exit calls, tells every library first, and waits for what it does then.
        _winapi.TerminateProcess(_winapi.GetCurrentProcess(), code)
    os._exit(code)


def _end_with_the_other() -> None:
    """Ends the process when the one that asked has closed the pipe, or is gone."""
    _wait_for_the_end_of_input()
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    _end(1)


def _wait_for_the_end_of_input() -> None:
    if sys.platform == "win32":
        import _winapi
        import msvcrt

        pipe = msvcrt.get_osfhandle(sys.stdin.fileno())
        try:
            while True:
                _winapi.PeekNamedPipe(pipe, 0)
                time.sleep(_LOOK)
        except OSError:  # nobody can write into it any more
            return
    while os.read(sys.stdin.fileno(), 4096):
        pass


def _test(request: dict[str, Any]) -> dict[str, Any]:
    from dmlgraph.base.errors import DmlGraphError
    from dmlgraph.testing.bundle import Bundle
    from dmlgraph.testing.records import Outcome, Result
    from dmlgraph.testing.run import Case, Runner

    os.chdir(request["folder"])
    bundle = Bundle(request["file"], request["text"], {})
    try:
        graph = bundle.graph(pathlib.Path(), request["dims"])
    except DmlGraphError as error:
        result = Result(Outcome.BROKEN, str(error))
    else:
        how = request["how"]
        with Runner(graph, metacommands=how["metacommands"], half_precision=how["half_precision"]) as runner:
            if how["doctor"]:
                result = runner.examine(request["device"])
            elif request["test"] is None:
                result = runner.try_out(request["device"])
            else:
                test = graph.origin.tests[request["test"]]
                result = runner.run(Case(test, request["device"], test.devices is not None))
    return {"outcome": result.outcome.value, "report": result.report, "seconds": result.seconds}


def _devices(request: dict[str, Any]) -> dict[str, Any]:
    from dmlgraph.base.errors import DeviceError
    from dmlgraph.devices import choose, list_devices

    found = {}
    if request["all"]:
        found = {each.name: (each.missing or each.description, each.missing is None, True) for each in list_devices()}
    for name in request["names"]:
        if name not in found:
            try:
                found[name] = choose(name).device.description, True, False
            except DeviceError as error:
                found[name] = error.problems[0].message, False, False
    return {"devices": found}


def _run(request: dict[str, Any]) -> dict[str, Any]:
    import pickle

    from dmlgraph.base.errors import DmlGraphError

    graph, device, inputs, options = pickle.loads(pathlib.Path(request["case"]).read_bytes())
    try:
        with graph.compile(device, **options) as executable:
            executable.run(inputs)
    except DmlGraphError as error:
        return {"code": error.code, "reason": getattr(error, "hresult_name", None) or str(error)}
    return {"code": None}


_TASKS = {"test": _test, "devices": _devices, "run": _run}

if __name__ == "__main__":
    main()
