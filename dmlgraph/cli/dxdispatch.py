"""`dmlgraph dxdispatch`: models of DirectML's command-line runner."""

from __future__ import annotations

import pathlib

import click

from dmlgraph.cli.array_options import ArrayFile, as_declared, parse_arrays
from dmlgraph.cli.graph_files import load_graph
from dmlgraph.cli.model_options import with_dims
from dmlgraph.cli.options import with_force, with_output, writing
from dmlgraph.cli.output import print_document
from dmlgraph.cli.parameter_types import FILE, GRAPH


@click.group()
def dxdispatch() -> None:
    """Import and export DxDispatch models.

    DxDispatch is DirectML's command-line runner; its models are JSON files.

    \b
    Examples:
      dmlgraph dxdispatch import model.json -o graph.yaml
      dmlgraph dxdispatch export examples/ramp.yaml -o ramp.json
    """


@dxdispatch.command("import")
@click.argument("file", type=FILE)
@with_output("The graph file to write; by default it is printed.")
@with_force
@click.option(
    "--input", "inputs", multiple=True, metavar="NAME", help="Make this buffer an input, whatever its content."
)
@click.option(
    "--constant",
    "constants",
    multiple=True,
    metavar="NAME",
    help="Make this buffer a constant, even if it is all zeros.",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=pathlib.Path),
    help="The folder of the model's files; by default that of the model.",
)
def import_(
    file: pathlib.Path,
    output: pathlib.Path | None,
    force: bool,
    inputs: tuple[str, ...],
    constants: tuple[str, ...],
    folder: pathlib.Path | None,
) -> None:
    """Convert a DxDispatch model to a graph file.

    The dispatched operators become nodes and the buffers between them edges.  Buffers filled with the constant 0 become
    inputs if they are read, other initialized buffers constants; buffers that are printed or written to a file become
    outputs.

    \b
    Examples:
      dmlgraph dxdispatch import model.json
      dmlgraph dxdispatch import model.json --input x -o graph.yaml
    """
    from dmlgraph.formats import yaml as document
    from dmlgraph.formats.dxdispatch import reader

    graph = reader.load(file, inputs=inputs, constants=constants, folder=folder)
    if output is None:
        print_document(document.dumps(graph))
    else:
        with writing(output):
            document.save(graph, output, force=force)


@dxdispatch.command()
@click.argument("file", type=GRAPH)
@with_output("The model to write; by default it is printed.")
@with_force
@click.option(
    "--input",
    "inputs",
    multiple=True,
    callback=parse_arrays,
    metavar="NAME=FILE.npy",
    help="The content of an input's buffer; zeros by default.",
)
@with_dims
def export(
    file: pathlib.Path,
    output: pathlib.Path | None,
    force: bool,
    inputs: dict[str, ArrayFile],
    dims: dict[str, int],
) -> None:
    """Convert a graph file to a DxDispatch model.

    Every operator becomes a dispatchable and every value a buffer; the model prints the outputs.  Large arrays go into
    .npy files beside the model.

    \b
    Examples:
      dmlgraph dxdispatch export examples/ramp.yaml
      dmlgraph dxdispatch export examples/ramp.yaml --input x=examples/ramp.x.npy --dim N=1 -o ramp.json
    """
    from dmlgraph.formats.dxdispatch import writer

    graph = load_graph(file, dims)
    arrays = as_declared(graph, inputs)
    if output is None:
        print_document(writer.dumps(graph, inputs=arrays))
    else:
        with writing(output):
            writer.save(graph, output, inputs=arrays, force=force)
