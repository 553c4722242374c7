"""Arrays that are given to commands: the option --input, and what becomes of it."""

from __future__ import annotations

import dataclasses
import functools
import io
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from dmlgraph.base.errors import (
    BindingError,
    DmlGraphError,
    Problem,
    check_known,
    listing,
)
from dmlgraph.base.report import Report
from dmlgraph.cli.standard_input import is_stdin, read_stdin
from dmlgraph.files.untrusted import reason

if TYPE_CHECKING:
    import numpy as np

    from dmlgraph.graph.graph import Graph

    Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayFile:
    """An array and the path of its file, as given."""

    path: str
    array: Array


def split_pair(given: str, form: str) -> tuple[str, str]:
    """What stands before and behind the first `=`; BadParameter, with the form it must have, if one is missing."""
    name, _, text = given.partition("=")
    if not name or not text:
        raise click.BadParameter(f"'{given}' is not {form}")
    return name, text


def split_pairs(values: Sequence[str], form: str) -> Iterator[tuple[str, str]]:
    """As `split_pair`, of each; BadParameter for a name that is given twice."""
    known = set()
    for value in values:
        name, text = split_pair(value, form)
        if name in known:
            raise click.BadParameter(f"'{name}' is given twice")
        known.add(name)
        yield name, text


def parse_arrays(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, ArrayFile]:
    """`x=x.npy` pairs, loaded; `x=-` is standard input.  Never unpickles anything."""
    arrays: dict[str, ArrayFile] = {}
    for name, file in split_pairs(values, "NAME=FILE.npy"):
        with Report(field=f"input {name}"):
            try:
                arrays[name] = ArrayFile(file, _read_array(name, file))
            except OSError as error:
                raise DmlGraphError(f"cannot read '{file}': {reason(error)}", code="unreadable") from None
            except ValueError as error:
                raise DmlGraphError(f"'{file}' {error}", code="array-file") from None
    return arrays


def _read_array(name: str, file: str) -> Array:
    """The array in a .npy file, or with `-` in standard input."""
    from dmlgraph.formats.arrays import array_in, read_array

    return array_in(io.BytesIO(read_stdin(f"the array of '{name}'"))) if is_stdin(file) else read_array(file)


def with_inputs(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--input",
        "inputs",
        multiple=True,
        callback=parse_arrays,
        metavar="NAME=FILE.npy",
        help="An input's array; '-' in place of the file is standard input.",
    )(command)


def as_declared(graph: Graph, files: Mapping[str, ArrayFile]) -> dict[str, Array]:
    """The arrays of .npy files in the data types of their inputs: 4-bit types are stored in 8 bits.

    Raises:
        BindingError: the name is not an input, or the array has another data type or shape; names the file.
    """
    from dmlgraph.formats.arrays import from_stored

    slots = {node.name: node.desc for node in graph.inputs}
    arrays = {}
    for name, file in files.items():
        check_known([name], slots, "input")
        desc, array = slots[name], file.array
        with Report(BindingError, place=functools.partial(_naming, file.path, name)):
            array = from_stored(array, desc.dtype)
        advice = f"convert it with array.astype('{desc.dtype}') before saving"
        for thing, found, wanted, hint in (
            ("data type", array.dtype, desc.dtype, advice),
            ("shape", list(array.shape), list(desc.sizes), None),
        ):
            if str(found) != str(wanted):
                raise BindingError.another(thing, name, f"{found} in '{file.path}'", wanted, hint=hint)
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


def complete_inputs(graph: Graph, files: Mapping[str, ArrayFile], seed: int | None = None) -> dict[str, Array]:
    """An array for every input; prints which are filled with random numbers."""
    from dmlgraph.base.random_arrays import SEED
    from dmlgraph.measure.inputs import complete

    seed = SEED if seed is None else seed
    inputs, made = complete(graph, as_declared(graph, files), seed)
    if made:
        click.echo(f"random numbers (seed {seed}) for: {listing(made, at_most=8)}", err=True)
    return inputs
