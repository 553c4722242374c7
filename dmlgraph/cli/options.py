"""Arguments and options of several commands."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import math
import pathlib
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import click

from dmlgraph.base.errors import (
    BindingError,
    DeviceError,
    DmlGraphError,
    ModelError,
    Problem,
    check_known,
    listing,
    shorten,
)
from dmlgraph.base.report import Report
from dmlgraph.cli.completion import complete_devices
from dmlgraph.cli.parameter_types import NEW_FILE, Number, Whole, no_folder
from dmlgraph.files.untrusted import reason

if TYPE_CHECKING:
    import numpy as np

    from dmlgraph.devices import Choice
    from dmlgraph.devices.device import Device
    from dmlgraph.graph.graph import Graph

    Array = np.ndarray[Any, Any]

MAX_DIGITS = 400  # of a number
STDIN = "<stdin>"  # the name of standard input in messages
MOST_COMBINATIONS = 1000  # of sizes
_READ = f"{__name__}.stdin"  # in the context: what was read from standard input, and for what
_PERMISSIONS = f"{__name__}.permissions"  # in the context: the options for what DirectML may do, by name
_OF_MODELS = f"{__name__}.models"  # in the context: the options for ONNX models, by name, where they are given


# The option --no-fuse.
without_fusion = click.option("--no-fuse", is_flag=True, help="Run the nodes as they are in the file, without fusion.")


class Permissions(TypedDict):
    """The arguments of `Graph.compile` that say what DirectML may do."""

    metacommands: bool
    half_precision: bool


def with_permissions(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options --no-metacommands and --half-precision; `chosen` and `permissions` have what is given."""
    metacommands = click.option(
        "--no-metacommands",
        is_flag=True,
        expose_value=False,
        callback=_keep_permission,
        help="Keep DirectML from using the driver's own implementations of operators.",
    )
    half_precision = click.option(
        "--half-precision",
        is_flag=True,
        expose_value=False,
        callback=_keep_permission,
        help="Let DirectML compute float32 in float16 where that is faster.",
    )
    return metacommands(half_precision(command))


def _keep_permission(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    context.meta.setdefault(_PERMISSIONS, {})[parameter.name] = given


def permissions() -> Permissions:
    """What is given; the defaults for a command without the options."""
    given = click.get_current_context().meta.get(_PERMISSIONS, {})
    return {
        "metacommands": not given.get("no_metacommands", False),
        "half_precision": given.get("half_precision", False),
    }


def with_json(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print a report for programs, as JSON.")(command)


def with_device(help: str, name: str = "device", **more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option --device, which completes names; `name` is that of the argument."""
    return click.option("--device", name, shell_complete=complete_devices, help=help, **more)


def with_output(help: str, name: str = "output", **more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option -o, a file unless `type` says otherwise; `name` is that of the argument."""
    return click.option("-o", "--output", name, help=help, **({"type": NEW_FILE} | more))


# The option --force.
with_force = click.option("--force", is_flag=True, help="Overwrite a file that is not as dmlgraph wrote it.")


def load_graph(
    file: pathlib.Path, dims: Mapping[str, int], devices: Sequence[Choice] = (), training: pathlib.Path | None = None
) -> Graph:
    """The graph in a file or an ONNX model, or with `-` in standard input, which names files in the current folder.

    Without --target, a model is imported for the lowest feature level of the devices on which it will run.  `training`
    is a file that says how the graph is trained.
    """
    from dmlgraph.base.levels import NEWEST
    from dmlgraph.formats.load_save import load
    from dmlgraph.formats.onnx import is_model
    from dmlgraph.formats.text_tree.text import decode
    from dmlgraph.formats.yaml import loads

    of_models = options_of_models()
    if not is_stdin(file):
        level = min((each.device.level for each in devices), default=NEWEST)
        if is_model(file) and level < NEWEST and "target" not in of_models:
            # What `auto` cannot import for its first device may run on the next.
            hopeful = any(each.otherwise is not None for each in devices)
            with contextlib.suppress(*[ModelError] if hopeful else []):
                return load(file, dims=dims, target=level, training=training, **of_models)
        return load(file, dims=dims, training=training, **of_models)
    if training is not None:
        raise click.UsageError("--training needs a graph in a file of its own, rather than in standard input")
    for option in of_models:
        raise click.UsageError(f"--{option.rstrip('s')} is for ONNX models, and standard input holds a graph file")
    return loads(decode(read_stdin("the graph"), STDIN), folder=".", dims=dims, file=STDIN)


def is_stdin(file: pathlib.Path | str) -> bool:
    return str(file) == "-"


def shown(file: pathlib.Path) -> str:
    """A graph's file as messages name it."""
    return STDIN if is_stdin(file) else str(file)


def read_stdin(what: str) -> bytes:
    """All of standard input, which can be read once and for one thing."""
    meta = click.get_current_context().meta
    if _READ not in meta:
        if sys.stdin is None:  # as in a program without a console
            raise click.UsageError("there is no standard input")
        meta[_READ] = what, sys.stdin.buffer.read()
    before, data = meta[_READ]
    if before != what:
        raise click.UsageError(f"'-' is given twice: standard input cannot hold both {before} and {what}")
    assert isinstance(data, bytes)
    return data


def each_graph_file(given: Sequence[pathlib.Path], skip_others: bool) -> list[pathlib.Path]:
    """The graph files among files and folders; prints which files were skipped."""
    return graph_files_of(given, skip_others)[0]


def graph_files_of(
    given: Sequence[pathlib.Path], skip_others: bool
) -> tuple[list[pathlib.Path], list[pathlib.Path]]:
    """The graph files among files and folders, and what is skipped, which it prints."""
    from dmlgraph.formats.yaml.discover import graph_files

    found, skipped = graph_files(given, skip_others=skip_others)
    for path in skipped:
        click.echo(f"skipped {path}: not a graph file, it has no key 'dmlgraph'", err=True)
    if not found and not skip_others:
        raise click.UsageError(f"there is no graph file in {', '.join(map(str, given))}")
    return found, skipped


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


skipping_others = click.option(
    "--skip-others",
    is_flag=True,
    help="Skip files that are not graph files, as in folders; for tools that name every YAML file.",
)


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


def _finite(_: click.Context, __: click.Parameter, value: float) -> float:
    if not math.isfinite(value):
        raise click.BadParameter(f"'{value}' is not a finite number")
    return value


def with_tolerance(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options --ulp, --relative and --absolute: what counts as equal."""
    ulp = click.option(
        "--ulp",
        type=Whole(min=0),
        default=0,
        show_default=True,
        metavar="N",
        help="Treat numbers as equal that are at most N units in the last place apart.",
    )
    relative = click.option(
        "--relative",
        type=Number(min=0),
        callback=_finite,
        default=0.0,
        metavar="R",
        help="Treat numbers as equal that differ by at most this fraction of the larger one, such as 1e-3.",
    )
    absolute = click.option(
        "--absolute",
        type=Number(min=0),
        callback=_finite,
        default=0.0,
        metavar="A",
        help="Treat numbers as equal that differ by at most this much, such as 1e-6.",
    )
    return ulp(relative(absolute(command)))


def with_inputs(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--input",
        "inputs",
        multiple=True,
        callback=parse_arrays,
        metavar="NAME=FILE.npy",
        help="An input's array; '-' in place of the file is standard input.",
    )(command)


def chosen(name: str) -> Choice:
    """The device of a name.  An unknown name is wrong usage; a device that cannot be used here is an error."""
    from dmlgraph.devices import choose

    try:
        choice = choose(name, **permissions())
        remark_on(choice.device)
        return choice
    except DeviceError as error:
        if error.code != "unknown-device":  # the device exists but cannot be used
            raise
        problem = dataclasses.replace(error.problems[0], field=None)  # the option's name says it
        raise click.BadParameter(str(problem), param_hint="--device") from None


def remark_on(device: Device) -> None:
    """Prints what a user may not expect of a device."""
    if device.remark:
        click.echo(f"warning: {device.remark}", err=True)


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


@contextlib.contextmanager
def writing(path: pathlib.Path) -> Iterator[None]:
    """Turns an OSError raised inside into an error that says which file cannot be written, and why."""
    try:
        yield
    except OSError as error:
        if isinstance(error, (BrokenPipeError, FileExistsError)):  # the callers handle these
            raise
        if not path.parent.is_dir():
            raise no_folder(path) from None
        raise DmlGraphError(f"cannot write '{path}': {reason(error)}", code="unwritable") from None


def complete_inputs(graph: Graph, files: Mapping[str, ArrayFile], seed: int | None = None) -> dict[str, Array]:
    """An array for every input; prints which are filled with random numbers."""
    from dmlgraph.base.random_arrays import SEED
    from dmlgraph.measure.inputs import complete

    seed = SEED if seed is None else seed
    inputs, made = complete(graph, as_declared(graph, files), seed)
    if made:
        click.echo(f"random numbers (seed {seed}) for: {listing(made, at_most=8)}", err=True)
    return inputs
