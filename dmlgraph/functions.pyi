"""The operators as functions of their tensors.

Made by tools/generate_function_stubs.py from the operators' classes: change those, not this file.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from dmlgraph.graph import Value
from dmlgraph.operators import Operator, OutputSpec, ScaleBias
from dmlgraph.tensor import DataType, TensorDesc

Tensor = Value | int | float
Output = TensorDesc | OutputSpec | Mapping[str, Any]

__all__ = [
    "abs",
    "activation_relu",
    "activation_sigmoid",
    "activation_softmax1",
    "activation_tanh",
    "add",
    "cast",
    "clip",
    "cos",
    "divide",
    "exp",
    "gemm",
    "identity",
    "if_",
    "join",
    "log",
    "logical_equals",
    "logical_less_than",
    "max",
    "min",
    "multiply",
    "negate",
    "pow",
    "reduce",
    "sin",
    "split",
    "sqrt",
    "subtract",
]

def abs(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, float] | None = ...,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """|x|; the least integer stays as it is, since its opposite does not exist."""

def activation_relu(
    input: Tensor,
    *,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """max(0, x)"""

def activation_sigmoid(
    input: Tensor,
    *,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """1 / (1 + e^−x)"""

def activation_softmax1(
    input: Tensor,
    *,
    axes: Sequence[int | str],
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """e^x / Σ e^x, the sum over all of `axes` together."""

def activation_tanh(
    input: Tensor,
    *,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """tanh x"""

def add(
    a: Tensor,
    b: Tensor,
    *,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """a + b"""

def cast(
    input: Tensor,
    *,
    dtype: DataType | str | None = ...,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """The input's values in the output's data type, which must be given."""

def clip(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, float] | None = ...,
    min: float,
    max: float,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """max(min, min(x, max)): where min > max, min wins."""

def cos(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, float] | None = ...,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """cos x, x in radians."""

def divide(
    a: Tensor,
    b: Tensor,
    *,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """a / b; integers cut the fraction, and give all bits set where b is zero."""

def exp(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, float] | None = ...,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """e^x"""

def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = ...,
    *,
    trans_a: Literal["none", "transpose"] = ...,
    trans_b: Literal["none", "transpose"] = ...,
    alpha: float = ...,
    beta: float = ...,
    fused_activation: str | Mapping[str, Any] | Operator | None = ...,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """activation(alpha · A · B + beta · C), A and B transposed first where asked."""

def identity(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, float] | None = ...,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """A copy of the input; with other strides for the output, a change of layout."""

def if_(
    condition: Tensor,
    a: Tensor,
    b: Tensor,
    *,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """a where the condition (uint8) is not zero, else b."""

def join(
    inputs: Sequence[Value],
    *,
    axis: int | str,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """The inputs one after the other along `axis`; their other sizes agree."""

def log(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, float] | None = ...,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """ln x: −infinity at zero, NaN below."""

def logical_equals(
    a: Tensor,
    b: Tensor,
    *,
    dtype: DataType | str | None = ...,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """a = b"""

def logical_less_than(
    a: Tensor,
    b: Tensor,
    *,
    dtype: DataType | str | None = ...,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """a < b"""

def max(
    a: Tensor,
    b: Tensor,
    *,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """The greater of a and b; where one is NaN, the other."""

def min(
    a: Tensor,
    b: Tensor,
    *,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """The lesser of a and b; where one is NaN, the other."""

def multiply(
    a: Tensor,
    b: Tensor,
    *,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """a · b"""

def negate(
    input: Tensor,
    *,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """−x; the least integer stays as it is, since its opposite does not exist."""

def pow(
    input: Tensor,
    exponent: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, float] | None = ...,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """input ^ exponent; the output has the input's data type."""

def reduce(
    input: Tensor,
    *,
    dtype: DataType | str | None = ...,
    function: Literal["argmax", "argmin", "average", "l1", "l2", "log_sum", "log_sum_exp", "max", "min", "multiply", "sum", "sum_square"],
    axes: Sequence[int | str] | None = ...,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """Reduces the elements along `axes` (all axes, if left out) to one, whose sizes become 1."""

def sin(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, float] | None = ...,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """sin x, x in radians."""

def split(
    input: Tensor,
    *,
    axis: int | str,
    outputs: Sequence[int | str | Output] | None = ...,
    name: str | None = ...,
) -> tuple[Value, ...]:
    """The input cut along `axis` into parts; `outputs` lists their sizes along it, which add up to the input's."""

def sqrt(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, float] | None = ...,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """√x, NaN below zero."""

def subtract(
    a: Tensor,
    b: Tensor,
    *,
    output: Output | None = ...,
    name: str | None = ...,
) -> Value:
    """a − b"""
