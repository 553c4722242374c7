"""What a search finds."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlgraph.doctor.measures import Measures

Array = np.ndarray[Any, Any]


class Kind(enum.Enum):
    """What is wrong with a graph on a device."""

    FAULT = "fault"  # a node's result is not that of its inputs
    NOT_FINITE = "not finite"  # a fault: NaN or infinity where the result is finite
    UNSTABLE = "unstable"  # two runs on the same inputs differ
    VANISHING = "vanishing"  # a fault of the whole graph that is gone when values between the nodes are outputs
    AMPLIFICATION = "amplification"  # no node is at fault: small differences grow
    LOST = "lost"  # the device is removed, or its process ends
    REFUSED = "refused"  # the device does not take the graph
    HANG = "hang"  # no end within the time limit
    RECORDED = "recorded"  # the device is right, and the graph does not compute the values recorded elsewhere
    SOUND = "sound"  # nothing is wrong


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """The first node that a device computes wrong, or what else is wrong.

    Attributes:
        kind: what is wrong.
        device: the name of the device.
        node: the first node that is computed wrong; None if nothing is wrong or no single node is at fault.
        group: the nodes that are wrong together, in execution order, where `node` alone is right or several nodes
            became one; empty if it is wrong alone.  Of a fault that vanishes, the nodes between which it is.
        inputs: what the node reads, by field; of a group by reference.  As the device had it.
        got: the outputs of the node, or of the last one of the group, on the device.
        expected: these outputs for the same inputs.
        executions: how often the device ran something.
        measures: of the first wrong output.
        outputs: of the outputs and the next values of states, by name, against those expected of the graph's inputs.
        why: what else is known, in a sentence or two, each in a line; empty if nothing is.
        rules: the fusing rules that made the node.
    """

    kind: Kind
    device: str
    node: str | None = None
    group: tuple[str, ...] = ()
    inputs: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    got: tuple[Array, ...] = ()
    expected: tuple[Array, ...] = ()
    executions: int = 0
    measures: Measures | None = None
    outputs: Mapping[str, Measures] = dataclasses.field(default_factory=dict)
    why: str = ""
    rules: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The node, or those that are wrong together; empty if nobody knows."""
        return self.group or ((self.node,) if self.node is not None else ())

    @property
    def wrong(self) -> int:
        """Which of the outputs is the first wrong one: it differs by most."""
        for index, (got, expected) in enumerate(zip(self.got, self.expected, strict=True)):
            if self.measures is not None and Measures.of(got, expected) == self.measures:
                return index
        return 0
