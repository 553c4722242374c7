"""Declare DirectML graphs, check and fuse them, and run them in one execution.

    import dmlgraph as dg

    g = dg.Graph("ramp")
    x = g.input("x", sizes=[1, 3], dtype="float32")
    g.output("y", dg.activation_relu(x * 2 + 1))
    print(g.compile().run({"x": [...]})["y"])

Operators are functions of their tensors (`dg.multiply`, `dg.reduce`, `dg.gemm`, …; `dmlgraph operators` lists
them); sources are methods of `Graph`.

Importing this package is quick: its modules and families of operators are imported when they are first used.
"""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from dmlgraph.operators.catalog.registry import FUNCTIONS

if TYPE_CHECKING:
    from dmlgraph.base.errors import BindingError as BindingError
    from dmlgraph.base.errors import DeviceError as DeviceError
    from dmlgraph.base.errors import DmlGraphError as DmlGraphError
    from dmlgraph.base.errors import DocumentError as DocumentError
    from dmlgraph.base.errors import GraphError as GraphError
    from dmlgraph.base.errors import Location as Location
    from dmlgraph.base.errors import ModelError as ModelError
    from dmlgraph.base.errors import NotEnoughMemoryError as NotEnoughMemoryError
    from dmlgraph.base.errors import OperatorError as OperatorError
    from dmlgraph.base.errors import Problem as Problem
    from dmlgraph.base.errors import ScalarError as ScalarError
    from dmlgraph.base.errors import Severity as Severity
    from dmlgraph.base.errors import TensorError as TensorError
    from dmlgraph.base.levels import FeatureLevel as FeatureLevel
    from dmlgraph.base.scalar import Scalar as Scalar
    from dmlgraph.base.tensor import DataType as DataType
    from dmlgraph.base.tensor import TensorDesc as TensorDesc
    from dmlgraph.compiler.desc import GraphDesc as GraphDesc
    from dmlgraph.devices.ladder import Ladder as Ladder
    from dmlgraph.devices.tensors import DeviceTensor as DeviceTensor
    from dmlgraph.formats.dxdispatch import load_dxdispatch as load_dxdispatch
    from dmlgraph.formats.dxdispatch import save_dxdispatch as save_dxdispatch
    from dmlgraph.formats.load_save import load as load
    from dmlgraph.formats.load_save import save as save
    from dmlgraph.formats.yaml import loads as loads
    from dmlgraph.functions import *  # noqa: F403 - its __all__ names them
    from dmlgraph.graph.composed import embedding as embedding
    from dmlgraph.graph.composed import layer_norm as layer_norm
    from dmlgraph.graph.composed import linear as linear
    from dmlgraph.graph.composed import scaled_dot_product_attention as scaled_dot_product_attention
    from dmlgraph.graph.composed import softmax as softmax
    from dmlgraph.graph.graph import Graph as Graph
    from dmlgraph.graph.states import length_mask as length_mask
    from dmlgraph.graph.value import Value as Value
    from dmlgraph.operators import ScaleBias as ScaleBias
    from dmlgraph.training import losses as losses
    from dmlgraph.training.custom_gradient import custom_gradient as custom_gradient
    from dmlgraph.training.custom_gradient import straight_through as straight_through
    from dmlgraph.training.gradient import gradient as gradient
    from dmlgraph.training.lora import add_lora as add_lora
    from dmlgraph.training.lora import merge_lora as merge_lora
    from dmlgraph.training.optimizers import SGD as SGD
    from dmlgraph.training.optimizers import Adam as Adam
    from dmlgraph.training.optimizers import AdamW as AdamW

# The same names for the run, by module: importing them all would take most of a short command's time.  Type checkers,
# editors and the documentation's tool read nothing but imports.  A test compares the two.
_NAMES = {
    "base.errors": (
        "BindingError DeviceError DmlGraphError DocumentError GraphError Location ModelError NotEnoughMemoryError "
        "OperatorError Problem ScalarError Severity TensorError"
    ),
    "base.levels": "FeatureLevel",
    "base.scalar": "Scalar",
    "base.tensor": "DataType TensorDesc",
    "compiler.desc": "GraphDesc",
    "devices.ladder": "Ladder",
    "devices.tensors": "DeviceTensor",
    "formats.dxdispatch": "load_dxdispatch save_dxdispatch",
    "formats.load_save": "load save",
    "formats.yaml": "loads",
    "functions": " ".join(FUNCTIONS),
    "graph.composed": "embedding layer_norm linear scaled_dot_product_attention softmax",
    "graph.graph": "Graph",
    "graph.states": "length_mask",
    "graph.value": "Value",
    "operators": "ScaleBias",
    "training": "losses",
    "training.custom_gradient": "custom_gradient straight_through",
    "training.gradient": "gradient",
    "training.lora": "add_lora merge_lora",
    "training.optimizers": "SGD Adam AdamW",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__version__: str

if not TYPE_CHECKING:  # with `__getattr__` they would accept any name
    __all__ = list(_MODULES)

    def __getattr__(name: str) -> Any:
        """A public name, a module, or the version, imported at first use; else an error with a hint."""
        module = _MODULES.get(name)
        if module is not None:
            found = getattr(importlib.import_module(f"{__name__}.{module}"), name)
            return globals().setdefault(name, found)
        if name == "__version__":
            from importlib.metadata import version

            return globals().setdefault(name, version(__name__))
        hint = None
        if not name.startswith("_"):
            if importlib.util.find_spec(f"{__name__}.{name}") is not None:
                return importlib.import_module(f"{__name__}.{name}")
            from dmlgraph.operators.catalog.hints import attribute_hint

            hint = attribute_hint(name, __all__)
        raise AttributeError(f"module 'dmlgraph' has no attribute '{name}'{f': {hint}' if hint else ''}", name=name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, "__version__"})
