"""The `dmlgraph` command: one module per command, imported when the command is used.

Importing such a module must be quick, because help and completion import all of them: slow imports, above all NumPy,
are inside the function that runs the command.

Exit status: 0 fine, 1 the graph or its data is wrong (or a device failed), 2 wrong usage, 130 Ctrl-C.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import keyword
import os
import sys
from collections.abc import Iterator
from typing import Any

import click

from dmlgraph.base.errors import DmlGraphError, Problem, nearest
from dmlgraph.base.memory import not_enough_memory
from dmlgraph.cli.command import INTERRUPTED
from dmlgraph.cli.messages import tell
from dmlgraph.files.untrusted import what_failed

COMMANDS = (
    "bench",
    "check",
    "compare",
    "completion",
    "cut",
    "devices",
    "diff",
    "directml",
    "doctor",
    "dxdispatch",
    "export",
    "generate",
    "golden",
    "import",
    "lower",
    "map",
    "new",
    "onnx",
    "operators",
    "run",
    "schema",
    "show",
    "test",
    "train",
)


def _module(command: str) -> str:
    """The module and function of a command: with a trailing underscore if Python reserves the word."""
    return f"{command}_" if keyword.iskeyword(command) else command


class Commands(click.Group):
    """A group of commands that are imported when they are used; it prints our errors as a compiler does."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = _module(cmd_name)
        command: click.Command = getattr(importlib.import_module(f"dmlgraph.cli.{name}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            raise click.UsageError(f"there is no command '{name}': {_instead(name)}", ctx)
        return super().resolve_command(ctx, args)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with _without_traceback():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with _without_traceback():
            return super().invoke(ctx)


# Words that users of other programs take for commands, and what to write instead.
_ELSEWHERE = {
    **{"help": "'dmlgraph --help' lists them, and 'dmlgraph COMMAND --help' explains one"},
    **{"version": "'dmlgraph --version' prints it"},
    **dict.fromkeys(("lint", "validate", "verify"), "did you mean 'dmlgraph check'?"),
    **dict.fromkeys(("convert", "load"), "did you mean 'dmlgraph import' or 'dmlgraph export'?"),
    **dict.fromkeys(("save", "write"), "did you mean 'dmlgraph export'?"),
    **dict.fromkeys(("compile", "build", "print", "dump"), "did you mean 'dmlgraph lower'?"),
    **dict.fromkeys(("draw", "view", "plot", "visualize"), "did you mean 'dmlgraph show'?"),
    **dict.fromkeys(("benchmark", "time", "profile"), "did you mean 'dmlgraph bench'?"),
    **dict.fromkeys(("exec", "execute", "infer", "predict"), "did you mean 'dmlgraph run'?"),
    **dict.fromkeys(("ops", "list"), "did you mean 'dmlgraph operators' or 'dmlgraph devices'?"),
    **dict.fromkeys(("init", "create"), "did you mean 'dmlgraph new'?"),
}


def _instead(name: str) -> str:
    """What to write instead of a word that is not a command."""
    if os.path.exists(name):
        return f"it is a file; did you mean 'dmlgraph run {name}'?"
    near = nearest(name, COMMANDS)
    return _ELSEWHERE.get(name) or (f"did you mean '{near}'?" if near else "'dmlgraph --help' lists them")


@contextlib.contextmanager
def _without_traceback() -> Iterator[None]:
    """Prints errors that end a command in a line or two, and sets the exit status."""
    try:
        yield
    except DmlGraphError as error:
        tell(error.problems)
    except MemoryError as error:
        tell(not_enough_memory("finish the command", error).problems)
    except BrokenPipeError:  # the reader has gone, as with `| head`: click ends silently
        raise
    except OSError as error:
        if sys.platform == "win32" and error.errno == errno.EINVAL and error.filename is None:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from None  # which Windows does not tell apart
        tell([Problem(what_failed(error), code="system")])
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            click.echo(err=True)  # the terminal has written ^C on the line
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
