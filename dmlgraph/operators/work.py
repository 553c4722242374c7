"""How much arithmetic an operator does: what its time is compared with.

Counted are the multiplications and additions of sums of products, each as one operation, including those with padding.
Other operators are bound by memory on every device, so for them it is their bytes that count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from dmlgraph.operators.attention import Attention
from dmlgraph.operators.convolution import Convolution, ConvolutionInteger, QuantizedLinearConvolution
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.directml_enums import ConvolutionDirection, MatrixTransform
from dmlgraph.operators.matrix import Gemm
from dmlgraph.operators.matrix_integer import IntegerProduct
from dmlgraph.operators.recurrent import Recurrent


def operations(operator: Operator) -> int:
    """The multiplications and additions of the sums of products; 0 for operators without any."""
    return next((2 * count(operator) for kind, count in _PRODUCTS.items() if isinstance(operator, kind)), 0)


def of_integers(operator: Operator) -> bool:
    """Whether the sums of products are of integers of 8 bits, for which processors have instructions of their own."""
    return isinstance(operator, IntegerProduct | ConvolutionInteger | QuantizedLinearConvolution)


def _gemm(gemm: Gemm) -> int:
    depth = gemm.a.sizes[-1 if gemm.trans_a is MatrixTransform.NONE else -2]
    return gemm.output.element_count * depth


def _integer_product(product: Any) -> int:
    return int(product.output.element_count * product.a.sizes[-1])


def _forward(convolution: Any) -> int:
    """Each element of the output is a sum over a filter."""
    return int(convolution.output.element_count * math.prod(convolution.filter.sizes[1:]))


def _convolution(convolution: Convolution) -> int:
    if convolution.direction is ConvolutionDirection.FORWARD:
        return _forward(convolution)
    # Each element of the input is multiplied by a filter.
    return convolution.input.element_count * math.prod(convolution.filter.sizes[1:])


def _recurrent(layer: Any) -> int:
    """Every weight is used at each step for each sequence of the batch."""
    steps, batch = layer.input.sizes[-3:-1]
    return int(steps * batch * (layer.weight.element_count + layer.recurrence.element_count))


def _attention(attention: Attention) -> int:
    """Scores of queries and keys, and their products with values."""
    sizes = attention.dimensions
    return math.prod(sizes.scores) * (sizes.head + sizes.value_head)


# Base class or class of operators → products of two numbers that they sum up.
_PRODUCTS: Mapping[type[Operator], Callable[[Any], int]] = {
    Gemm: _gemm,
    IntegerProduct: _integer_product,
    Convolution: _convolution,
    ConvolutionInteger: _forward,
    QuantizedLinearConvolution: _forward,
    Recurrent: _recurrent,
    Attention: _attention,
}
