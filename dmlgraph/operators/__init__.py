"""DirectML's operators: one class each, one module a family."""

from dmlgraph.operators.activation import (
    ActivationRelu,
    ActivationSigmoid,
    ActivationSoftmax1,
    ActivationTanh,
)
from dmlgraph.operators.element_wise import (
    Abs,
    Add,
    Cast,
    Clip,
    Cos,
    Divide,
    Exp,
    Identity,
    If,
    Log,
    Max,
    Min,
    Multiply,
    Negate,
    Pow,
    Sin,
    Sqrt,
    Subtract,
)
from dmlgraph.operators.fields import ScaleBias
from dmlgraph.operators.fill import FillValueConstant, FillValueSequence
from dmlgraph.operators.logical import LogicalEquals, LogicalLessThan
from dmlgraph.operators.matrix import Gemm
from dmlgraph.operators.operator import REGISTRY, Operator, find
from dmlgraph.operators.outputs import OutputSpec
from dmlgraph.operators.reduction import Reduce
from dmlgraph.operators.shape import Join, Split

__all__ = [
    "REGISTRY",
    "Abs",
    "ActivationRelu",
    "ActivationSigmoid",
    "ActivationSoftmax1",
    "ActivationTanh",
    "Add",
    "Cast",
    "Clip",
    "Cos",
    "Divide",
    "Exp",
    "FillValueConstant",
    "FillValueSequence",
    "Gemm",
    "Identity",
    "If",
    "Join",
    "Log",
    "LogicalEquals",
    "LogicalLessThan",
    "Max",
    "Min",
    "Multiply",
    "Negate",
    "Operator",
    "OutputSpec",
    "Pow",
    "Reduce",
    "ScaleBias",
    "Sin",
    "Split",
    "Sqrt",
    "Subtract",
    "find",
]
