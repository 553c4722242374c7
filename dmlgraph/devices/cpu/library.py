"""Fast functions in NumPy for operators without a native step; they run in place of `evaluate`.

A function takes the operator and its arrays in binding order, absent ones as None, and returns the outputs' values, as
`Operator.evaluate` does.
"""

from __future__ import annotations

from dmlgraph.operators import REGISTRY
from dmlgraph.operators.declaration.operator import Operator

from . import pooling
from .single import Evaluate, or_reference

_FUNCTIONS: dict[str, Evaluate] = {
    "max_pooling_grad": pooling.max_pooling_grad,
}


FAST: dict[type[Operator], Evaluate] = {REGISTRY[name]: or_reference(function) for name, function in _FUNCTIONS.items()}
