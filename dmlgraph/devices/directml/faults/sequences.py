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
from dmlgraph.compiler.lowering import GraphInput, own_inputs
from dmlgraph.devices.directml.faults.edit import DescEdit, Port
from dmlgraph.graph.constant_data import Elements
from dmlgraph.operators import FillValueSequence, Identity

LARGEST_SEQUENCE_BYTES = 1 << 20


def keep_sequences_from_outputs(edit: DescEdit) -> None:
    """Inserts an identity between each sequence and each graph output that reads it."""
    for slot, value in list(edit.outputs.items()):
        sequence = edit.operator(value.node)
        if isinstance(sequence, FillValueSequence):
            copy = Identity(input=edit.output_desc(slot))
            edit.insert_before_output(f"{edit.nodes[value.producer].name}.copy", copy, slot)


def evaluate_large_sequences(edit: DescEdit) -> None:
    """Turns sequences that are too large for DirectML into graph inputs that DirectML owns.

    If a reader does not accept an owned tensor, the input is bound at every run instead.
    """
    large = {
        index: operator
        for index in range(len(edit.nodes))
        if isinstance(operator := edit.operator(index), FillValueSequence)
        and operator.output.total_bytes > LARGEST_SEQUENCE_BYTES
    }
    for node, sequence in large.items():
        readers = [reader for reader, value in edit.sources.items() if value.node == node]
        owned = all(_takes_owned(edit, reader) for reader in readers)
        (values,) = sequence.evaluate()
        output = sequence.output
        desc = TensorDesc(dtype=output.dtype, sizes=output.sizes, strides=output.strides, owned=owned)
        edit.become_input(node, GraphInput(edit.nodes[node].name, desc, Elements(np.ascontiguousarray(values))))
        for reader in readers if owned else ():
            if (operator := edit.operator(reader.node)) is not None:
                edit.replace(reader.node, own_inputs(operator, {reader.port}))


def _takes_owned(edit: DescEdit, reader: Port) -> bool:
    operator = edit.operator(reader.node)
    return operator is None or operator.takes_owned
