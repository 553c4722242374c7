"""What the workers of a local cluster do when they start."""

from __future__ import annotations

import signal


def dask_setup(_worker: object) -> None:
    """Leaves Ctrl-C, which a terminal sends to all processes, to the one that people started: it ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
