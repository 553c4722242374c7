"""`dmlgraph run`: runs a graph and prints its outputs."""

from __future__ import annotations

import math
import pathlib
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from dmlgraph.base.report import Report
from dmlgraph.cli.array_options import ArrayFile, complete_inputs, every_input, with_inputs
from dmlgraph.cli.graph_files import load_graph
from dmlgraph.cli.messages import tell
from dmlgraph.cli.model_options import with_dims
from dmlgraph.cli.options import chosen, with_device, with_permissions, without_fusion, writing
from dmlgraph.cli.parameter_types import GRAPH, NEW_FOLDER, Whole
from dmlgraph.cli.reports import print_report
from dmlgraph.files.whole import NewFiles

if TYPE_CHECKING:
    import numpy as np

    from dmlgraph.base.tensor import DataType
    from dmlgraph.graph.graph import Graph

_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # as JavaScript writes them
SHOWN_ELEMENTS = 64  # outputs with more elements are summarised


@click.command()
@click.argument("file", type=GRAPH)
@with_device("Where to run; 'dmlgraph devices' lists them.", default="auto", show_default=True)
@with_inputs
@click.option(
    "--output-dir",
    type=NEW_FOLDER,
    help="Save each output as DIR/NAME.npy; '/' and similar characters are escaped as in a URL, %2F.",
)
@click.option(
    "--random",
    "seed",
    type=Whole(min=0),
    metavar="SEED",
    help="Fill inputs that are not given with random numbers: normal floats, integers from 0 to 7.",
)
@without_fusion
@with_permissions
@click.option(
    "--json", "as_json", is_flag=True, help="Print the outputs as JSON, with all numbers; not finite ones as text."
)
@with_dims
def run(
    file: pathlib.Path,
    device: str,
    no_fuse: bool,
    inputs: dict[str, ArrayFile],
    seed: int | None,
    as_json: bool,
    output_dir: pathlib.Path | None,
    dims: dict[str, int],
) -> None:
    """Run a graph and print its outputs.

    \b
    Examples:
      dmlgraph run examples/positional_encoding.yaml
      dmlgraph run examples/ramp.yaml --input x=examples/ramp.x.npy --dim N=1 --output-dir results
      dmlgraph run examples/ramp.yaml --random 0 --json
      dmlgraph run - < examples/positional_encoding.yaml
    """
    from dmlgraph.devices.compile import compile_graph

    choice = chosen(device)
    graph = load_graph(file, dims, [choice])
    tell(graph.warnings())
    arrays = every_input(graph, inputs) if seed is None else complete_inputs(graph, inputs, seed)
    with Report(place=graph.origin.located):
        executable = compile_graph(graph, choice, fuse=not no_fuse)
    click.echo(f"device: {executable.device} ({executable.reason})", err=True)
    results = executable.run(arrays)
    if as_json:
        outputs = {name: _plain(array, graph.outputs[name].dtype) for name, array in results.items()}
        shown = {"graph": graph.name, "device": executable.device, "outputs": outputs}
        print_report("run", shown, indent=None)
    else:
        for name, array in results.items():
            dtype = graph.outputs[name].dtype
            click.echo(f"{name}: {dtype} {list(array.shape)}")
            click.echo(textwrap.indent(_values(array), "  ", predicate=lambda line: True))
    if output_dir is not None:
        with writing(output_dir):
            _save(results, graph, output_dir)


def _save(results: Mapping[str, np.ndarray[Any, Any]], graph: Graph, folder: pathlib.Path) -> None:
    import numpy as np

    from dmlgraph.base.file_names import FileNames
    from dmlgraph.formats.arrays import to_stored

    folder.mkdir(parents=True, exist_ok=True)
    names = FileNames()
    with NewFiles() as files:
        for name, array in results.items():
            with writing(path := folder / f"{names.take(name)}.npy"), files.open(path) as stream:
                np.save(stream, to_stored(array, graph.outputs[name].dtype))


def _plain(array: np.ndarray[Any, Any], dtype: DataType) -> dict[str, Any]:
    """An output for JSON, its numbers in row-major order; JSON has no infinities and NaNs, so that these are text."""
    numbers: list[Any] = array.ravel().tolist()
    if not dtype.is_float:
        numbers = list(map(int, numbers))
    elif dtype.bits < 64:  # the shortest decimals that read back in the type, as NumPy writes them
        numbers = [float(str(number)) for number in array.ravel()]
    data = [number if math.isfinite(number) else _NOT_FINITE[str(number)] for number in numbers]
    return {"dtype": str(dtype), "sizes": list(array.shape), "data": data}


def _values(array: np.ndarray[Any, Any]) -> str:
    """All values of a small array, or the corners of a large one."""
    import numpy as np

    with np.printoptions(threshold=SHOWN_ELEMENTS, edgeitems=2, linewidth=100):
        return str(array)
