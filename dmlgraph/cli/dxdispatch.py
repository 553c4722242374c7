"""`dmlgraph dxdispatch`: models of DirectML's command-line runner."""

from __future__ import annotations

import pathlib

import click

from dmlgraph.cli.options import with_force, with_output, writing
from dmlgraph.cli.output import print_document
from dmlgraph.cli.parameter_types import FILE


class _Group(click.Group):
    """The group; what it does not have is answered with the command that does it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] == "export":
            raise click.UsageError("there is no command 'export' here: write 'dmlgraph export FILE -o MODEL.json'", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_Group)
def dxdispatch() -> None:
    """Import DxDispatch models.

    DxDispatch is DirectML's command-line runner; its models are JSON files.  `dmlgraph export FILE -o MODEL.json`
    writes them.

    \b
    Example:
      dmlgraph dxdispatch import model.json -o graph.yaml
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
