"""Attention that DirectML computes correctly: with a boolean mask it multiplies the position bias by the scale too.

Measured on DirectML 1.13 (feature level 6.2): MULTIHEAD_ATTENTION with a boolean mask and a relative position bias
gives softmax(scale · (Q · Kᵀ + bias) + mask) · V.  With other masks, or without one, the bias is not scaled.

So the mask becomes a part of the bias.  DirectML itself turns a mask into numbers and adds them, in as many dispatches.
"""

from __future__ import annotations

from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import Use
from dmlgraph.devices.directml.faults.edits import insert_before, put
from dmlgraph.operators import Add1, Cast, Identity, MultiheadAttention, ScaleBias
from dmlgraph.operators.directml_enums import MultiheadAttentionMaskType


def add_masks_to_biases(ir: IrGraph) -> int:
    """Replaces a boolean mask m beside a position bias by a bias with (1 − m) times the filter value.

    Adds no dispatch: DirectML would run the same steps.
    """
    for node in list(ir):
        operator = node.operator
        if not isinstance(operator, MultiheadAttention) or not _scales_its_bias(operator):
            continue
        mask, bias = (
            Use(node.name, operator.input_fields.index(field)) for field in ("mask", "relative_position_bias")
        )
        given, whole = ir.read_desc(bias), ir.read_desc(bias).like()
        value, added = operator.mask_filter_value, ir.read_desc(mask)
        flags = added.like(dtype=whole.dtype)
        steps = {
            "mask": Cast(input=added, output=flags),
            "filter": Identity(input=flags, scale_bias=ScaleBias(scale=-value, bias=value)),
        }
        for step, each in steps.items():
            insert_before(ir, mask, step, each)
        both = Add1(a=given, b=whole)  # not Add, which DirectML may merge with a product that makes the bias
        insert_before(ir, bias, "bias", both, ir.source(mask))
        ir.read(mask, None)
        without = {"mask": None, "mask_type": MultiheadAttentionMaskType.NONE, "relative_position_bias": whole}
        put(ir, node.name, operator.replace(**without))
    return 0


def _scales_its_bias(operator: MultiheadAttention) -> bool:
    return (
        operator.mask_type is MultiheadAttentionMaskType.BOOLEAN
        and operator.relative_position_bias is not None
        and operator.scale != 1
    )
