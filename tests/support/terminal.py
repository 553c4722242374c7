"""A command on a pseudo-terminal, which Windows has not."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence


def run_on_terminal(
    arguments: Sequence[str], folder: pathlib.Path, environment: Mapping[str, str]
) -> tuple[int, str]:
    """The exit code of `dmlgraph` with these arguments, and what it printed."""
    import pty  # POSIX only

    ours, theirs = pty.openpty()
    shown = bytearray()
    reader = threading.Thread(target=_read, args=(ours, shown))  # a terminal holds some kilobytes only
    reader.start()
    command = [sys.executable, "-P", "-m", "dmlgraph.cli", *arguments]
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    try:
        run = subprocess.run(
            command, cwd=folder, stdout=theirs, stderr=theirs, env={**kept, **environment}, check=False, timeout=120
        )
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    return run.returncode, shown.decode().replace("\r\n", "\n")


def _read(terminal: int, shown: bytearray) -> None:
    try:
        while part := os.read(terminal, 4096):
            shown += part
    except OSError:  # the other end is closed
        pass
