"""Device `cpu`: the embedded default, native, fused and threaded.

Connected element-wise nodes run as a region: one pass over the data in tiles that stay in the caches.  Data movement is
a strided copy, or costs nothing.  An operator without a native step runs its `evaluate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlgraph.base.levels import NEWEST
from dmlgraph.compiler.desc import GraphDesc
from dmlgraph.devices.cpu.threads import checked_threads
from dmlgraph.devices.device import Device, Family, native_needed

if TYPE_CHECKING:
    from dmlgraph.compiler.target import Target
    from dmlgraph.devices.cpu.executable import CpuExecutable


class CpuDevice(Device):
    """The processor.

    Attributes:
        threads: the most threads that work on a run; None: DMLGRAPH_THREADS, or one for each processor of the process.
    """

    name = "cpu"
    description = "runs networks natively, fused, on several threads; rare operators in NumPy"
    level = NEWEST

    def __init__(self, threads: int | None = None) -> None:
        self.threads = None if threads is None else checked_threads(threads)

    def with_threads(self, threads: int) -> Device:
        return CpuDevice(threads)

    @property
    def target(self) -> Target:
        from dmlgraph.devices.cpu.target import target

        return target(self.level)

    def compile(self, graph: GraphDesc, *, reason: str, debug: bool = False) -> CpuExecutable:
        with native_needed():
            from dmlgraph.devices.cpu.executable import CpuExecutable
        return CpuExecutable(graph, self.name, reason, threads=checked_threads(self.threads))

    def plan(self, graph: GraphDesc) -> str:
        return self.compile(graph, reason="plan").plan()


FAMILY = Family.of(CpuDevice)
