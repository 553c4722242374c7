"""DeviceTensor: an output that stayed on its device."""

from __future__ import annotations

import pickle
from typing import Any, NoReturn

from dmlgraph.base.errors import BindingError
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.memory import Array, Memory


class DeviceTensor:
    """An output that stayed on its device, which `run(..., keep=["y"])` returns.

    Every executable of the device takes it as an input.  It outlives the executable that made it, and its memory is
    freed when nobody holds it any more.

    Attributes:
        device: the name of the device.
    """

    def __init__(self, tensor: Any, desc: TensorDesc, device: str, memory: Memory) -> None:
        self._tensor, self._desc, self.device, self._memory = tensor, desc, device, memory

    @property
    def sizes(self) -> tuple[int, ...]:
        return self._desc.sizes

    @property
    def dtype(self) -> DataType:
        return self._desc.dtype

    def numpy(self) -> Array:
        """A copy of the elements.

        Raises:
            DeviceError: the device is lost, and with it the tensor.
        """
        return self._memory.read(self._tensor, self._desc, ())

    @property
    def resource(self) -> int | None:
        """The address of the ID3D12Resource, which lives as long as this object; None if the device is the processor.

        It is in the state COMMON, and holds the bytes that DirectML wrote for the sizes and the data type.

        Raises:
            DeviceError: the device is lost.
        """
        return self._memory.resource(self._tensor)

    def __dlpack__(self, **options: Any) -> Any:
        """The same memory for other libraries, if the device is the processor.

        Raises:
            BufferError: it is on another device, or other libraries do not know the data type.
        """
        return self._memory.shared(self._tensor).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._memory.shared(self._tensor).__dlpack_device__()

    def given(self, name: str, desc: TensorDesc, device: str, memory: Memory) -> Any:
        """What a run on a device is given in the place of the array of an input.

        Raises:
            BindingError: the tensor is on another device, or has another data type or other sizes.
        """
        if device != self.device or memory is not self._memory:
            raise BindingError(
                "the input is on another device",
                code="other-device",
                field=name,
                got=self.device,
                allowed=device,
                hint="numpy() copies it",
            )
        if self.dtype is not desc.dtype:
            raise BindingError.another("data type", name, str(self.dtype), desc.dtype)
        if self.sizes != desc.sizes:
            raise BindingError.another("shape", name, list(self.sizes), list(desc.sizes))
        return self.numpy() if desc.owned else memory.given(self._tensor, self._desc, desc)

    def __reduce__(self) -> NoReturn:
        raise pickle.PicklingError("a tensor on a device cannot be pickled or copied; numpy() copies it")

    def __repr__(self) -> str:
        return f"<DeviceTensor {self.dtype} {list(self.sizes)} on {self.device}>"
