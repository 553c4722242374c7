"""Devices: where graphs run, and how one is chosen by name."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Sequence
from types import ModuleType

from dmlgraph.devices.cpu import CpuDevice
from dmlgraph.devices.device import Device, native_needed
from dmlgraph.devices.reference import ReferenceDevice
from dmlgraph.elsewhere import DEVICES
from dmlgraph.errors import DeviceError, listing, suggestion

_EMBEDDED: dict[str, type[Device]] = {"cpu": CpuDevice, "reference": ReferenceDevice}
_DIRECTML = "directml"
_NAMES = ("auto", *_EMBEDDED, _DIRECTML, "directml:software")


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """A device and why it was chosen; `name` is what the user asked for, and what choices are compared by.

    `otherwise` makes the next choice from the reason why this device cannot run a graph; None if the user named this
    device.
    """

    name: str
    device: Device = dataclasses.field(compare=False)
    reason: str = dataclasses.field(compare=False)
    otherwise: Callable[[str], Choice] | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Listing:
    """A device for `dmlgraph devices`; `missing` says why it cannot be used here, and is None if it can."""

    name: str
    description: str
    missing: str | None = None


def choose(name: str, *, threads: int | None = None, debug: bool = False) -> Choice:
    """The device of a name: `auto`, `cpu`, `reference`, `directml`, `directml:1`, `directml:software`.

    Args:
        name: as the user writes it.
        threads, debug: as in `Graph.compile`.

    Raises:
        DeviceError: the name is unknown, the device cannot be used here, or it does not take a number of threads.
    """
    choice = _choose(name, debug)
    if threads is None:
        return choice
    if not isinstance(choice.device, CpuDevice):
        raise DeviceError(
            f"'{choice.device.name}' does not take a number of threads", code="conflict", field="threads", got=threads
        )
    return dataclasses.replace(choice, device=CpuDevice(threads))


def _choose(name: str, debug: bool) -> Choice:
    if not isinstance(name, str):
        raise DeviceError(
            "must be the name of a device", code="kind", field="device", got=name, allowed=listing(_NAMES)
        )
    if name == "auto":
        return _automatic(debug)
    if name in _EMBEDDED:
        return Choice(name, _EMBEDDED[name](), f"asked for as '{name}'")
    family, _, adapter = name.partition(":")
    if family == _DIRECTML and (adapter in ("", "software") or adapter.isdecimal()):
        return Choice(name, _directml().DirectMLDevice(adapter, debug=debug), f"asked for as '{name}'")
    raise DeviceError(
        "is not a device",
        code="unknown-device",
        field="device",
        got=name,
        allowed=f"{listing(_NAMES)}, directml:N for an adapter's index",
        hint=suggestion(family.lower(), _NAMES, DEVICES) or "'dmlgraph devices' lists the devices of this machine",
    )


def _automatic(debug: bool) -> Choice:
    """The first GPU that DirectML can use, or the embedded default if there is none."""
    try:
        candidates = _directml().find_hardware(debug=debug)
    except DeviceError as error:
        candidates = [str(error)]
    return _first_of(candidates, ())


def _first_of(candidates: Sequence[Callable[[], Device | str] | str], declined: tuple[str, ...]) -> Choice:
    """The first candidate that can be opened, else `cpu`; a text says why a device cannot be used."""
    if not candidates:
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
    embedded = [Listing(name, device.description) for name, device in _EMBEDDED.items()]
    try:
        adapters = _directml().list_adapters()
    except DeviceError as error:
        return [*embedded, Listing(_DIRECTML, "DirectML", str(error))]
    return embedded + [Listing(each.name, each.description, each.missing) for each in adapters]


def _directml() -> ModuleType:
    """The module of the DirectML devices, imported on first use because it needs the native module."""
    with native_needed():
        return importlib.import_module("dmlgraph.devices.directml.device")
