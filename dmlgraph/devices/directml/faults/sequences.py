"""Sequences that do not crash DirectML: it ends the process on some uses of FILL_VALUE_SEQUENCE.

Measured on DirectML 1.13 (feature level 6.2), which computes sequences while it compiles, in both CompileGraph and
CompileOperator:

- a sequence that a graph output reads directly: the process ends.  With an identity between them it works.
- a sequence of more than 1 MiB, whatever reads it: the process ends.

So an identity is inserted between a sequence and a graph output, and a large sequence is evaluated here and given to
DirectML once, to be kept in the persistent resource, as DirectML itself does with a small one.
"""

from __future__ import annotations

import numpy as np

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.desc import GraphInput
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import Source
from dmlgraph.compiler.lowering import own_inputs
from dmlgraph.devices.directml.faults.edits import insert_before_output, put
from dmlgraph.graph.constant_data import ConstantData
from dmlgraph.operators import FillValueSequence, Identity

LARGEST_SEQUENCE_BYTES = 1 << 20


def keep_sequences_from_outputs(ir: IrGraph) -> int:
    """Inserts an identity between each sequence and each graph output that reads it; returns how many."""
    copies = 0
    for output, source in list(ir.outputs.items()):
        if isinstance(ir[source.node].operator, FillValueSequence):
            insert_before_output(ir, output, "copy", Identity(input=ir.output_descs[output]))
            copies += 1
    return copies


def evaluate_large_sequences(ir: IrGraph) -> int:
    """Turns sequences that are too large for DirectML into graph inputs that DirectML owns; adds no dispatch.

    If a reader does not accept an owned tensor, the input is bound at every run instead.
    """
    for node in list(ir):
        sequence = node.operator
        if not isinstance(sequence, FillValueSequence) or sequence.output.total_bytes <= LARGEST_SEQUENCE_BYTES:
            continue
        readers = ir.users(Source(node.name, 0))
        owned = all(reader.computation.takes_owned for reader, _ in readers)
        (values,) = sequence.evaluate()
        output = sequence.output
        desc = TensorDesc(dtype=output.dtype, sizes=output.sizes, strides=output.strides, owned=owned)
        ir.put(node.name, GraphInput(node.name, desc, ConstantData(np.ascontiguousarray(values))))
        for reader, port in readers if owned else ():
            put(ir, reader.name, own_inputs(reader.computation, {port}))
    return 0
