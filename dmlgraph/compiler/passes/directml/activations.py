"""Activations: an element-wise operator after a heavy operator becomes its FusedActivation.

The heavy operator then writes its result once, activated.  DirectML without metacommands does so for RELU, LEAKY_RELU
and IDENTITY; it runs the others in a separate dispatch, as if they were not fused, with the same bits.

No operator is computed twice: an operator whose value has other readers is not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Operand, Source
from dmlgraph.compiler.passes.canonical.affine import FLOATS, affine, is_affine
from dmlgraph.compiler.rule import Differs, New, Outcome, Rewrite, alone, demand, rule
from dmlgraph.operators.activation import ActivationLinear
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.element_wise import Clip

Activation = tuple[type[Operator], Mapping[str, Any]]


def host_of(operator: type[Operator]) -> type[Operator] | None:
    """The operator with a FusedActivation that does what another does; None if there is none."""
    return operator if "fused_activation" in operator.fields else operator.with_activation()


def is_host(operator: type[Operator]) -> bool:
    """Whether an operator can apply an activation itself."""
    return host_of(operator) is not None


def is_fusable(operator: type[Operator]) -> bool:
    """Whether an operator is an activation that others can apply, or the same as one."""
    return bool(operator.support().fusable_into) or operator.as_activation is not Operator.as_activation


@rule(
    is_fusable,
    after=(is_host,),
    effect="bit-exact, except that a fused RELU keeps NaN and gives −0.0 for negative numbers; where hosts pass more "
    "digits (float16, the reference) at most 1/2 ULP of the argument; on DirectML a separate float16 activation "
    "rounds its steps to float16, a fused one to float32; a hard sigmoid made of CLIP gives 0 for NaN",
    differs=Differs.ROUNDED | Differs.WIDENED | Differs.NAN,
)
def fuse_activation(ir: IrGraph, node: IrNode) -> Outcome:
    """activation(host) → host with FusedActivation; activation(a + b) → ADD1.

    Hosts are CONVOLUTION, GEMM, the batch and mean-variance normalizations, and ADD.  THRESHOLD at 0 is RELU, TANH of
    float32 is ACTIVATION_TANH, and CLIP between 0 and 1 with a ScaleBias HARD_SIGMOID.  A fused RELU keeps NaN and
    gives −0.0 for negative numbers (measured); a separate one gives 0 for both.  The result of a float16 host is
    rounded only after the activation.  CONVOLUTION's output padding is activated either way.
    """
    activation = as_activation(node)
    return activation and _fuse(ir, node.operand("input"), activation)


@rule(
    is_affine,
    after=(is_host,),
    effect="bit-exact; where hosts pass more digits (float16, the reference) 1/2 ULP of the argument",
    differs=Differs.ROUNDED,
)
def fuse_line(ir: IrGraph, node: IrNode) -> Outcome:
    """host · s + b → host with FusedActivation LINEAR(s, b); (a + b) + c → ADD1 with LINEAR(1, c).

    A scale of 1 is exact, and so is a bias of −0.0, which keeps the sign of zeros.
    """
    found = affine(ir, node)
    if found is None:
        return None
    return _fuse(ir, found.operand, (ActivationLinear, {"alpha": found.map.scale, "beta": found.map.bias}))


def as_activation(node: IrNode) -> Activation | None:
    """A node as an activation that can be fused, or None."""
    operator = node.computation
    if type(operator).as_activation is not Operator.as_activation:
        return operator.as_activation()
    return type(operator), operator.attributes


def _fuse(ir: IrGraph, operand: Operand | None, activation: Activation) -> Outcome:
    host = None if operand is None else ir.producer(operand)
    operator = None if host is None else host.operator
    fused = None if operator is None else host_of(type(operator))
    if host is None or operand is None or operator is None or fused is None:
        return None
    if operand.source.port != 0 or operand.desc.dtype not in FLOATS:
        return None
    kind, attributes = activation
    # Activations have their numbers in the type of their tensor, where 1 / 2^−23 of float16 is infinite (measured).
    greatest = float(np.finfo(operand.desc.dtype.numpy).max)
    fits = all(abs(each) <= greatest for each in attributes.values() if isinstance(each, float))
    demand(fits or kind is Clip, f"{kind.name} would have a number beyond {operand.desc.dtype}")
    listed = getattr(fused, "fuses_like", None) or fused.dml
    demand(listed in kind.support().fusable_into, f"{kind.name} cannot be fused into {fused.name}")
    demand(getattr(operator, "fused_activation", None) is None, f"'{host.name}' has an activation already")
    alone(ir, operand, "and would be computed twice")
    others = any(ir.use_count(Source(host.name, port)) for port in range(1, host.output_count))
    demand(not others, f"other outputs of '{host.name}' are read, and it would be computed twice")
    written = ir.produced(operand)
    is_plain = (operand.desc.sizes, operand.desc.effective_strides) == (written.sizes, written.effective_strides)
    demand(is_plain, f"'{host.name}' is not read as it was written")
    new = New.like(host, {}, {"fused_activation": {"op": kind.name, **attributes}}, operator=fused)
    return Rewrite.of(new, f"'{host.name}' applies {kind.name} itself")


RULES = (fuse_activation, fuse_line)
