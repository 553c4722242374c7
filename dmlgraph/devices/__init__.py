"""Devices: where graphs run, and how one is chosen by name."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dmlgraph.base.errors import DeviceError, listing, suggestion
from dmlgraph.devices.names import NAMES
from dmlgraph.operators.catalog.foreign_names import DEVICES

if TYPE_CHECKING:
    from dmlgraph.devices.device import Device, Family, Listing

# Names that do not depend on how many adapters there are.
FIXED_NAMES = tuple(name for name in NAMES if not name[-1].isdecimal())
_FAMILIES = tuple(name for name in FIXED_NAMES if name != "auto" and ":" not in name)


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """A device and why it was chosen; `name` is what the user asked for, and what choices are compared by.

    `otherwise` makes the next choice from the reason why this device cannot run a graph; None if the user named this
    device; `threads` is the number of threads that the user asked for, and the last two are permissions.
    """

    name: str
    device: Device = dataclasses.field(compare=False)
    reason: str = dataclasses.field(compare=False)
    otherwise: Callable[[str], Choice] | None = dataclasses.field(default=None, compare=False)
    threads: int | None = None
    metacommands: bool = True
    half_precision: bool = False


def choose(
    name: str,
    *,
    threads: int | None = None,
    debug: bool = False,
    metacommands: bool = True,
    half_precision: bool = False,
) -> Choice:
    """The device of a name: `auto`, `cpu`, `reference`, `directml`, `directml:1`, `directml:software`.

    Args:
        name: as the user writes it.
        threads, debug, metacommands, half_precision: as in `Graph.compile`.

    Raises:
        DeviceError: the name is unknown, the device cannot be used here, or it does not take a number of threads; or
            a permission is neither True nor False.
    """
    choice = _choose(name, debug)
    if threads is not None:
        choice = dataclasses.replace(choice, device=choice.device.with_threads(threads), threads=threads)
    return with_permissions(choice, metacommands=metacommands, half_precision=half_precision)


def with_permissions(choice: Choice, *, metacommands: bool, half_precision: bool) -> Choice:
    """The choice with other permissions for the compiler, which also hold for the devices that `auto` turns to.

    Raises:
        DeviceError: a permission is neither True nor False.
    """
    for field, given in (("metacommands", metacommands), ("half_precision", half_precision)):
        if not isinstance(given, bool):
            raise DeviceError("is a permission", code="kind", field=field, got=given, allowed="True or False")
    if (choice.metacommands, choice.half_precision) == (metacommands, half_precision):
        return choice
    following = choice.otherwise

    def otherwise(why: str) -> Choice:
        assert following is not None
        return with_permissions(following(why), metacommands=metacommands, half_precision=half_precision)

    return dataclasses.replace(
        choice,
        device=choice.device.with_permissions(metacommands=metacommands, half_precision=half_precision),
        otherwise=following and otherwise,
        metacommands=metacommands,
        half_precision=half_precision,
    )


def _choose(name: str, debug: bool) -> Choice:
    if not isinstance(name, str):
        raise DeviceError(
            "must be the name of a device", code="kind", field="device", got=name, allowed=listing(FIXED_NAMES)
        )
    if name == "auto":
        return _automatic(debug)
    family, colon, rest = name.partition(":")
    device = _family(family).make(rest, debug) if family in _FAMILIES and bool(colon) == bool(rest) else None
    if device is not None:
        return Choice(name, device, "; ".join(filter(None, (f"asked for as '{name}'", device.remark))))
    raise _unknown(name)


def check_name(name: object) -> None:
    """Checks a device's name, whether or not the device is here.

    Raises:
        DeviceError: no device has it.
    """
    if isinstance(name, str):
        family, _, rest = name.partition(":")
        indexed = any(each.startswith(f"{family}:") for each in NAMES)
        if name in FIXED_NAMES or name in _FAMILIES or (indexed and rest.isdecimal()):
            return
    raise _unknown(name)


def _unknown(name: object) -> DeviceError:
    text = name if isinstance(name, str) else ""
    return DeviceError(
        "is not a device",
        code="unknown-device",
        field="device",
        got=name,
        allowed=f"{listing(FIXED_NAMES)}, directml:N for an adapter's index",
        hint=suggestion(text.partition(":")[0].lower(), FIXED_NAMES, DEVICES)
        or "'dmlgraph devices' lists the devices of this machine",
    )


def _automatic(debug: bool) -> Choice:
    """The first GPU that DirectML can use, or the embedded default if there is none."""
    from dmlgraph.devices.directml import device_module

    try:
        candidates = device_module().find_hardware(debug=debug)
    except DeviceError as error:
        candidates = [str(error)]
    return _first_of(candidates, ())


def _first_of(candidates: Sequence[Callable[[], Device | str] | str], declined: tuple[str, ...]) -> Choice:
    """The first candidate that can be opened, else `cpu`; a text says why a device cannot be used."""
    if not candidates:
        from dmlgraph.devices.cpu import CpuDevice

        return Choice("auto", CpuDevice(), f"auto: the embedded default, since {'; '.join(declined)}")
    first, *rest = candidates
    device = first if isinstance(first, str) else first()
    if isinstance(device, str):
        return _first_of(rest, (*declined, device))

    def otherwise(why: str) -> Choice:
        return _first_of(rest, (*declined, f"'{device.name}' cannot run this graph: {why}"))

    since = f", since {'; '.join(declined)}" if declined else ""
    return Choice("auto", device, f"auto: a hardware adapter: {device.description}{since}", otherwise)


def list_devices() -> list[Listing]:
    """Every device, including those that cannot be used here."""
    return [listed for name in _FAMILIES for listed in _family(name).find()]


def _family(name: str) -> Family:
    found: Family = importlib.import_module(f"{__name__}.{name}").FAMILY
    return found
