"""Target: what the compiler knows of the place where a graph will run.

A device has one.  Whatever depends on where a graph runs is asked here: a rule that a target does not want is not in
its passes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from dmlgraph.base.levels import FeatureLevel

if TYPE_CHECKING:
    from dmlgraph.base.tensor import TensorDesc
    from dmlgraph.compiler.pipeline import Pass
    from dmlgraph.graph.graph import Graph
    from dmlgraph.operators.declaration.operator import Operator


def refuses_nothing(*_: object) -> None:
    """The refusal of a target that takes any strides, or any operator in place of another."""


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """Where a graph will run.

    Attributes:
        level: the highest feature level that runs there.
        passes: in their order.
        copy_level: at which the copies that views need must be legal; None: at that of other operators.
        leaves_rows_out: whether a product reads only those rows of a growing state that have been written.
        copies_all: whether an identity copies every data type: DirectML copies some as 32-bit words.
        layout_refusal: why a tensor with these strides is not taken at an operator's binding path; None if it is.
        absorption_refusal: why an operator should not replace another one; None if it may.
    """

    level: FeatureLevel
    passes: tuple[Pass, ...]
    copy_level: FeatureLevel | None = None
    leaves_rows_out: bool = False
    copies_all: bool = False
    layout_refusal: Callable[[Operator, str, TensorDesc], str | None] = refuses_nothing
    absorption_refusal: Callable[[Operator, Operator | None], str | None] = refuses_nothing

    def level_for(self, graph: Graph) -> FeatureLevel:
        """The level at which the operators that passes make for a graph must be legal."""
        return min(self.level, graph.level)
