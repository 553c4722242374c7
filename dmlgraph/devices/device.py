"""Device: something that compiles and runs lowered graphs."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

from dmlgraph.levels import FeatureLevel

if TYPE_CHECKING:
    from dmlgraph.devices.executable import Executable
    from dmlgraph.lowering import GraphDesc


class Device(abc.ABC):
    """A place where graphs run.

    Attributes:
        name: as the user writes it.
        description: what it is, in a phrase.
        level: the highest feature level it runs.
    """

    name: str
    description: str
    level: FeatureLevel

    @abc.abstractmethod
    def compile(self, graph: GraphDesc, *, reason: str, debug: bool = False) -> Executable:
        """Compiles a lowered graph; `reason` says why this device was chosen.

        Raises:
            DeviceError: the device cannot run the graph, or failed.
        """
