"""The `dmlgraph` command: one module a command.

Exit status: 0 fine, 1 the graph or its data is wrong (or a device failed), 2 wrong usage, 130 Ctrl-C.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import click

from dmlgraph.cli.bench import bench
from dmlgraph.cli.check import check
from dmlgraph.cli.completion import completion
from dmlgraph.cli.devices import devices
from dmlgraph.cli.diff import diff
from dmlgraph.cli.directml import directml
from dmlgraph.cli.dxdispatch import dxdispatch
from dmlgraph.cli.lower import lower
from dmlgraph.cli.messages import tell
from dmlgraph.cli.new import new
from dmlgraph.cli.operators import operators
from dmlgraph.cli.run import run
from dmlgraph.cli.schema import schema
from dmlgraph.cli.show import show
from dmlgraph.errors import DmlGraphError, Problem
from dmlgraph.memory import not_enough_memory
from dmlgraph.plain_files import what_failed
from dmlgraph_command import INTERRUPTED


class Commands(click.Group):
    """A group that tells our errors as a compiler does."""

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
        tell([Problem(what_failed(error))])
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


COMMANDS = (new, run, check, lower, show, bench, diff, operators, devices, schema, directml, dxdispatch, completion)
for command in COMMANDS:
    main.add_command(command)
