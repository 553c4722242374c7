"""What operators are called elsewhere, for hints: nothing here is an alias that a graph may use."""

from __future__ import annotations

from dmlgraph.errors import suggestion
from dmlgraph.operators.operator import REGISTRY

# Names of NumPy, ONNX, PyTorch and TensorFlow whose DirectML operator is called quite differently.
ELSEWHERE = {
    "arange": "fill_value_sequence",
    "average": "reduce",
    "avg_pool": "average_pooling",
    "avgpool": "average_pooling",
    "batch_norm": "batch_normalization",
    "concat": "join",
    "concatenate": "join",
    "constant": "fill_value_constant",
    "conv": "convolution",
    "conv2d": "convolution",
    "cumsum": "cumulative_summation",
    "dense": "gemm",
    "div": "divide",
    "dot": "gemm",
    "equal": "logical_equals",
    "eye": "diagonal_matrix",
    "fill": "fill_value_constant",
    "full": "fill_value_constant",
    "greater": "logical_greater_than",
    "instance_norm": "mean_variance_normalization1",
    "iota": "fill_value_sequence",
    "layer_norm": "mean_variance_normalization1",
    "less": "logical_less_than",
    "linspace": "fill_value_sequence",
    "matmul": "gemm",
    "maximum": "max",
    "max_pool": "max_pooling",
    "maxpool": "max_pooling",
    "minimum": "min",
    "mod": "modulus_floor",
    "mul": "multiply",
    "neg": "negate",
    "not": "logical_not",
    "ones": "fill_value_constant",
    "pad": "padding",
    "power": "pow",
    "range": "fill_value_sequence",
    "reciprocal": "recip",
    "reduce_max": "reduce",
    "reduce_mean": "reduce",
    "reduce_sum": "reduce",
    "resize": "resample",
    "sub": "subtract",
    "sum": "reduce",
    "topk": "top_k",
    "where": "if",
    "zeros": "fill_value_constant",
}

_PREFIXED = {name.removeprefix("activation_"): name for name in REGISTRY if name.startswith("activation_")}


def operator_hint(name: object) -> str:
    """What to write instead of a name that is no operator."""
    if isinstance(name, str):
        plain = name.lower().removeprefix("dml_operator_").removeprefix("element_wise_").removeprefix("elementwise_")
        hint = suggestion(plain, REGISTRY, ELSEWHERE | _PREFIXED)
        if hint is not None:
            return hint
    return "'dmlgraph operators' lists them"
