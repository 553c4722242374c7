"""Where tensors stay from run to run: in memory of a device, or of the process."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from dmlgraph.base.tensor import TensorDesc

Array = np.ndarray[Any, Any]
Part = tuple[slice, ...]  # of a tensor


class Memory(Protocol):
    """Memory in which tensors stay.  What stands for a tensor is its own affair: an array, a buffer of Direct3D 12."""

    def check(self) -> None:
        """Raises a DeviceError if the memory is lost with all that it held."""

    def zeros(self, desc: TensorDesc) -> Any:
        """A new tensor of zeros."""

    def hold(self, array: Array, desc: TensorDesc) -> Any:
        """A new tensor with the elements of an array."""

    def read(self, tensor: Any, desc: TensorDesc, part: Part) -> Array:
        """A copy of a part of a tensor."""

    def copy(self, tensor: Any, desc: TensorDesc) -> Any:
        """A new tensor that holds the same."""

    def move(
        self, source: Any, source_desc: TensorDesc, source_part: Part, target: Any, target_desc: TensorDesc, part: Part
    ) -> None:
        """Copies a part of a tensor to a part of another one, or of the same, of the same sizes and data type."""

    def given(self, tensor: Any, desc: TensorDesc, wanted: TensorDesc) -> Any:
        """What a run is given for an input with the description `wanted`, of the same sizes and data type."""

    def shared(self, tensor: Any) -> Array:
        """The tensor as an array in the same memory; raises a BufferError if the processor does not reach it."""

    def resource(self, tensor: Any) -> int | None:
        """The address of the tensor's ID3D12Resource; None for an array."""


class HostMemory:
    """Arrays."""

    def check(self) -> None:
        pass

    def zeros(self, desc: TensorDesc) -> Array:
        return np.zeros(desc.sizes, desc.dtype.numpy)

    def hold(self, array: Array, desc: TensorDesc) -> Array:
        return np.array(array, desc.dtype.numpy, order="C", copy=True)

    def read(self, tensor: Array, desc: TensorDesc, part: Part) -> Array:
        return tensor[part].copy()

    def copy(self, tensor: Array, desc: TensorDesc) -> Array:
        return tensor.copy()

    def move(
        self,
        source: Array,
        source_desc: TensorDesc,
        source_part: Part,
        target: Array,
        target_desc: TensorDesc,
        part: Part,
    ) -> None:
        target[part] = source[source_part]

    def given(self, tensor: Array, desc: TensorDesc, wanted: TensorDesc) -> Array:
        return tensor

    def shared(self, tensor: Array) -> Array:
        return tensor

    def resource(self, tensor: Array) -> None:
        return None


HOST = HostMemory()
