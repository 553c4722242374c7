"""Families of operators: what they do, in colours that everybody can tell apart.

The hues are those of Okabe and Ito's palette; a search moved them until any two differ in hue or lightness, for normal
vision and all three kinds of colour blindness, on a light and on a dark background.
"""

from __future__ import annotations

import enum
import functools
from typing import TYPE_CHECKING

from dmlgraph import operators as ops

if TYPE_CHECKING:
    from dmlgraph.operators.declaration.operator import Operator


class Family(enum.StrEnum):
    """What an operator does; the value is its name in the legend."""

    PRODUCT = "products"
    ACTIVATION = "activations"
    ARITHMETIC = "arithmetic"
    MOVEMENT = "movement"
    NORMALIZATION = "normalization"
    REDUCTION = "reductions"
    SAMPLING = "sampling"
    CONVERSION = "conversions"


# By module of dmlgraph/operators.
_OF_MODULES = {
    "activation": Family.ACTIVATION,
    "attention": Family.PRODUCT,
    "bitwise": Family.ARITHMETIC,
    "convolution": Family.PRODUCT,
    "diagonal": Family.MOVEMENT,
    "element_wise": Family.ARITHMETIC,
    "fill": Family.MOVEMENT,
    "gradient": Family.ACTIVATION,
    "image": Family.MOVEMENT,
    "indexing": Family.MOVEMENT,
    "logical": Family.ARITHMETIC,
    "matrix": Family.PRODUCT,
    "matrix_integer": Family.PRODUCT,
    "normalization": Family.NORMALIZATION,
    "normalization_grad": Family.NORMALIZATION,
    "optimizer": Family.ARITHMETIC,
    "padding": Family.MOVEMENT,
    "patches": Family.MOVEMENT,
    "pooling": Family.SAMPLING,
    "quantization": Family.CONVERSION,
    "random": Family.ARITHMETIC,
    "recurrent": Family.PRODUCT,
    "reduction": Family.REDUCTION,
    "resampling": Family.SAMPLING,
    "roi": Family.SAMPLING,
    "roi_grad": Family.SAMPLING,
    "scan": Family.REDUCTION,
    "selection": Family.REDUCTION,
    "shape": Family.MOVEMENT,
    "slicing": Family.MOVEMENT,
    "softmax": Family.ACTIVATION,
    "trigonometric": Family.ARITHMETIC,
    "view": Family.MOVEMENT,
}
# The colours of the lines, on a light and on a dark background.
COLOURS = {
    Family.PRODUCT: ("#0044b6", "#196b99"),
    Family.ACTIVATION: ("#9f280c", "#b96311"),
    Family.ARITHMETIC: ("#524f5d", "#768493"),
    Family.MOVEMENT: ("#8e9349", "#8a6d3b"),
    Family.NORMALIZATION: ("#0d8255", "#00a678"),
    Family.REDUCTION: ("#e965a5", "#fca6b3"),
    Family.SAMPLING: ("#3298ec", "#5fdfff"),
    Family.CONVERSION: ("#c98600", "#c8b226"),
}


@functools.cache
def _unlike() -> dict[type[Operator], Family]:
    """The operators that are not like their modules."""
    return {
        ops.Cast: Family.CONVERSION,
        ops.Identity: Family.MOVEMENT,
        ops.QuantizedLinearAdd: Family.ARITHMETIC,
        ops.ValueScale2d: Family.ARITHMETIC,
    }


def family_of(operator: Operator | type[Operator]) -> Family:
    """The family of an operator."""
    kind = operator if isinstance(operator, type) else type(operator)
    return _unlike().get(kind) or _OF_MODULES[kind.family]
