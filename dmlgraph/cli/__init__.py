"""The `dmlgraph` command: one module a command, imported when the command is asked for.

To import such a module must be quick, since help and completion do so: it imports what the command works with, NumPy
above all, where the command is run.

Exit status: 0 fine, 1 the graph or its data is wrong (or a device failed), 2 wrong usage, 130 Ctrl-C.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from typing import Any

import click

from dmlgraph.cli.messages import tell
from dmlgraph.command import INTERRUPTED
from dmlgraph.errors import DmlGraphError, Problem
from dmlgraph.memory import not_enough_memory
from dmlgraph.plain_files import what_failed

COMMANDS = (
    "bench",
    "check",
    "completion",
    "devices",
    "diff",
    "directml",
    "dxdispatch",
    "lower",
    "new",
    "operators",
    "run",
    "schema",
    "show",
)


class Commands(click.Group):
    """A group of commands that are imported when they are asked for; it tells our errors as a compiler does."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"{__name__}.{cmd_name}"), cmd_name)
        return command

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with _without_traceback():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with _without_traceback():
            return super().invoke(ctx)


@contextlib.contextmanager
def _without_traceback() -> Iterator[None]:
    """What can end a command is told in a line or two, and is its exit status."""
    try:
        yield
    except DmlGraphError as error:
        tell(error.problems)
    except MemoryError as error:
        tell(not_enough_memory("finish the command", error).problems)
    except BrokenPipeError:  # nobody reads on, as with `| head`: click ends in silence
        raise
    except OSError as error:
        tell([Problem(what_failed(error), code="system")])
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            click.echo(err=True)  # the terminal shows ^C in the line
        raise click.exceptions.Exit(INTERRUPTED) from None
    else:
        return
    raise click.exceptions.Exit(1)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dmlgraph")
def main() -> None:
    """Check, lower and run DirectML graphs written in YAML.

    \b
    Example:
      dmlgraph run examples/ramp.yaml --input x=examples/ramp.x.npy
    """
