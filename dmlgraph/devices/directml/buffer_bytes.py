"""The sizes that nodes state for the buffers they read."""

from __future__ import annotations

from dmlgraph.compiler.desc import GraphDesc
from dmlgraph.compiler.ir_node import Use
from dmlgraph.compiler.lowering import thawed


def buffer_bytes(graph: GraphDesc) -> list[dict[int, int]]:
    """For each node the sizes in bytes of the buffers it reads, by port, if it reads only a part of them.

    DirectML gives a tensor's buffer the size that its first reader states, so all readers state the same size.
    """
    found: list[dict[int, int]] = [{} for _ in graph.nodes]
    ir = thawed(graph)
    if ir is not None:
        for node, buffers in zip(list(ir)[len(graph.inputs) :], found, strict=True):
            for port, source in enumerate(node.sources):
                if source is not None:
                    whole = ir.desc(*source).total_bytes
                    if ir.read_desc(Use(node.name, port)).total_bytes < whole:
                        buffers[port] = whole
    return found
