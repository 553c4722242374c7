"""Arguments and options that several commands take."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import click
import numpy as np

from dmlgraph.devices import choose
from dmlgraph.document.arrays import from_stored, read_array
from dmlgraph.errors import DeviceError, DmlGraphError, NotEnoughMemoryError
from dmlgraph.graph import Graph
from dmlgraph.measure.inputs import SEED, complete

FILE = click.Path(exists=True, dir_okay=False, path_type=pathlib.Path)


def parse_dims(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
    """`N=8` pairs."""
    dims = {}
    for value in values:
        name, equals, size = value.partition("=")
        if not name or not equals or not size.isdecimal():
            raise click.BadParameter(f"'{value}' is not NAME=SIZE, such as N=8")
        dims[name] = int(size)
    return dims


def parse_arrays(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, np.ndarray[Any, Any]]:
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
        except NotEnoughMemoryError as error:
            raise NotEnoughMemoryError(each.within(f"input {name}") for each in error.problems) from None
        except ValueError as error:
            raise DmlGraphError(f"'{file}' {error}", field=f"input {name}") from None
    return arrays


def with_dims(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--dim",
        "dims",
        multiple=True,
        callback=parse_dims,
        metavar="NAME=SIZE",
        help="Another value for a dim of the graph.",
    )(command)


def with_inputs(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--input", "inputs", multiple=True, callback=parse_arrays, metavar="NAME=FILE.npy", help="An input's array."
    )(command)


def check_device(name: str) -> None:
    """A name that is no device's is wrong usage; a device that cannot be used here is an error."""
    try:
        choose(name)
    except DeviceError as error:
        if type(error) is not DeviceError:  # there is such a device, and it cannot be used
            raise
        raise click.BadParameter(str(error), param_hint="--device") from None


def as_declared(graph: Graph, arrays: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays of .npy files as the inputs they are for: those of 4-bit types are stored in 8 bits."""
    dtypes = {node.name: node.desc.dtype for node in graph.inputs}
    return {name: from_stored(array, dtypes[name]) if name in dtypes else array for name, array in arrays.items()}


def complete_inputs(graph: Graph, arrays: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """An array for every input; says which are made of random numbers."""
    inputs, made = complete(graph, as_declared(graph, arrays))
    if made:
        click.echo(f"random numbers (seed {SEED}) for: {', '.join(made)}", err=True)
    return inputs
