"""`dmlgraph export`: a graph file as an ONNX or DxDispatch model."""

from __future__ import annotations

import pathlib

import click

from dmlgraph.cli.options import GRAPH, load_graph, with_dims, with_output, writing

SUFFIXES = (".onnx", ".json")


@click.command()
@click.argument("file", type=GRAPH)
@with_output("The model to write: .onnx, or .json for DxDispatch.", required=True)
@with_dims
def export(file: pathlib.Path, output: pathlib.Path, dims: dict[str, int]) -> None:
    """Convert a graph file to a model for other programs.

    The suffix of the output says which: .onnx for ONNX, .json for DxDispatch, DirectML's command-line runner.  In an
    ONNX model constants above 1 MB are in a file beside it.  All nodes that ONNX cannot express are reported, with
    reasons.  ONNX needs the extra onnx: pip install "dmlgraph[onnx]".

    \b
    Examples:
      dmlgraph export examples/ramp.yaml -o ramp.onnx
      dmlgraph export examples/ramp.yaml -o ramp.json --dim N=1
    """
    if output.suffix.lower() not in SUFFIXES:
        raise click.BadParameter(f"'{output}' must end in {' or '.join(SUFFIXES)}", param_hint="--output")
    graph = load_graph(file, dims)
    with writing(output):
        if output.suffix.lower() == ".onnx":
            from dmlgraph.formats import onnx

            onnx.save(graph, output)
        else:
            from dmlgraph.formats.dxdispatch import writer

            writer.save(graph, output)
