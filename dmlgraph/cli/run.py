"""`dmlgraph run`: runs a graph and prints its outputs."""

from __future__ import annotations

import pathlib
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from dmlgraph.cli.completion import complete_devices
from dmlgraph.cli.messages import tell
from dmlgraph.cli.options import FILE, ArrayFile, chosen, every_input, with_dims, with_inputs, writing
from dmlgraph.errors import Within
from dmlgraph.files import NewFiles

if TYPE_CHECKING:
    import numpy as np

    from dmlgraph.graph import Graph

SHOWN_ELEMENTS = 64  # outputs with more elements are summarised


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    shell_complete=complete_devices,
    help="Where to run; 'dmlgraph devices' lists them.",
)
@with_inputs
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    help="Save each output as DIR/NAME.npy; '/' and similar characters are escaped as in a URL, %2F.",
)
@click.option("--no-fuse", is_flag=True, help="Run the nodes as they are in the file, without fusion.")
@with_dims
def run(
    file: pathlib.Path,
    device: str,
    no_fuse: bool,
    inputs: dict[str, ArrayFile],
    output_dir: pathlib.Path | None,
    dims: dict[str, int],
) -> None:
    """Run a graph and print its outputs.

    \b
    Examples:
      dmlgraph run examples/positional_encoding.yaml
      dmlgraph run examples/ramp.yaml --input x=examples/ramp.x.npy --dim N=1 --output-dir results
    """
    from dmlgraph.compile import compile_graph
    from dmlgraph.document import load

    choice = chosen(device)
    graph = load(file, dims=dims)
    tell(graph.warnings())
    arrays = every_input(graph, inputs)
    with Within(place=graph.located):
        executable = compile_graph(graph, choice, fuse=not no_fuse)
    click.echo(f"device: {executable.device} ({executable.reason})", err=True)
    results = executable.run(arrays)
    for name, array in results.items():
        dtype = graph.outputs[name].dtype
        click.echo(f"{name}: {dtype} {list(array.shape)}")
        click.echo(textwrap.indent(_values(array), "  ", predicate=lambda line: True))
    if output_dir is not None:
        with writing(output_dir):
            _save(results, graph, output_dir)


def _save(results: Mapping[str, np.ndarray[Any, Any]], graph: Graph, folder: pathlib.Path) -> None:
    import numpy as np

    from dmlgraph.document.arrays import to_stored
    from dmlgraph.file_names import FileNames

    folder.mkdir(parents=True, exist_ok=True)
    names = FileNames()
    with NewFiles() as files:
        for name, array in results.items():
            with writing(path := folder / f"{names.take(name)}.npy"), files.open(path) as stream:
                np.save(stream, to_stored(array, graph.outputs[name].dtype))


def _values(array: np.ndarray[Any, Any]) -> str:
    """All values of a small array, or the corners of a large one."""
    import numpy as np

    with np.printoptions(threshold=SHOWN_ELEMENTS, edgeitems=2, linewidth=100):
        return str(array)
