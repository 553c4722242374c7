"""The verifier: the invariants of an IR after every pass.  Tests run it; it costs as much as building the graph."""

from __future__ import annotations

import collections

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Signature, Source
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.element_wise import Identity
from dmlgraph.operators.slicing import Slice, Slice1


def verify(ir: IrGraph) -> None:
    """Raises AssertionError where an IR is not a legal graph with the outputs of its source.

    Every operand exists, has the data type it is read as and all the bytes that are read; every operator is legal at
    the level and complete; no cycles exist; every node and every reader is registered.
    """
    names = [node.name for node in ir.in_order()]  # terminates only where there is no cycle
    assert sorted(names) == sorted(node.name for node in ir)
    assert ir.kinds == collections.Counter(node.kind for node in ir)
    assert ir.signatures == collections.Counter(_signature(ir, node) for node in ir)
    for node in ir:
        _verify_node(ir, node)
    wanted = ir.promised
    assert list(ir.outputs) == list(wanted), "the outputs keep their names and their order"
    for name, source in ir.outputs.items():
        written, before = ir[source.node].output_desc(source.port), wanted[name]
        desc = ir.layouts.get(name) or written
        assert desc.total_bytes == written.total_bytes, f"output '{name}' is not the whole buffer of '{source.node}'"
        assert (desc.dtype, desc.sizes) == (before.dtype, before.sizes), f"output '{name}': {desc} for {before}"
        assert desc.effective_strides == before.effective_strides, f"output '{name}' has another layout"


def _signature(ir: IrGraph, node: IrNode) -> Signature:
    return node.kind, frozenset(ir[source.node].kind for source in node.sources if source is not None)


def _verify_node(ir: IrGraph, node: IrNode) -> None:
    operator = node.operator
    if operator is None:
        assert not node.sources
        return
    descs = operator.input_descs
    assert len(descs) == len(node.sources), f"'{node.name}' has {len(node.sources)} sources for {len(descs)} bindings"
    for port, (source, desc) in enumerate(zip(node.sources, descs, strict=True)):
        assert (source is None) == (desc is None), f"'{node.name}' input {port}: source and description go together"
        if source is not None and desc is not None:
            _verify_operand(ir, node, port, source, desc)
    problems = operator.level_problems(ir.level)
    assert not problems, f"'{node.name}': {problems[0]}"
    _verify_operator(operator)


def _verify_operand(ir: IrGraph, node: IrNode, port: int, source: Source, desc: TensorDesc) -> None:
    where = f"'{node.name}' input {port}"
    assert source.node in ir, f"{where} reads '{source.node}', which does not exist"
    produced = ir[source.node].output_desc(source.port)
    if isinstance(node.operator, (Identity, Slice, Slice1)):  # a copy may read elements as words of other types
        assert desc.total_bytes <= produced.total_bytes, f"{where} reads {desc}, but it is {produced}"
    else:
        assert desc.dtype is produced.dtype, f"{where} reads {desc}, but it is {produced}"
        assert desc.span <= produced.span, f"{where} reads {desc.span} elements of {produced.span}"
    assert (node, port) in [(user, at) for user, at in ir.users(source)], f"{where} is not among the readers"


def _verify_operator(operator: Operator) -> None:
    """An operator rebuilt from its fields is the same."""
    fields = {name: getattr(operator, name) for name in type(operator).fields}
    again = type(operator)(**fields)
    # NaN does not equal NaN, but their text is the same.
    assert again == operator or repr(again) == repr(operator), f"{operator} becomes {again}"
