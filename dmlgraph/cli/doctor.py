"""`dmlgraph doctor`: finds the node that a device computes wrong."""

from __future__ import annotations

import pathlib
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import click

from dmlgraph.base.report import Report
from dmlgraph.cli import reports
from dmlgraph.cli.array_options import ArrayFile, complete_inputs, with_inputs
from dmlgraph.cli.completion import complete_devices
from dmlgraph.cli.graph_files import load_graph
from dmlgraph.cli.messages import tell
from dmlgraph.cli.model_options import with_dims
from dmlgraph.cli.options import chosen, with_device, with_permissions, without_fusion, writing
from dmlgraph.cli.parameter_types import GRAPH, NEW_FILE, NEW_FOLDER, Number

if TYPE_CHECKING:
    from dmlgraph.devices import Choice
    from dmlgraph.devices.executable import Array
    from dmlgraph.doctor.finding import Finding
    from dmlgraph.doctor.golden import Golden
    from dmlgraph.graph.graph import Graph


@click.command()
@click.argument("file", type=GRAPH)
@with_device("The device to examine.", required=True)
@click.option(
    "--against",
    shell_complete=complete_devices,
    default="reference",
    show_default=True,
    metavar="DEVICE",
    help="A device that is right.",
)
@click.option(
    "--golden",
    "recorded",
    type=click.Path(exists=True, path_type=pathlib.Path),
    help="Values recorded elsewhere: a .npz, a .safetensors file, or a folder of .npy files.",
)
@with_inputs
@without_fusion
@click.option(
    "--time-limit",
    type=Number(min=0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Kill the process in which the graph is tried first after this long.",
)
@with_permissions
@click.option("--image", type=NEW_FILE, help="Write a picture of where the errors lie, as SVG.")
@click.option(
    "--output",
    "-o",
    "folder",
    type=NEW_FOLDER,
    help="Shrink the case, try the ways round it, and write a report, reproducers and the graph that passes here.",
)
@click.option("--with-names", is_flag=True, help="With -o: let the report have the names of nodes.")
@click.option("--with-data", is_flag=True, help="With -o: let the report have sizes and numbers of the graph.")
@click.option("--json", "as_json", is_flag=True, help="Print the finding as JSON.")
@with_dims
@click.pass_context
def doctor(
    ctx: click.Context,
    file: pathlib.Path,
    device: str,
    against: str,
    recorded: pathlib.Path | None,
    inputs: dict[str, ArrayFile],
    no_fuse: bool,
    time_limit: float,
    image: pathlib.Path | None,
    folder: pathlib.Path | None,
    with_names: bool,
    with_data: bool,
    as_json: bool,
    dims: dict[str, int],
) -> None:
    """Find the node that a device computes wrong.

    It judges each node by what it reads on the device, so that a difference from the nodes before is not its fault.  It
    tells a fault from small differences that grow, from runs that differ, and from a device that is lost, refuses the
    graph or does not end.  The first try is in a process of its own.  The exit status is 1 if anything is wrong.

    Inputs that are not given are those recorded; without --golden random numbers, the same every time.

    \b
    Examples:
      dmlgraph doctor examples/ramp.yaml --device cpu
      dmlgraph doctor examples/ramp.yaml --device directml:software --against cpu
      dmlgraph doctor examples/ramp.yaml --device cpu --json
      dmlgraph doctor examples/ramp.yaml --device directml:software -o diagnosis
    """
    from dmlgraph.doctor.find import find
    from dmlgraph.doctor.finding import Kind
    from dmlgraph.doctor.words import described, plain

    choice = chosen(device)
    graph = load_graph(file, dims, [choice])
    tell(graph.warnings())
    golden = None if recorded is None else _golden(recorded, graph, inputs)
    of_golden = {} if golden is None else golden.inputs(graph)
    arrays = complete_inputs(graph, {name: ArrayFile(str(recorded), each) for name, each in of_golden.items()} | inputs)
    with Report(place=graph.origin.located):
        right = chosen(against) if golden is None else golden
        finding = find(graph, choice, arrays, against=right, fuse=not no_fuse, time_limit=time_limit)
    if as_json:
        reports.print_report("doctor", plain(graph, finding))
    else:
        click.echo("\n".join(described(graph, finding)))
    if image is not None and finding.measures is not None:
        _draw(image, finding)
    elif image is not None:
        click.echo(f"{image}: not written, because no values of a node are wrong", err=as_json)
    if folder is not None:
        shown = {"with_names": with_names, "with_data": with_data}
        for line in _treated(graph, finding, arrays, choice, folder, fuse=not no_fuse, seconds=time_limit, **shown):
            click.echo(line, err=as_json)
    if finding.kind is not Kind.SOUND:
        ctx.exit(1)


def _treated(
    graph: Graph,
    finding: Finding,
    inputs: Mapping[str, Array],
    device: Choice,
    folder: pathlib.Path,
    *,
    fuse: bool,
    seconds: float,
    with_names: bool,
    with_data: bool,
) -> Iterator[str]:
    """What became of the wrong node, and the files that are written, in lines."""
    from dmlgraph.doctor.diagnosis import diagnose
    from dmlgraph.doctor.ended import diagnose_ended
    from dmlgraph.doctor.files import write
    from dmlgraph.doctor.finding import Kind

    if finding.kind in (Kind.FAULT, Kind.NOT_FINITE, Kind.UNSTABLE, Kind.VANISHING):
        read = None if finding.group else finding.inputs
        runs = 3 if finding.kind is Kind.UNSTABLE else 1
        kind, nodes, blamed = finding.kind, finding.nodes, finding.node
        found = diagnose(graph, nodes, inputs, device, kind=kind, blamed=blamed, read=read, fuse=fuse, runs=runs)
    elif finding.kind in (Kind.LOST, Kind.HANG):
        found = diagnose_ended(graph, finding, inputs, device, fuse=fuse, seconds=seconds)
    else:
        yield f"{folder}: not written, because no node computes something else than it should"
        return
    if found.treatment is not None:
        advised, elsewhere = found.treatment.advised, found.treatment.elsewhere
        if elsewhere is not None:
            yield f"no way round it was found: {elsewhere.way.name} helps the node alone, and another may be wrong, too"
        elif advised is None:
            yield "no way round it was found"
        else:
            yield f"a way round it: {advised.way.name}, with which the whole graph is right"
    with writing(folder):
        written = write(found, folder, with_names=with_names, with_data=with_data)
    yield from (f"{folder / name}: {what}" for name, what in written.items())


def _golden(path: pathlib.Path, graph: Graph, given: Collection[str]) -> Golden:
    """The recorded values; the inputs with which they were computed have to be known, too."""
    from dmlgraph.base.errors import GraphError
    from dmlgraph.doctor.golden import Golden

    golden = Golden.load(path)
    golden.check(graph)
    missing = [node.name for node in graph.inputs if node.name not in {*golden.inputs(graph), *given}]
    if missing:
        hint = "--input NAME=FILE gives the array with which the others were computed"
        raise GraphError(f"is not recorded in '{path}'", code="missing-input", node=missing[0], hint=hint)
    return golden


def _draw(image: pathlib.Path, finding: Finding) -> None:
    from dmlgraph.doctor.picture import svg
    from dmlgraph.files.whole import write_text

    with writing(image):
        write_text(image, svg(finding.got[finding.wrong], finding.expected[finding.wrong]))
