"""The progress of a long job, for people: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from typing import TextIO

EVERY_BAR, EVERY_LINE = 0.2, 10.0  # seconds
WIDTH = 30


class Progress:
    """Writes how far a job is: `[####----] 120/400 chunks, 3 failed, 14.2/s, 0:00:20 left`.

    Args:
        total: how many chunks there are.
        done: how many were done before.
        stream: where to; by default standard error.  None as `quiet` asks for nothing at all.
    """

    def __init__(self, total: int, done: int = 0, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self.total, self.before, self.done, self.failed = total, done, done, 0
        self._stream = None if quiet else stream or sys.stderr
        self._is_bar = self._stream is not None and self._stream.isatty()
        self._began = time.monotonic()
        self._last = self._began

    def start(self) -> None:
        """Begins to measure the time."""
        self._began = time.monotonic()

    def advance(self, done: int = 0, failed: int = 0, *, skipped: int = 0) -> None:
        """Counts chunks, and writes if it is time; `skipped` ones were done before."""
        self.done += done + skipped
        self.before += skipped
        self.failed += failed
        now = time.monotonic()
        if now - self._last >= (EVERY_BAR if self._is_bar else EVERY_LINE):
            self._last = now
            self._write(end="")

    def end(self) -> None:
        """Writes the last state."""
        self._write(end="\n")

    def __str__(self) -> str:
        seconds = max(time.monotonic() - self._began, 1e-9)
        rate = (self.done + self.failed - self.before) / seconds
        text = f"{self.done}/{self.total} chunks"
        if self.failed:
            text += f", {self.failed} failed"
        if rate > 0:
            text += f", {rate:.3g}/s"
            left = self.total - self.done - self.failed
            text += f", {_clock(left / rate)} left" if left else f" in {_clock(seconds)}"
        return text

    def _write(self, end: str) -> None:
        if self._stream is None:
            return
        if self._is_bar:
            filled = WIDTH * (self.done + self.failed) // max(self.total, 1)
            self._stream.write(f"\r[{'#' * filled}{'-' * (WIDTH - filled)}] {self}\x1b[K{end}")
        else:
            self._stream.write(f"{self}\n")
        self._stream.flush()


def _clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
