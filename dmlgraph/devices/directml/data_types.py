"""Data types that a device lacks: float64 on many adapters, 4-bit integers before DirectML 1.15.

DirectML refuses an operator with such a tensor with E_INVALIDARG alone; asked beforehand, it names the types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from dmlgraph import _native
from dmlgraph.base.errors import Problem, listing
from dmlgraph.base.tensor import DataType
from dmlgraph.compiler.desc import GraphDesc, OperatorDescNode


def supported_types(device: _native.Device) -> frozenset[DataType]:
    """The data types of DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT."""
    return frozenset(dtype for dtype in DataType if device.supports(dtype.value))


def type_problems(graph: GraphDesc, supported: Collection[DataType]) -> Iterator[Problem]:
    """A problem for every tensor field of a node whose data type is not supported."""
    for node in graph.nodes:
        if not isinstance(node, OperatorDescNode):
            continue
        for field, value in node.operator.tensors.items():
            tensors = value if isinstance(value, tuple) else (value,)
            missing = {each.dtype: None for each in tensors if each is not None and each.dtype not in supported}
            for dtype in missing:
                yield Problem(
                    f"the device does not support {dtype}",
                    code="dtype",
                    node=node.name,
                    field=field,
                    got=str(dtype),
                    allowed=listing(str(each) for each in DataType if each in supported),
                    hint="'cpu' runs it; cast converts to another data type",
                )
