"""Workarounds for DirectML's faults: they turn a graph into one that DirectML accepts and computes correctly.

Each module is about one fault: it says what was measured, and is a pass over the IR of the lowered graph.
docs/measured.md lists them all.  A workaround that is no longer needed is removed with its module.
"""

from __future__ import annotations

from collections.abc import Callable

from dmlgraph.compiler.desc import GraphDesc
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.lowering import frozen, thawed
from dmlgraph.devices.directml.faults.aliases import (
    copy_what_other_windows_read,
    keep_joined_values,
    keep_last_states,
    keep_sources_of_reordered_joins,
    keep_windows_from_in_place,
)
from dmlgraph.devices.directml.faults.attention import add_masks_to_biases
from dmlgraph.devices.directml.faults.is_nan import cast_answers_on_float16
from dmlgraph.devices.directml.faults.merges import keep_gates_apart, keep_sums_out_of_products
from dmlgraph.devices.directml.faults.normalizations import normalize_single_elements
from dmlgraph.devices.directml.faults.sequences import evaluate_large_sequences, keep_sequences_from_outputs

# Each returns the number of dispatches that it adds.  In this order: later workarounds must see the copies that earlier
# ones insert before outputs.
FAULTS: tuple[Callable[[IrGraph], int], ...] = (
    normalize_single_elements,
    cast_answers_on_float16,
    add_masks_to_biases,
    keep_sums_out_of_products,
    keep_gates_apart,
    keep_sequences_from_outputs,
    evaluate_large_sequences,
    copy_what_other_windows_read,
    keep_windows_from_in_place,
    keep_joined_values,
    keep_sources_of_reordered_joins,
    keep_last_states,
)


def make_safe(graph: GraphDesc) -> tuple[GraphDesc, int]:
    """An equivalent graph that avoids DirectML's faults, and how many copies (each a dispatch) were added for that.

    A graph that is already safe is returned unchanged, and so is one whose edges DirectML will refuse.
    """
    ir = thawed(graph)
    if ir is None:
        return graph, 0
    added = sum(fault(ir) for fault in FAULTS)
    if not ir.is_changed:
        return graph, 0
    ir.remove_unused()
    return frozen(ir), added
