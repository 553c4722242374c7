"""`dmlgraph compare`: an ONNX model here and in another program."""

from __future__ import annotations

import pathlib

import click

from dmlgraph.base.errors import listing
from dmlgraph.cli.array_options import ArrayFile, with_inputs
from dmlgraph.cli.model_options import options_of_models, with_dims
from dmlgraph.cli.options import chosen, with_device, with_tolerance, without_fusion
from dmlgraph.cli.parameter_types import FILE


@click.command()
@click.argument("file", type=FILE)
@click.option("--with", "other", type=click.Choice(["onnxruntime"]), required=True, help="What computes it, too.")
@with_device("Where it runs here.", default="auto", show_default=True)
@with_inputs
@without_fusion
@with_tolerance
@with_dims
@click.pass_context
def compare(
    ctx: click.Context,
    file: pathlib.Path,
    other: str,
    device: str,
    inputs: dict[str, ArrayFile],
    no_fuse: bool,
    ulp: int,
    relative: float,
    absolute: float,
    dims: dict[str, int],
) -> None:
    """Compare what a model computes here and in ONNX Runtime.

    Both run the model on the same inputs; those that are not given are filled with random numbers, the same every
    time.  It prints the largest difference of each output in units in the last place (ULP).  If outputs differ, every
    inner value of the model is compared, and the first one that differs is shown, with the numbers around its worst
    element.  Numbers are equal within any of --ulp, --relative and --absolute.  The exit status is 1 if an output
    differs.  This needs the extra onnx, and the package onnxruntime.

    \b
    Examples:
      dmlgraph compare model.onnx --with onnxruntime --dim batch=1 --relative 1e-3 --absolute 1e-5
      dmlgraph compare model.onnx --with onnxruntime --device directml --input x=x.npy --ulp 16
    """
    from dmlgraph.measure.onnxruntime import compare_with_onnxruntime
    from dmlgraph.measure.report import INDENT, greatest, neighbours, of_outputs
    from dmlgraph.measure.ulp import Tolerance

    given = {name: each.array for name, each in inputs.items()}
    choice = chosen(device)
    options = {"dims": dims, **options_of_models()}
    tolerance = Tolerance(ulp, relative, absolute)
    found = compare_with_onnxruntime(file, choice, given, tolerance, fuse=not no_fuse, **options)
    if found.random:
        click.echo(f"random numbers for: {listing(found.random, at_most=8)}", err=True)
    click.echo("\n".join(of_outputs(found.graph.output_descs, found.outputs)))
    if found.equal:
        return
    differing = sum(not each.equal for each in found.inner.values())
    click.echo(f"\n{differing} of {len(found.inner)} inner values differ")
    if found.first is not None:
        name, comparison = found.first
        click.echo(f"the first one that differs is '{name}'")
        for line in (*neighbours(name, comparison, (choice.name, other)), greatest(comparison)):
            click.echo(INDENT + line)
    ctx.exit(1)
