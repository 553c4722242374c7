"""Arguments and options of several commands."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from dmlgraph.errors import (
    BindingError,
    DeviceError,
    DmlGraphError,
    Problem,
    Within,
    unknown_array,
)
from dmlgraph.plain_files import reason

if TYPE_CHECKING:
    import numpy as np

    from dmlgraph.devices import Choice
    from dmlgraph.graph import Graph

    Array = np.ndarray[Any, Any]

FILE = click.Path(exists=True, dir_okay=False, path_type=pathlib.Path)


def parse_dims(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
    """`N=8` pairs."""
    dims = {}
    for value in values:
        name, sizes = named_sizes(value)
        if len(sizes) != 1:
            raise click.BadParameter(f"'{value}' is not NAME=SIZE, such as N=8")
        (dims[name],) = sizes
    return dims


def named_sizes(value: str) -> tuple[str, list[int]]:
    """The name and the sizes of `N=1,8,64`; no sizes if it is not of this form."""
    name, _, text = value.partition("=")
    sizes = text.split(",")
    return name, [int(each) for each in sizes] if name and all(each.isdecimal() for each in sizes) else []


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayFile:
    """An array and the path of its file, as given."""

    path: str
    array: Array


def parse_arrays(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, ArrayFile]:
    """`x=x.npy` pairs, loaded.  Never unpickles anything."""
    if not values:
        return {}
    from dmlgraph.document.arrays import read_array

    arrays: dict[str, ArrayFile] = {}
    for value in values:
        name, equals, file = value.partition("=")
        if not name or not equals or not file:
            raise click.BadParameter(f"'{value}' is not NAME=FILE.npy")
        if name in arrays:
            raise click.BadParameter(f"'{name}' is given twice")
        with Within(field=f"input {name}"):
            try:
                arrays[name] = ArrayFile(file, read_array(file))
            except OSError as error:
                raise DmlGraphError(f"cannot read '{file}': {reason(error)}", code="unreadable") from None
            except ValueError as error:
                raise DmlGraphError(f"'{file}' {error}", code="array-file") from None
    return arrays


def with_dims(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--dim",
        "dims",
        multiple=True,
        callback=parse_dims,
        metavar="NAME=SIZE",
        help="Another value for a dim.",
    )(command)


def with_inputs(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--input", "inputs", multiple=True, callback=parse_arrays, metavar="NAME=FILE.npy", help="An input's array."
    )(command)


def chosen(name: str) -> Choice:
    """The device of a name.  An unknown name is wrong usage; a device that cannot be used here is an error."""
    from dmlgraph.devices import choose

    try:
        return choose(name)
    except DeviceError as error:
        if error.code != "unknown-device":  # the device exists but cannot be used
            raise
        problem = dataclasses.replace(error.problems[0], field=None)  # the option's name says it
        raise click.BadParameter(str(problem), param_hint="--device") from None


def as_declared(graph: Graph, files: Mapping[str, ArrayFile]) -> dict[str, Array]:
    """The arrays of .npy files in the data types of their inputs: 4-bit types are stored in 8 bits.

    Raises:
        BindingError: the name is not an input, or the array has another data type or shape; names the file.
    """
    from dmlgraph.document.arrays import from_stored

    slots = {node.name: node.desc for node in graph.inputs}
    arrays = {}
    for name, file in files.items():
        if name not in slots:
            raise unknown_array(name, slots, "input")
        desc, array = slots[name], file.array
        with Within(place=functools.partial(_naming, file.path, name), kind=BindingError):
            array = from_stored(array, desc.dtype)
        advice = f"convert it with array.astype('{desc.dtype}') before saving"
        for what, code, found, wanted, hint in (
            ("data type", "dtype", array.dtype, desc.dtype, advice),
            ("shape", "sizes", list(array.shape), list(desc.sizes), None),
        ):
            if str(found) != str(wanted):
                message, got = f"the input has another {what}", f"{found} in '{file.path}'"
                raise BindingError(message, code=code, field=name, got=got, allowed=str(wanted), hint=hint)
        arrays[name] = array
    return arrays


def every_input(graph: Graph, files: Mapping[str, ArrayFile]) -> dict[str, Array]:
    """An array for every input, from its file.

    Raises:
        BindingError: as in `as_declared`, or inputs have no file; says how to give one.
    """
    arrays = as_declared(graph, files)
    missing = [node for node in graph.inputs if node.name not in arrays]
    if missing:
        wanted = (f"'{node.name}' ({node.desc.dtype} {list(node.desc.sizes)})" for node in missing)
        options = " ".join(f"--input {shlex.quote(node.name)}=FILE.npy" for node in missing)
        raise BindingError(
            f"inputs are missing: {', '.join(wanted)}",
            code="missing-input",
            hint=f"{options}, with {'a file' if len(missing) == 1 else 'files'} written by numpy.save",
        )
    return arrays


def _naming(path: str, name: str, problem: Problem) -> Problem:
    """The problem with the file in its message, and the input as its field."""
    return dataclasses.replace(problem, message=f"'{path}' {problem.message}", field=name)


@contextlib.contextmanager
def writing(path: pathlib.Path) -> Iterator[None]:
    """Turns an OSError raised inside into an error that says which file cannot be written, and why."""
    try:
        yield
    except OSError as error:
        if isinstance(error, (BrokenPipeError, FileExistsError)):  # the callers handle these
            raise
        folder = path.parent
        hint = None if folder.is_dir() else f"there is no folder '{folder}'"
        raise DmlGraphError(f"cannot write '{path}': {reason(error)}", code="unwritable", hint=hint) from None


def complete_inputs(graph: Graph, files: Mapping[str, ArrayFile]) -> dict[str, Array]:
    """An array for every input; prints which are filled with random numbers."""
    from dmlgraph.measure.inputs import SEED, complete

    inputs, made = complete(graph, as_declared(graph, files))
    if made:
        click.echo(f"random numbers (seed {SEED}) for: {', '.join(made)}", err=True)
    return inputs
