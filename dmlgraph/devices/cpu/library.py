"""Fast functions for the operators whose work is matrix products or windows; they run in place of `evaluate`.

A function takes the operator and its arrays in binding order, absent ones as None, and returns the outputs' values, as
`Operator.evaluate` does.  Integers are exact; the module `single` states how exact floats are.
"""

from __future__ import annotations

from dmlgraph.operators import REGISTRY
from dmlgraph.operators.declaration.operator import Operator

from . import attention, matrix, pooling, recurrent, resampling
from .single import Evaluate, or_reference

_FUNCTIONS: dict[str, Evaluate] = {
    "gemm": matrix.gemm,
    "quantized_linear_average_pooling": pooling.quantized_linear_average_pooling,
    "max_pooling_grad": pooling.max_pooling_grad,
    **dict.fromkeys(("multihead_attention", "multihead_attention1"), attention.attention),
    "rnn": recurrent.recurrent,
    "lstm": recurrent.recurrent,
    "gru": recurrent.recurrent,
    **dict.fromkeys(("resample_grad", "resample_grad1"), resampling.resample_gradient),
}


FAST: dict[type[Operator], Evaluate] = {REGISTRY[name]: or_reference(function) for name, function in _FUNCTIONS.items()}
