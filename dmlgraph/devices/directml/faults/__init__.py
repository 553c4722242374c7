"""DirectML's faults, and what keeps users from them: here a graph becomes one that DirectML takes and computes right.

Each module is about one fault: it says what was measured, and changes what it has to by means of `edit`.
docs/measured.md lists them all.  A work-around that is no longer needed goes away with its module.
"""

from __future__ import annotations

from collections.abc import Callable

from dmlgraph.devices.directml.faults.aliases import (
    copy_what_other_windows_read,
    keep_joined_values,
    keep_windows_from_in_place,
)
from dmlgraph.devices.directml.faults.edit import DescEdit
from dmlgraph.devices.directml.faults.is_nan import cast_answers_on_float16
from dmlgraph.devices.directml.faults.normalizations import normalize_single_elements
from dmlgraph.devices.directml.faults.sequences import evaluate_large_sequences, keep_sequences_from_outputs
from dmlgraph.lowering import GraphDesc

# In this order: the copies before outputs are seen by those after them.
FAULTS: tuple[Callable[[DescEdit], None], ...] = (
    normalize_single_elements,
    cast_answers_on_float16,
    keep_sequences_from_outputs,
    evaluate_large_sequences,
    copy_what_other_windows_read,
    keep_windows_from_in_place,
    keep_joined_values,
)


def make_safe(graph: GraphDesc) -> tuple[GraphDesc, int]:
    """The same graph without what DirectML does wrong, and how many copies, each a dispatch, were added for that.

    A graph that is safe already is returned as it is, and so is one whose edges DirectML is going to refuse.
    """
    edit = DescEdit(graph)
    if not edit.is_whole():
        return graph, 0
    for fault in FAULTS:
        fault(edit)
    return edit.finish(), len(edit.added)
