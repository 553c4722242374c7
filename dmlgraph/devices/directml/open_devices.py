"""The devices in use: one for each adapter, shared by its executables, and released as a whole when it is lost.

Direct3D 12 has one device per adapter and process.  A removed device must be released completely before another can be
created, by this process's other users of Direct3D 12 too.  So whoever notices a loss releases everything: the
executables on the device, the memory they exchange tensors through, and the device.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol

from dmlgraph import _native
from dmlgraph.base.errors import DeviceError
from dmlgraph.devices.directml.data_types import supported_types
from dmlgraph.devices.directml.resident import AdapterMemory
from dmlgraph.devices.host.interrupts import interruptible

VARIABLE = "DMLGRAPH_DEBUG"
SHARE_MEMORY = "DMLGRAPH_SHARE_MEMORY"
TIMEOUT = "DMLGRAPH_DIRECTML_TIMEOUT"


class User(Protocol):
    """Something that holds objects of a device."""

    def lose(self) -> None:
        """Releases them, since the device is lost."""


class OpenDevice:
    """A device and what holds objects of it.

    Attributes:
        types: the data types that it supports.
        memory: where tensors stay on it.
    """

    def __init__(self, native: _native.Device) -> None:
        self.native = native
        self.types = supported_types(native)
        self.memory = AdapterMemory(native)
        self._lock = threading.Lock()
        self._users: weakref.WeakSet[User] = weakref.WeakSet()

    def add(self, user: User) -> None:
        with self._lock:
            self._users.add(user)

    def drop(self) -> None:
        """Releases everything of a lost device; waits for calls that are still inside it."""
        with self._lock:
            users = list(self._users)
        for user in users:
            user.lose()
        self.native.drop()


class OpenDevices:
    """The table of the process.

    Attributes:
        losses: how many devices were lost so far; adapters listed before a loss may be stale.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._devices: dict[tuple[int, bool], OpenDevice] = {}
        self.losses = 0

    def open(
        self, library: _native.Library, adapter: _native.Adapter, *, debug: bool = False, share_memory: bool = False
    ) -> OpenDevice:
        """The adapter's device; a new one if none is open yet, or the last one was lost."""
        key = (adapter.luid, share_memory)
        required = debug or debug_by_default()

        def find() -> OpenDevice | None:
            opened = self._devices.get(key)
            usable = opened is not None and not opened.native.lost and (opened.native.debug or not required)
            return opened if usable else None

        def make() -> OpenDevice:
            with self._lock:
                self._drop_lost()
                opened = find()
                if opened is None:
                    native = _native.Device(
                        *(library, adapter),
                        debug=required,
                        gpu_validation=validates_shaders(),
                        share_memory=share_memory,
                        timeout=timeout(),
                    )
                    opened = self._devices[key] = OpenDevice(native)
                return opened

        return find() or interruptible(make)

    def drop_lost(self) -> None:
        """Releases everything of the devices that are lost."""
        with self._lock:
            self._drop_lost()

    def _drop_lost(self) -> None:
        for key, opened in list(self._devices.items()):
            if opened.native.lost:
                opened.drop()
                del self._devices[key]
                self.losses += 1


def debug_by_default() -> bool:
    """Whether DMLGRAPH_DEBUG asks for the debug layers.

    Raises:
        DeviceError: its value is not 0, 1 or gpu.
    """
    return _debug_variable() in ("1", "gpu")


def validates_shaders() -> bool:
    """Whether DMLGRAPH_DEBUG asks for the check of what shaders do, which is much slower."""
    return _debug_variable() == "gpu"


def shares_memory_by_default() -> bool:
    """Whether DMLGRAPH_SHARE_MEMORY asks for memory that processor and adapter share.

    Raises:
        DeviceError: its value is not 0 or 1.
    """
    return _one_of(SHARE_MEMORY, "0", "1") == "1"


def timeout() -> float:
    """The most seconds that a run may take on the adapter, from DMLGRAPH_DIRECTML_TIMEOUT; 0 is no limit.

    Raises:
        DeviceError: its value is not a number that is at least 0.
    """
    text = os.environ.get(TIMEOUT, "").strip()
    try:
        seconds = float(text or "0")
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise DeviceError("must be a number of seconds", code="range", field=TIMEOUT, got=text, allowed="0, 2.5, ...")
    return seconds


def _debug_variable() -> str:
    return _one_of(VARIABLE, "0", "1", "gpu")


def _one_of(variable: str, *allowed: str) -> str:
    text = os.environ.get(variable, "").strip()
    if text not in ("", *allowed):
        words = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
        raise DeviceError(f"must be {words}", code="range", field=variable, got=text, allowed=", ".join(allowed))
    return text
