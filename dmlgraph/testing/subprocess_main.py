"""The process that `subprocess_runner` starts: answers one request, and ends with the process that asked.

If a driver crashes it prints where it was.  If one hangs, the process that asked kills this one; if that process is
gone, this one ends by itself: at once, or, while a driver holds the interpreter, when the system's timer says so.
"""

from __future__ import annotations

import faulthandler
import json
import os
import pathlib
import signal
import sys
import threading
from typing import Any

_GRACE = 30  # seconds after the limit until the timer ends the process


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
    os._exit(0)  # what drivers do at the end of a process is not waited for


def _end_with_the_other() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


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
        return {"code": error.code, "report": str(error)}
    return {"code": None, "report": ""}


_TASKS = {"test": _test, "devices": _devices, "run": _run}

if __name__ == "__main__":
    main()
