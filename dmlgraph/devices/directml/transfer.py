"""Arrays as the bytes that the native runtime copies to and from the device's buffers.

The runtime maps a buffer only while it copies, so nothing here refers to the device's memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlgraph import _native
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.devices.memory import Array, Memory
from dmlgraph.devices.tensors import DeviceTensor

Bytes = np.ndarray[Any, Any]  # C-contiguous


def given(array: Array | _native.Resident, desc: TensorDesc) -> Bytes | _native.Resident:
    """What a run is given for an input: a tensor on the device, or bytes."""
    return array if isinstance(array, _native.Resident) else given_bytes(array, desc)


def given_bytes(array: Array, desc: TensorDesc) -> Bytes:
    """The bytes of an input: those of the array itself, if the device's tensor has the same layout.

    Up to three bytes that belong to no element may be missing at the end.
    """
    return array if is_plain(desc) and array.flags.c_contiguous else desc.pack(array)


class Result:
    """An output: the memory that the runtime copies it into, and the array that the caller gets.

    Args:
        desc: the tensor.
        target: the caller's array to write into; by default a new one is made.
    """

    def __init__(self, desc: TensorDesc, target: Array | None) -> None:
        self._desc, self._target = desc, target
        self.bytes: Bytes
        if not is_plain(desc):
            self.bytes = np.empty(desc.total_bytes, np.uint8)
        elif target is not None and target.flags.c_contiguous:
            self.bytes = target
        else:
            self.bytes = np.empty(desc.sizes, desc.dtype.numpy)

    def array(self) -> Array:
        """The caller's array, once `bytes` are written."""
        elements = self.bytes if is_plain(self._desc) else self._desc.unpack(self.bytes)
        if self._target is None:
            return np.ascontiguousarray(elements)
        if elements is not self._target:
            np.copyto(self._target, elements)
        return self._target


class Kept:
    """An output that stays on the device."""

    def __init__(self, desc: TensorDesc, tensor: _native.Resident, device: str, memory: Memory) -> None:
        self.bytes = tensor
        self._kept = DeviceTensor(tensor, desc, device, memory)

    def array(self) -> DeviceTensor:
        return self._kept


class Collected:
    """An output of several steps: as `Result`, with a first axis of the steps."""

    def __init__(self, desc: TensorDesc, steps: int) -> None:
        self._desc = desc
        self.bytes: Bytes = np.empty((steps, desc.total_bytes), np.uint8)

    def array(self) -> Array:
        return np.stack([self._desc.unpack(each) for each in self.bytes])


def is_plain(desc: TensorDesc) -> bool:
    """Whether the elements lie in a buffer as in a C-contiguous array."""
    return desc.dtype.bits > 4 and (desc.strides is None or desc.strides == desc.packed_strides)
