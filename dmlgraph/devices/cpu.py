"""Device `cpu`: the embedded default.

It runs the reference, node by node in NumPy, and says so; the results are those of `reference`.
"""

from __future__ import annotations

from dmlgraph.devices.reference import ReferenceDevice


class CpuDevice(ReferenceDevice):
    """The reference under the name of the default device."""

    name = "cpu"
    description = "runs like 'reference', in NumPy node by node; it has no fused native kernels yet"
