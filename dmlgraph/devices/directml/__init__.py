"""Device `directml`: graphs on the real DirectML.

`device` compiles and runs them, on what `open_devices` keeps.  `library` finds DirectML and `runtime` loads it;
`versions` says which one Windows has, `install` and `ready` install it, `trial` proves that it works.  `transfer` gives
the runtime the bytes of arrays, and `profile` times single nodes.  `faults` works around DirectML's faults, `refusal`
finds the nodes it refuses, and `software` is the adapter that it runs on if there is no other.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from dmlgraph.base.errors import DeviceError
from dmlgraph.devices.device import Device, Family, Listing, native_needed

_INDICES = 4  # adapters whose names are completed; there may be more
_NAMES = {
    "directml": "DirectML on the first adapter",
    "directml:software": "DirectML on the processor",
    **{f"directml:{index}": f"DirectML on the adapter with the index {index}" for index in range(_INDICES)},
}


def device_module() -> ModuleType:
    """The module `device`, imported on first use because it needs the native module.

    Raises:
        DeviceError: the native module cannot be loaded.
    """
    with native_needed():
        return importlib.import_module("dmlgraph.devices.directml.device")


def _make(adapter: str, debug: bool) -> Device | None:
    if adapter not in ("", "software") and not adapter.isdecimal():
        return None
    device: Device = device_module().DirectMLDevice(adapter, debug=debug)
    return device


def _find() -> list[Listing]:
    try:
        adapters: list[Listing] = device_module().list_adapters()
    except DeviceError as error:
        return [Listing("directml", "DirectML", str(error))]
    return adapters


FAMILY = Family(_NAMES, _make, _find)
