"""Arguments and options that several commands take."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import click
import numpy as np

from dmlgraph.document.arrays import read_array
from dmlgraph.errors import DmlGraphError

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
