"""Device `cpu`: the embedded default, native, fused and threaded.

Element-wise nodes run as regions, one pass over the data in pieces that stay in the caches; data movement is strided
copies or nothing at all; whatever else has no native step runs its `evaluate`.
"""

from __future__ import annotations

from dmlgraph.devices.cpu.threads import checked_threads
from dmlgraph.devices.device import Device
from dmlgraph.devices.executable import Executable
from dmlgraph.errors import DeviceError
from dmlgraph.levels import NEWEST
from dmlgraph.lowering import GraphDesc


class CpuDevice(Device):
    """The processor.

    Attributes:
        threads: how many work on a run at most; None: DMLGRAPH_THREADS, or one for each processor of the process.
    """

    name = "cpu"
    description = "runs element-wise chains fused and threaded, natively; other operators in NumPy"
    level = NEWEST
    unwanted_rules = frozenset({"multiply_add"})  # a region computes both in one pass, without BATCH_NORMALIZATION

    def __init__(self, threads: int | None = None) -> None:
        self.threads = None if threads is None else checked_threads(threads)

    def compile(self, graph: GraphDesc, *, reason: str, debug: bool = False) -> Executable:
        try:
            from dmlgraph.devices.cpu.executable import CpuExecutable  # needs the native module: where it is used
        except ImportError as error:
            raise DeviceError(
                f"the native module of dmlgraph cannot be loaded: {error}",
                hint="if these are the sources, leave their folder, so that the installed package is taken",
            ) from None
        return CpuExecutable(graph, self.name, reason, threads=checked_threads(self.threads))
