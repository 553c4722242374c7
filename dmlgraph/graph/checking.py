"""Checking: the operators of a graph's nodes, from the descriptions of their inputs and their fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dmlgraph.base.errors import GraphError, OperatorError
from dmlgraph.base.expressions import Size
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.report import Report
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.graph.dims import Dims
from dmlgraph.graph.network import Outputs
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.graph.operator_cache import Checked, OperatorCache, key_of
from dmlgraph.operators.declaration.completion import counts
from dmlgraph.operators.declaration.fields import Kind
from dmlgraph.operators.declaration.operator import Operator

_STAND_IN = TensorDesc(dtype=DataType.FLOAT32, sizes=(1,))


class Checker:
    """Makes the operators of one graph's nodes; equal ones are checked once."""

    def __init__(self, dims: Dims, level: FeatureLevel) -> None:
        self.dims, self.level = dims, level
        self.known = OperatorCache()

    def copy(self, dims: Dims) -> Checker:
        """That of a copy of the graph, which shares what is checked."""
        other = Checker(dims, self.level)
        other.known = self.known
        return other

    def node(
        self,
        name: str,
        operator: type[Operator],
        inputs: Mapping[str, Any],
        attributes: Mapping[str, Any],
        outputs: Mapping[str, Any],
        report: Report,
    ) -> tuple[OperatorNode, Outputs]:
        """A node and its outputs; `inputs` are the descriptions of its inputs, by field."""
        fields: dict[str, Any] = {}
        if attributes or outputs:
            fields = self.dims.resolve_fields(operator, attributes, outputs, report)
        key = None if report.problems else key_of(operator, self.level, inputs, fields)
        checked = self.known.find(key)
        if checked is None:
            made = OperatorNode(name, self._operator(operator, inputs, fields, report), attributes, outputs)
            checked = Checked(made.operator, self.known.shared(Outputs.of(made)))
            self.known.keep(key, checked)
            return made, checked.outputs
        return OperatorNode(name, checked.operator, attributes, outputs), checked.outputs

    def _operator(
        self, operator: type[Operator], inputs: Mapping[str, Any], fields: dict[str, Any], report: Report
    ) -> Operator:
        """The checked operator; `report` gets every problem, and may have known ones of the fields."""
        fields = fields | counts(operator, inputs, fields)
        descs = dict(inputs)
        with report.at():
            descs = operator.adapt(descs, {field: fields.get(field) for field in operator.attribute_fields})
        if report.problems:  # other problems, which do not depend on tensors and dims
            report.add(*operator.field_problems(**descs, **fields))
            report.stop()
        checked = operator(**descs, **fields)
        report.add(*checked.level_problems(self.level))
        if report.problems:  # else it would be known as legal the next time
            report.stop()
        return checked

    def check_fields(
        self,
        operator: type[Operator],
        inputs: Iterable[str],
        attributes: Mapping[str, Any],
        outputs: Mapping[str, Any],
    ) -> None:
        """Checks the fields of a node whose inputs are unknown; `inputs` names the given ones.

        Raises:
            OperatorError: a field is wrong for any inputs.
        """
        with Report(OperatorError) as report:
            fields = self.dims.resolve_fields(operator, attributes, outputs, report)
            for field in inputs:
                fields[field] = (_STAND_IN,) if operator.fields[field].kind is Kind.TENSORS else _STAND_IN
            report.add(*operator.field_problems(**fields))

    def whole(self, size: Size, field: str) -> int:
        """The whole number that a size is: a number, a dim or an expression over dims.

        Raises:
            GraphError: it is not a whole number.
        """
        with Report(GraphError) as report:
            number: int = self.dims.resolve(size, field, report)
        return number

    def describe(self, **fields: Any) -> TensorDesc:
        """A tensor description whose sizes and strides may be expressions over dims.

        Raises:
            GraphError, TensorError: every problem of the fields.
        """
        with Report() as report:
            for key in ("sizes", "strides"):
                if key in fields:
                    fields[key] = self.dims.resolve(fields[key], key, report)
            return TensorDesc(**fields)
