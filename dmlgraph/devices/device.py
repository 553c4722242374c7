"""Device: something that compiles and runs lowered graphs."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from dmlgraph.errors import DeviceError, DmlGraphError
from dmlgraph.levels import FeatureLevel

if TYPE_CHECKING:
    from dmlgraph.devices.executable import Executable
    from dmlgraph.lowering import GraphDesc
    from dmlgraph.operators.declaration.operator import Operator


# What `Graph.compile` takes; the index may be that of any adapter that `dmlgraph devices` lists.
DeviceName = Literal[
    "auto",
    "cpu",
    "reference",
    "directml",
    "directml:software",
    "directml:0",
    "directml:1",
    "directml:2",
    "directml:3",
]


class Device(abc.ABC):
    """A place where graphs run.

    Attributes:
        name: as the user writes it.
        description: what it is, in a phrase.
        level: the highest feature level it runs.
        newer: how to get a higher one; None if there is no way.
    """

    name: str
    description: str
    level: FeatureLevel
    newer: str | None = None

    def objection(self, made: Operator, instead_of: Operator | None) -> str | None:
        """Why a pass should not replace one operator by another on this device; None if it may.

        The passes ask this about every operator they make, for example one with a fused activation that replaces
        the activation: a device that does not absorb something says so here.
        """
        return None

    @abc.abstractmethod
    def compile(self, graph: GraphDesc, *, reason: str, debug: bool = False) -> Executable:
        """Compiles a lowered graph; `reason` says why this device was chosen.

        Raises:
            DeviceError: the device cannot run the graph, or failed.
        """


# The codes of errors of a compilation that say: the device lacks something that the graph needs.
_LACKING = frozenset({"level", "dtype", "refused", "too-large"})


def lacks(error: DmlGraphError) -> bool:
    """Whether an error of a compilation says that the device lacks something, so that another may run the graph."""
    return all(problem.code in _LACKING for problem in error.problems)


@contextlib.contextmanager
def native_needed() -> Iterator[None]:
    """For imports of modules that need the native module: raises DeviceError if it cannot be loaded."""
    try:
        yield
    except ImportError as error:
        raise DeviceError(
            f"the native module of dmlgraph cannot be loaded: {error}",
            code="native-module",
            hint="in a folder with dmlgraph's sources, change to another folder so that the installed package is used",
        ) from None
