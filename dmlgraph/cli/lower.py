"""`dmlgraph lower`: prints the DML_GRAPH_DESC as text."""

from __future__ import annotations

import pathlib
import textwrap

import click

from dmlgraph.base.report import Report
from dmlgraph.cli.messages import tell
from dmlgraph.cli.options import GRAPH, chosen, load_graph, with_device, with_dims


@click.command()
@click.argument("file", type=GRAPH)
@with_device("Fuse for this device, at its feature level; by default at the graph's level.", "name")
@click.option("--no-fuse", is_flag=True, help="Lower the nodes as they are in the file, without fusion.")
@click.option("--explain", is_flag=True, help="First print, after '#', what was fused and what was not.")
@with_dims
def lower(file: pathlib.Path, name: str | None, no_fuse: bool, explain: bool, dims: dict[str, int]) -> None:
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

    choices = [] if name is None else [chosen(name)]
    devices = [each.device for each in choices]
    graph = load_graph(file, dims, choices)
    tell(graph.warnings())
    with Report(place=graph.origin.located):
        fused, desc = lower_graph(graph, next(iter(devices), None), fuse=not no_fuse)
    if explain:
        nothing = "nothing is fused: --no-fuse\n" if no_fuse else "nothing to fuse\n"
        click.echo(textwrap.indent(fused.explain() or nothing, "# "), nl=False)
    click.echo(str(desc), nl=False)
    for device in devices:
        plan = device.plan(desc)
        click.echo(f"\n{plan}" if plan else "", nl=False)
