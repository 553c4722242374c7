"""`dmlgraph import`: an ONNX model as a graph file with its weights."""

from __future__ import annotations

import itertools
import pathlib
import time

import click

from dmlgraph.cli.messages import tell
from dmlgraph.cli.model_options import options_of_models, with_dims
from dmlgraph.cli.options import with_force, with_output, writing
from dmlgraph.cli.parameter_types import FILE, NEW_FOLDER

WEIGHTS = "weights.safetensors"


@click.command("import")
@click.argument("file", type=FILE)
@with_output(f"The folder for the graph file and {WEIGHTS}.", "folder", type=NEW_FOLDER, required=True)
@click.option("--fixed", is_flag=True, help="Fix the dims at their sizes: the model is imported once, which is faster.")
@with_force
@with_dims
def import_(
    file: pathlib.Path,
    folder: pathlib.Path,
    fixed: bool,
    force: bool,
    dims: dict[str, int],
) -> None:
    """Convert an ONNX model to a graph file and one file of weights.

    Every dim of the model gets a size.  It stays a dim of the graph, for which --dim gives other sizes later, wherever
    the sizes in the graph follow it: the model is imported with a few others and compared.  A dim that something else
    follows is fixed, and the reason is printed.  All nodes that cannot be imported are reported, with reasons.  The
    times that it took are printed, that of onnx and onnx-ir apart.  This needs the extra onnx:
    pip install "dmlgraph[onnx]".

    \b
    Examples:
      dmlgraph import model.onnx -o model --dim batch=1
      dmlgraph import vad.onnx -o vad --dim batch=1 --value sr=16000
      dmlgraph import decoder.onnx -o decoder --state auto --dim batch=1 --dim tokens=1 --dim capacity=512
    """
    from dmlgraph.formats import onnx
    from dmlgraph.formats import yaml as document
    from dmlgraph.graph.nodes import counted

    times = [time.perf_counter()]
    model = onnx.read(file)
    times.append(time.perf_counter())
    graph = onnx.convert_model(model, file, dims=dims, keep_dims=not fixed, **options_of_models())
    times.append(time.perf_counter())
    tell(graph.warnings())
    path = folder / f"{file.stem}.yaml"
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        document.save(graph, path, weights=WEIGHTS, force=force)
    times.append(time.perf_counter())
    read, imported, written = (end - start for start, end in itertools.pairwise(times))
    click.echo(f"read by onnx in {read:.2f} s, imported in {imported:.2f} s, written in {written:.2f} s", err=True)
    for dim, why in graph.origin.fixed.items():
        click.echo(f"{dim} stays {graph.dims[dim]}: it is in {why}", err=True)
    click.echo(f"{path}: written, {counted(graph.nodes)}; now: dmlgraph check {path}")
