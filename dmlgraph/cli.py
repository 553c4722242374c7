"""The `dmlgraph` command.

Exit status: 0 fine, 1 the graph or its data is wrong (or a device failed), 2 wrong usage.
"""

from __future__ import annotations

import json
import pathlib
import sys
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

import click
import numpy as np

from dmlgraph.devices import choose, compile_graph, directml_install, directml_library, list_devices
from dmlgraph.document import load
from dmlgraph.document.arrays import from_stored, read_array, to_stored
from dmlgraph.document.schema import schema as make_schema
from dmlgraph.errors import DeviceError, DmlGraphError, Problem, suggestion
from dmlgraph.operators.operator import REGISTRY, find
from dmlgraph.operators.reference import describe, overview

SHOWN_ELEMENTS = 64  # outputs with more elements are summarised

FILE = click.Path(exists=True, dir_okay=False, path_type=pathlib.Path)


class Commands(click.Group):
    """A group that prints our errors as lines of their own."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DmlGraphError as error:
            for problem in error.problems:
                click.echo(_error_line(problem), err=True)
            ctx.exit(1)
        except BrokenPipeError:  # nobody reads on, as with `| head`: click ends in silence
            raise
        except OSError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(1)


def _error_line(problem: Problem) -> str:
    """`FILE:LINE:COLUMN: error: …`, or without a place where there is none."""
    return f"{problem.location}: error: {problem}" if problem.location else f"error: {problem}"


def _dims(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
    """`N=8` pairs."""
    dims = {}
    for value in values:
        name, equals, size = value.partition("=")
        if not name or not equals or not size.isdecimal():
            raise click.BadParameter(f"'{value}' is not NAME=SIZE, such as N=8")
        dims[name] = int(size)
    return dims


def _arrays(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, np.ndarray[Any, Any]]:
    """`x=x.npy` pairs, loaded; nothing is ever unpickled."""
    arrays = {}
    for value in values:
        name, equals, file = value.partition("=")
        if not name or not equals or not file:
            raise click.BadParameter(f"'{value}' is not NAME=FILE.npy")
        if name in arrays:
            raise click.BadParameter(f"'{name}' is given twice")
        try:
            arrays[name] = read_array(file)
        except OSError as error:
            raise DmlGraphError(f"cannot read '{file}': {error.strerror or error}", field=f"input {name}") from None
        except ValueError as error:
            raise DmlGraphError(f"'{file}' {error}", field=f"input {name}") from None
    return arrays


def _with_dims(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--dim",
        "dims",
        multiple=True,
        callback=_dims,
        metavar="NAME=SIZE",
        help="Another value for a dim of the graph.",
    )(command)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dmlgraph")
def main() -> None:
    """Check, lower and run DirectML graphs written in YAML.

    \b
    Example:
      dmlgraph run examples/ramp.yaml --input x=examples/ramp.x.npy
    """


@main.command()
@click.argument("file", type=FILE)
@click.option("--device", default="auto", show_default=True, help="Where to run; 'dmlgraph devices' lists them.")
@click.option("--input", "inputs", multiple=True, callback=_arrays, metavar="NAME=FILE.npy", help="An input's array.")
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    help="Save each output as DIR/NAME.npy.",
)
@_with_dims
def run(
    file: pathlib.Path,
    device: str,
    inputs: dict[str, np.ndarray[Any, Any]],
    output_dir: pathlib.Path | None,
    dims: dict[str, int],
) -> None:
    """Run a graph and print its outputs.

    \b
    Examples:
      dmlgraph run examples/positional_encoding.yaml
      dmlgraph run examples/ramp.yaml --input x=examples/ramp.x.npy --dim N=1 --output-dir results
    """
    try:
        choose(device)
    except DeviceError as error:
        if type(error) is not DeviceError:  # there is such a device, and it cannot be used
            raise
        raise click.BadParameter(str(error), param_hint="--device") from None
    graph = load(file, dims=dims)
    if output_dir is not None:
        _check_file_names(graph.outputs)
    executable = compile_graph(graph, device)
    click.echo(f"device: {executable.device} ({executable.reason})", err=True)
    dtypes = {node.name: node.desc.dtype for node in graph.inputs}
    results = executable.run(
        {name: from_stored(array, dtypes[name]) if name in dtypes else array for name, array in inputs.items()}
    )
    if output_dir is not None:
        output_dir.mkdir(parents=True, exist_ok=True)
    for name, array in results.items():
        dtype = graph.outputs[name].dtype
        click.echo(f"{name}: {dtype} {list(array.shape)}")
        click.echo(textwrap.indent(_values(array), "  ", predicate=lambda line: True))
        if output_dir is not None:
            np.save(output_dir / f"{name}.npy", to_stored(array, dtype))


@main.command()
@click.argument("file", type=FILE)
@_with_dims
def check(file: pathlib.Path, dims: dict[str, int]) -> None:
    """Report every error of a graph file at once.

    Each is told as FILE:LINE:COLUMN: error: what is wrong, and what is allowed.

    \b
    Example:
      dmlgraph check examples/ramp.yaml
    """
    graph = load(file, dims=dims)
    desc = graph.lower()
    click.echo(f"{file}: fine: {len(desc.nodes)} nodes at feature level {desc.level}")


@main.command()
@click.argument("file", type=FILE)
@_with_dims
def lower(file: pathlib.Path, dims: dict[str, int]) -> None:
    """Print the DML_GRAPH_DESC of a graph.

    It holds every node with every field of its C struct, and the edges.

    \b
    Example:
      dmlgraph lower examples/ramp.yaml --dim N=4
    """
    click.echo(str(load(file, dims=dims).lower()), nl=False)


@main.command()
@click.argument("name", required=False)
def operators(name: str | None) -> None:
    """List the operators, or show what one takes.

    That is its fields, their defaults, and data types and dimensions by feature level.

    \b
    Examples:
      dmlgraph operators
      dmlgraph operators fill_value_sequence
    """
    if name is None:
        click.echo(overview())
        return
    operator = find(name.lower().removeprefix("dml_operator_"))
    if operator is None:
        hint = suggestion(name.lower(), REGISTRY)
        raise click.BadParameter(f"'{name}' is not an operator{f' ({hint})' if hint else ''}", param_hint="NAME")
    click.echo(describe(operator))


@main.command()
def devices() -> None:
    """List the devices: what each can do, or why it is missing.

    \b
    Example:
      dmlgraph devices
    """
    automatic = choose("auto")
    for device in list_devices():
        state = f"missing: {device.missing}" if device.missing else device.description
        click.echo(f"{device.name:<20} {state}")
    click.echo(f"{'auto':<20} takes '{automatic.device.name}' here: {automatic.reason.removeprefix('auto: ')}")


@main.command()
def schema() -> None:
    """Print the JSON Schema of graph files, for editors.

    \b
    Example:
      dmlgraph schema > graph.schema.json
    """
    click.echo(json.dumps(make_schema(), indent=2, ensure_ascii=False))


def _check_file_names(names: Iterable[str]) -> None:
    """Outputs are saved under their names, which must not lead out of the folder."""
    for name in names:
        if any(character in name for character in '/\\:*?"<>|'):
            raise DmlGraphError("cannot be the name of a file", field=f"outputs.{name}", hint="give the output another")


@main.group()
def directml() -> None:
    """Fetch Microsoft's DirectML library, or say which is used.

    \b
    Example:
      dmlgraph directml install
    """


@directml.command()
@click.option(
    "--from",
    "wheel",
    type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path),
    help="A wheel that is already here, for machines without a network.",
)
def install(wheel: pathlib.Path | None) -> None:
    """Fetch DirectML for Linux into your cache.

    It is a pinned version, and its hash is checked.  The library is Microsoft's, under the MIT licence, and comes
    from the wheel of torch-directml.

    \b
    Examples:
      dmlgraph directml install
      dmlgraph directml install --from torch_directml-0.2.5.dev240914-cp311-cp311-manylinux2010_x86_64.whl
    """
    with click.progressbar(length=1, label="DirectML", file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:

        def progress(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        installed = directml_install.install(wheel, progress=progress)
    click.echo(f"{'already installed' if installed.already else 'installed'}: {installed.path}")


@directml.command()
def info() -> None:
    """Say which DirectML and which Direct3D 12 are used.

    \b
    Example:
      dmlgraph directml info
    """
    found = directml_library.find_directml()
    direct3d = directml_library.find_direct3d()
    click.echo(f"DirectML:    {found.path} ({found.origin})")
    click.echo(f"Direct3D 12: {direct3d.d3d12}{' (the software adapter of dmlgraph)' if direct3d.software else ''}")
    click.echo(f"DXCore:      {direct3d.dxcore}")
    for device in list_devices():
        if device.name.startswith("directml"):
            click.echo(f"{device.name}: {f'missing: {device.missing}' if device.missing else device.description}")


def _values(array: np.ndarray[Any, Any]) -> str:
    """All values of a small array, the corners of a large one."""
    with np.printoptions(threshold=SHOWN_ELEMENTS, edgeitems=2, linewidth=100):
        return str(array)


if __name__ == "__main__":
    sys.exit(main())
