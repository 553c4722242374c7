"""Declare DirectML graphs, have them checked and fused, and run them in one execution.

    import dmlgraph as dg

    g = dg.Graph("ramp")
    x = g.input("x", sizes=[1, 3], dtype="float32")
    g.output("y", dg.activation_relu(x * 2 + 1))
    print(g.compile().run({"x": [...]})["y"])

Operators are functions of their tensors (`dg.multiply`, `dg.reduce`, `dg.gemm`, …; `dmlgraph operators` lists
them); sources are methods of `Graph`.
"""

from typing import TYPE_CHECKING, Any

from dmlgraph import functions
from dmlgraph.document import load, loads
from dmlgraph.dxdispatch import load as load_dxdispatch
from dmlgraph.dxdispatch import save as save_dxdispatch
from dmlgraph.errors import (
    BindingError,
    DeviceError,
    DmlGraphError,
    DocumentError,
    GraphError,
    Location,
    NotEnoughMemoryError,
    OperatorError,
    Problem,
    ScalarError,
    Severity,
    TensorError,
)
from dmlgraph.functions import *  # noqa: F403 - its __all__ names them
from dmlgraph.graph import Graph
from dmlgraph.levels import FeatureLevel
from dmlgraph.lowering import GraphDesc
from dmlgraph.operators import ScaleBias
from dmlgraph.scalar import Scalar
from dmlgraph.tensor import DataType, TensorDesc
from dmlgraph.value import Value

__all__ = [
    "BindingError",
    "DataType",
    "DeviceError",
    "DmlGraphError",
    "DocumentError",
    "FeatureLevel",
    "Graph",
    "GraphDesc",
    "GraphError",
    "Location",
    "NotEnoughMemoryError",
    "OperatorError",
    "Problem",
    "Scalar",
    "ScalarError",
    "ScaleBias",
    "Severity",
    "TensorDesc",
    "TensorError",
    "Value",
    "load",
    "load_dxdispatch",
    "loads",
    "save_dxdispatch",
]
__all__ += functions.__all__

__version__: str

if not TYPE_CHECKING:  # for which any name would be an attribute

    def __getattr__(name: str) -> Any:
        """The version, looked up where it is asked for; else an error that says what was meant."""
        if name == "__version__":
            from importlib.metadata import version

            return globals().setdefault(name, version(__name__))
        from dmlgraph.operators.names import attribute_hint

        hint = None if name.startswith("_") else attribute_hint(name, __all__)
        raise AttributeError(f"module 'dmlgraph' has no attribute '{name}'{f': {hint}' if hint else ''}", name=name)
