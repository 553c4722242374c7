"""What goes wrong between a graph and DirectML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dmlgraph.base.errors import DeviceError, Problem
from dmlgraph.devices.directml.versions import NEWER


class DirectMLError(DeviceError):
    """A call of DirectML or Direct3D 12 failed.

    Attributes:
        call: the function that failed; None where no call failed.
        hresult: what it returned, as an unsigned number; None where no call failed.
        hresult_name: its name and number, such as `E_INVALIDARG (0x80070057)`.
        graph: the graph's name; `node` is the node's name, if it is known.
        nodes: the names of the nodes that CompileGraph refuses together; see `dmlgraph.devices.directml.refusal`.
        debug_messages: the messages of the debug layer, if it is on.
    """

    CODE = "directml"

    def __init__(
        self,
        problems: Iterable[Problem] | Problem | str,
        *,
        call: str | None = None,
        hresult: int | None = None,
        hresult_name: str | None = None,
        graph: str | None = None,
        nodes: Sequence[str] = (),
        debug_messages: Sequence[str] = (),
        **fields: Any,
    ) -> None:
        super().__init__(problems, **fields)
        self.call = call
        self.hresult = hresult
        self.hresult_name = hresult_name
        self.graph = graph
        self.nodes = tuple(nodes)
        self.debug_messages = tuple(debug_messages)

    def __str__(self) -> str:
        return f"graph '{self.graph}': {super().__str__()}" if self.graph else super().__str__()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problems,), self.__dict__


class LibraryError(DirectMLError):
    """DirectML, Direct3D 12 or DXCore is missing, damaged or too old."""

    CODE = "library"


class AdapterError(DirectMLError):
    """There is no adapter, or the requested one does not exist."""

    CODE = "adapter"


class FeatureLevelError(DirectMLError):
    """The device does not reach the feature level that the graph needs."""

    CODE = "level"


class DebugLayerError(DirectMLError):
    """The debug layer was requested but is not installed, or it was requested after the first device was made."""

    CODE = "debug-layer"


class BufferTooLargeError(DirectMLError):
    """A buffer exceeds the 4 GiB - 64 KiB that Direct3D 12 can bind."""

    CODE = "too-large"


class DeviceRemovedError(DirectMLError):
    """The device is lost with everything it held; compiling again opens a new one."""

    CODE = "device-removed"


class CancelledError(DirectMLError):
    """A run was cancelled: the caller asked for it, or the shader compiler was interrupted."""

    CODE = "cancelled"


_CLASSES: dict[str, type[DirectMLError]] = {
    "library": LibraryError,
    "outdated": LibraryError,
    "adapter": AdapterError,
    "feature_level": FeatureLevelError,
    "debug_layer": DebugLayerError,
    "too_large": BufferTooLargeError,
    "device_removed": DeviceRemovedError,
    "cancelled": CancelledError,
}

# The calls that compile a graph, and what they return for one that DirectML cannot run.
_COMPILING = frozenset({"CreateOperator", "CompileGraph"})
_REFUSALS = frozenset({"E_INVALIDARG", "E_NOTIMPL", "DXGI_ERROR_UNSUPPORTED"})

_HINTS = {
    "E_INVALIDARG": "DirectML refuses the desc; where it has a debug layer, debug=True says why",
    "E_OUTOFMEMORY": "the adapter does not have enough memory",
    "DXGI_ERROR_UNSUPPORTED": "the device cannot do this",
}


def from_native(
    kind: str,
    message: str,
    call: str,
    hresult: int,
    hresult_name: str,
    graph: str,
    node: str,
    debug_messages: Sequence[str],
) -> DirectMLError:
    """The exception for an error of the native runtime; an empty string means that a value is unknown."""
    name = hresult_name.split(maxsplit=1)[0]
    refused = kind == "call" and call in _COMPILING and name in _REFUSALS
    return _CLASSES.get(kind, DirectMLError)(
        "\n".join([message, *debug_messages]),
        call=call or None,
        hresult=hresult or None,
        hresult_name=hresult_name if hresult else None,
        graph=graph or None,
        debug_messages=debug_messages,
        **({"code": "refused"} if refused else {}),
        node=node or None,
        hint=NEWER if kind == "outdated" else None if debug_messages else _HINTS.get(name),
    )
