"""`dmlgraph lower`: prints the DML_GRAPH_DESC as text."""

from __future__ import annotations

import pathlib
import textwrap
from collections.abc import Iterator

import click

from dmlgraph.base.report import Report
from dmlgraph.cli import reports
from dmlgraph.cli.graph_files import load_graph
from dmlgraph.cli.messages import tell
from dmlgraph.cli.model_options import with_dims
from dmlgraph.cli.options import chosen, with_device, with_json
from dmlgraph.cli.parameter_types import GRAPH


@click.command()
@click.argument("file", type=GRAPH)
@with_device("Fuse for this device, at its feature level; by default at the graph's level.", "name")
@click.option("--no-fuse", is_flag=True, help="Lower the nodes as they are in the file, without fusion.")
@click.option("--explain", is_flag=True, help="First print, after '#', what was fused and what was not.")
@with_json
@with_dims
def lower(
    file: pathlib.Path, name: str | None, no_fuse: bool, explain: bool, as_json: bool, dims: dict[str, int]
) -> None:
    """Print the DML_GRAPH_DESC of a graph.

    It has every node with every field of its C struct, and the edges.  For the device cpu the plan follows: a line for
    each step, with how it runs, the nodes that it computes together, and what it reads and writes.

    \b
    Examples:
      dmlgraph lower examples/ramp.yaml --dim N=4
      dmlgraph lower examples/ramp.yaml --explain
      dmlgraph lower examples/ramp.yaml --no-fuse
      dmlgraph lower examples/ramp.yaml --explain --device cpu
    """
    from dmlgraph.devices.compile import lower_graph
    from dmlgraph.graph.nodes import operator_count

    choices = [] if name is None else [chosen(name)]
    devices = [each.device for each in choices]
    graph = load_graph(file, dims, choices)
    tell(graph.warnings())
    with Report(place=graph.origin.located):
        fused, desc = lower_graph(graph, next(iter(devices), None), fuse=not no_fuse)
    if as_json:
        compiled = {each.name: each.needs(desc) for each in devices}
        reports.print_report("lower", reports.lowered(desc, operator_count(graph.nodes), compiled))
        return
    if explain:
        why = "nothing is fused: the file says that it is fused" if graph.origin.fused else "nothing to fuse"
        nothing = "nothing is fused: --no-fuse" if no_fuse else why
        click.echo(textwrap.indent(fused.explain() or f"{nothing}\n", "# "), nl=False)
    click.echo(str(desc), nl=False)
    for device in devices:
        needed = device.plan(desc) or "".join(_needs(device.needs(desc)))
        click.echo(f"\n{needed}" if needed else "", nl=False)


def _needs(numbers: dict[str, int]) -> Iterator[str]:
    """What a device that does not show steps needs for a graph."""
    for name, number in numbers.items():
        words = name.removesuffix("_count").removesuffix("_bytes")
        yield f"{words}: {number} bytes\n" if name.endswith("_bytes") else f"{words}s: {number}\n"
