"""Options of several commands."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypedDict

import click

from dmlgraph.base.errors import (
    DeviceError,
    DmlGraphError,
)
from dmlgraph.cli.completion import complete_devices
from dmlgraph.cli.parameter_types import NEW_FILE, Number, Whole, no_folder
from dmlgraph.files.untrusted import reason

if TYPE_CHECKING:
    import numpy as np

    from dmlgraph.devices import Choice
    from dmlgraph.devices.device import Device

    Array = np.ndarray[Any, Any]

_PERMISSIONS = f"{__name__}.permissions"  # in the context: the options for what DirectML may do, by name

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

skipping_others = click.option(
    "--skip-others",
    is_flag=True,
    help="Skip files that are not graph files, as in folders; for tools that name every YAML file.",
)


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
