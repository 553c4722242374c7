"""The option --dim, and the options for ONNX models."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from dmlgraph.base.errors import (
    shorten,
)
from dmlgraph.cli.array_options import parse_arrays, split_pair, split_pairs

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MAX_DIGITS = 400  # of a number

MOST_COMBINATIONS = 1000  # of sizes

_OF_MODELS = f"{__name__}.models"  # in the context: the options for ONNX models, by name, where they are given


def each_size(dims: Mapping[str, Sequence[int]]) -> Iterator[tuple[dict[str, int], str]]:
    """Every combination of sizes, and how to name it: `with N=8, M=1`, or "" if there is one."""
    from dmlgraph.graph.dims import combinations

    for chosen, named in combinations(dims):
        yield chosen, f"with {named}" if named else ""


def _parse_sizes(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, list[int]]:
    """`N=1,8,64`: the sizes by name."""
    dims = dict(_named_sizes(value, "NAME=SIZE or NAME=SIZE,SIZE, such as N=1,8,64") for value in values)
    if math.prod(map(len, dims.values())) > MOST_COMBINATIONS:
        raise click.BadParameter(f"there are more than {MOST_COMBINATIONS} combinations of sizes")
    return dims


def with_sizes(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option --dim with several sizes, `what` is done with each; and the options for ONNX models."""
    dims = click.option(
        "--dim",
        "dims",
        multiple=True,
        callback=_parse_sizes,
        metavar="NAME=SIZE,…",
        help=f"Other values for a dim; {what} with each.",
    )
    return lambda command: dims(_of_models(command))


def parsing_dims(example: str) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], dict[str, int]]:
    """A callback for `N=8` pairs."""

    def parse(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
        pairs = [_named_sizes(value, f"NAME=SIZE, such as {example}", at_most=1) for value in values]
        return {name: sizes[0] for name, sizes in pairs}

    return parse


def _named_sizes(value: str, form: str, at_most: int | None = None) -> tuple[str, list[int]]:
    """The name and the sizes of `N=1,8,64`; BadParameter, with the form it must have, if it is something else."""
    name, _, text = value.partition("=")
    sizes = text.split(",")
    if not name or not all(each.isdecimal() for each in sizes) or (at_most and len(sizes) > at_most):
        raise click.BadParameter(f"'{value}' is not {form}")
    if len(max(sizes, key=len)) > MAX_DIGITS:
        raise click.BadParameter(f"the size of '{shorten(name)}' has more than {MAX_DIGITS} digits")
    return name, [int(each) for each in sizes]


# The option --dim.
with_dim = click.option(
    "--dim",
    "dims",
    multiple=True,
    callback=parsing_dims("N=8"),
    metavar="NAME=SIZE",
    help="Another value for a dim.",
)


def with_dims(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option --dim, and the options for ONNX models, which `load_graph` takes from the context."""
    return with_dim(_of_models(command))


def _of_models(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options --value, --state, --convert and --target; `options_of_models` has what is given."""
    value = click.option(
        "--value",
        "values",
        multiple=True,
        expose_value=False,
        callback=_keep(_parse_values),
        metavar="NAME=NUMBER,…|FILE.npy",
        help="For an ONNX model: an input that is known now.",
    )
    state = click.option(
        "--state",
        "states",
        multiple=True,
        expose_value=False,
        callback=_keep(_parse_states),
        metavar="auto|padded|INPUT=OUTPUT",
        help='For an ONNX model: what is a state, such as "past_key_values.*=present.*"; auto finds the caches, and '
        "padded adds an input with the padding of each sequence.",
    )
    convert = click.option(
        "--convert",
        multiple=True,
        expose_value=False,
        callback=_keep(_parse_pairs),
        metavar="TYPE=TYPE",
        help="For an ONNX model: a type to convert, such as double=float32.",
    )
    target = click.option(
        "--target",
        expose_value=False,
        callback=_keep(lambda _context, _parameter, given: given),
        metavar="LEVEL",
        help="For an ONNX model: its feature level, such as 5.0; by default that of the device, else the newest.",
    )
    return value(state(convert(target(command))))


def _keep(parse: Callable[..., Any]) -> Callable[[click.Context, click.Parameter, Any], None]:
    """A callback that keeps what is given in the context."""

    def callback(context: click.Context, parameter: click.Parameter, given: Any) -> None:
        if given and parameter.name is not None:
            options = context.meta.setdefault(_OF_MODELS, {})
            options[parameter.name] = parse(context, parameter, given)

    return callback


def options_of_models() -> dict[str, Any]:
    """The options for ONNX models that are given: `values`, `states`, `convert`, `target`."""
    return dict(click.get_current_context().meta.get(_OF_MODELS, {}))


def _parse_values(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    """`sr=16000`, `shape=3,2` or `shape=shape.npy` pairs."""
    values: dict[str, Any] = {}
    for name, text in split_pairs(given, "NAME=NUMBER, NAME=NUMBER,NUMBER or NAME=FILE.npy"):
        numbers = [_number(part) for part in text.split(",")]
        if None in numbers:
            values[name] = parse_arrays(context, parameter, (f"{name}={text}",))[name].array
        else:
            values[name] = numbers if "," in text else numbers[0]
    return values


def _number(text: str) -> int | float | None:
    """The number or truth value of a text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if len(text) > MAX_DIGITS and text.lstrip("+-").isdecimal():
        raise click.BadParameter(f"a number has more than {MAX_DIGITS} digits")
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if number in (math.inf, -math.inf) and any(map(str.isdecimal, text)):
            raise click.BadParameter(f"{shorten(text)} is too large a number")
        return number
    return None


def _parse_states(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> str | dict[str, str]:
    """`auto` or `padded`, or `past.*=present.*` pairs."""
    if given in (("auto",), ("padded",)):
        return given[0]
    return dict(split_pairs(given, "auto or padded alone, or INPUT=OUTPUT, such as past_key_values.*=present.*"))


def _parse_pairs(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """`double=float32` pairs."""
    return dict(split_pair(each, "TYPE=TYPE, such as double=float32") for each in given)
