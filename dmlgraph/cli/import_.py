"""`dmlgraph import`: an ONNX model as a graph file with its weights."""

from __future__ import annotations

import pathlib
from typing import Any

import click

from dmlgraph.cli.messages import tell
from dmlgraph.cli.options import FILE, with_dims, writing
from dmlgraph.errors import plural

WEIGHTS = "weights.safetensors"


def _parse_values(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    """`sr=16000` or `shape=shape.npy` pairs."""
    from dmlgraph.cli.options import parse_arrays

    values: dict[str, Any] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not name or not equals or not text:
            raise click.BadParameter(f"'{each}' is not NAME=NUMBER or NAME=FILE.npy")
        number = _number(text)
        values[name] = parse_arrays(_, __, (each,))[name].array if number is None else number
    return values


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def _parse_pairs(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """`double=float32` pairs."""
    pairs = {}
    for each in given:
        name, equals, wanted = each.partition("=")
        if not name or not equals or not wanted:
            raise click.BadParameter(f"'{each}' is not TYPE=TYPE, such as double=float32")
        pairs[name] = wanted
    return pairs


@click.command("import")
@click.argument("file", type=FILE)
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    required=True,
    help=f"The folder for the graph file and {WEIGHTS}.",
)
@with_dims
@click.option(
    "--value",
    "values",
    multiple=True,
    callback=_parse_values,
    metavar="NAME=NUMBER|FILE.npy",
    help="An input that is known now.",
)
@click.option(
    "--convert",
    multiple=True,
    callback=_parse_pairs,
    metavar="TYPE=TYPE",
    help="A type to convert, such as double=float32.",
)
@click.option("--target", help="The feature level of the graph, such as 5.0; by default the newest.")
def import_(
    file: pathlib.Path,
    folder: pathlib.Path,
    dims: dict[str, int],
    values: dict[str, Any],
    convert: dict[str, str],
    target: str | None,
) -> None:
    """Convert an ONNX model to a graph file and one file of weights.

    Every dim of the model gets a size.  All nodes that cannot be imported are reported, with reasons.  This needs the
    extra onnx: pip install "dmlgraph[onnx]".

    \b
    Examples:
      dmlgraph import model.onnx -o model --dim batch=1
      dmlgraph import vad.onnx -o vad --dim batch=1 --value sr=16000
    """
    from dmlgraph import document, onnx

    graph = onnx.load(file, dims=dims, values=values, target=target, convert=convert)
    tell(graph.warnings())
    path = folder / f"{file.stem}.yaml"
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        document.save(graph, path, weights=WEIGHTS)
    click.echo(f"{path}: written, {plural(len(graph.nodes), 'node')}; now: dmlgraph check {path}")
