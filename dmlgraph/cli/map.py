"""`dmlgraph map`: runs a graph over very many chunks of files, on this machine or on a cluster."""

from __future__ import annotations

import pathlib

import click

from dmlgraph.cli.array_options import split_pairs
from dmlgraph.cli.messages import visible
from dmlgraph.cli.model_options import parsing_dims, with_dim
from dmlgraph.cli.options import permissions, with_device, with_permissions, without_fusion
from dmlgraph.cli.parameter_types import FILE, NEW_FOLDER, Whole


def _parse_inputs(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """`x=photos/` pairs."""
    return dict(split_pairs(values, "NAME=PATH"))


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    callback=_parse_inputs,
    metavar="NAME=PATH",
    help="An input: a folder of .npy files, each of which is a chunk; or a .npy file or .zarr store, which is cut.",
)
@click.option(
    "--out",
    required=True,
    type=NEW_FOLDER,
    metavar="DIR",
    help="Where the results go; what is there already is not computed again.",
)
@with_device("Where to run, on each worker; 'dmlgraph devices' lists them.", default="auto", show_default=True)
@click.option(
    "--chunk",
    "chunks",
    multiple=True,
    callback=parsing_dims("batch=64"),
    metavar="NAME=SIZE",
    help="The size of chunks along a dim; by default 8 MiB of the first axis.",
)
@click.option("--zarr", is_flag=True, help="Write DIR/results.zarr, in place of .npy files for each chunk.")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler, such as tls://10.0.0.1:8786.")
@click.option(
    "--workers",
    type=Whole(min=1),
    metavar="N",
    help="Without a scheduler, how many processes this machine starts; by default one per processor.",
)
@without_fusion
@with_permissions
@click.option("--quiet", is_flag=True, help="Do not show how far it is.")
@with_dim
@click.option("--target", metavar="LEVEL", help="For an ONNX model: its feature level, such as 5.0.")
@click.pass_context
def map(
    ctx: click.Context,
    file: pathlib.Path,
    inputs: dict[str, str],
    out: pathlib.Path,
    device: str,
    chunks: dict[str, int],
    zarr: bool,
    scheduler: str | None,
    workers: int | None,
    no_fuse: bool,
    quiet: bool,
    dims: dict[str, int],
    target: str | None,
) -> None:
    """Run a graph over very many chunks of files.

    Processes of this machine or of a Dask cluster each take chunks and write the results. When it is stopped, or a
    machine is lost, the same command goes on where it was: it does what is missing, and tries again what failed. A
    chunk that fails does not stop the others; DIR/failed says why. The exit status is 1 if a chunk failed.

    All machines must see FILE, the inputs and DIR under the same paths. This needs the extra distributed:
    pip install "dmlgraph[distributed]".

    \b
    Examples:
      dmlgraph map examples/normalize_photo.yaml --input photo=photos/ --out results
      dmlgraph map net.onnx --input x=x.zarr --chunk batch=256 --zarr --out results --scheduler tcp://10.0.0.1:8786
    """
    if scheduler is not None and workers is not None:
        raise click.UsageError("--workers is for a cluster of this machine, without --scheduler")
    from dmlgraph.base.errors import plural
    from dmlgraph.distributed import run_chunks

    summary = run_chunks(
        *(file, inputs, out),
        device=device,
        fuse=not no_fuse,
        dims=dims,
        target=target,
        chunks=chunks or None,
        zarr=zarr,
        scheduler=scheduler,
        workers=workers,
        progress=not quiet,
        **permissions(),
    )
    text = f"{plural(summary.total, 'chunk')}: {summary.done} done now, {summary.before} before"
    click.echo(f"{text}, {summary.failed} failed; see {out / 'failed'}" if summary.failed else text)
    if summary.failed:
        click.echo(visible(f"the first: {summary.why}"), err=True)
        ctx.exit(1)
