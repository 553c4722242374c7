"""The `dmlgraph` command: one module a command.

Exit status: 0 fine, 1 the graph or its data is wrong (or a device failed), 2 wrong usage.
"""

from __future__ import annotations

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
from dmlgraph.errors import DmlGraphError


class Commands(click.Group):
    """A group that tells our errors as a compiler does."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DmlGraphError as error:
            tell(error.problems)
            ctx.exit(1)
        except BrokenPipeError:  # nobody reads on, as with `| head`: click ends in silence
            raise
        except OSError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(1)


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
