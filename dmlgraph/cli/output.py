"""Standard output and error: whatever their encoding is, printing never fails."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

import click


def prepare() -> None:
    """Lets standard output and error print every character.

    The command does this once.  Windows gives pipes and files a code page of few characters: there they get UTF-8,
    unless PYTHONIOENCODING says otherwise.  In any encoding, escapes such as `\\u2192` stand for characters it lacks.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # not None, as without a console
            coded = sys.platform != "win32" or stream.isatty() or "PYTHONIOENCODING" in os.environ
            stream.reconfigure(encoding=None if coded else "utf-8", errors="backslashreplace")


def print_document(text: str) -> None:
    """Prints what programs read, such as YAML or JSON: into a pipe or file UTF-8 with plain newlines, on any system."""
    click.echo(text if sys.stdout.isatty() else text.encode(), nl=False)
