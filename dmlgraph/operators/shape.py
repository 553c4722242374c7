"""Operators that move elements and compute nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dmlgraph.errors import OperatorError, Problem
from dmlgraph.operators.axes import axis_problems
from dmlgraph.operators.fields import Input, Inputs, Output, Outputs, UInt, inferred
from dmlgraph.operators.operator import Array, Operator
from dmlgraph.operators.outputs import Given, Outcome, OutputSpec
from dmlgraph.tensor import TensorDesc


class Join(Operator, dml="JOIN"):
    """The inputs one after the other along `axis`; their other sizes agree."""

    inputs: Inputs
    output: Output = inferred()
    axis: UInt

    def infer(self, given: Given) -> Outcome:
        parts = self.inputs
        if not parts:
            raise OperatorError("must have at least one tensor", field="inputs")
        first = parts[0]
        _check_axis(self.axis, first.rank)
        length = sum(part.sizes[self.axis] for part in parts if part.rank == first.rank)
        return {"output": first.like(sizes=_with(first.sizes, self.axis, length))}

    def constraints(self) -> Iterator[Problem]:
        return _part_problems("inputs", self.inputs, self.output, self.axis)

    def evaluate(self, *inputs: Array | None) -> tuple[Array, ...]:
        return (np.concatenate([part for part in inputs if part is not None], axis=self.axis),)


class Split(Operator, dml="SPLIT"):
    """The input cut along `axis` into parts; `outputs` lists their sizes along it, which add up to the input's."""

    input: Input
    outputs: Outputs = inferred()
    axis: UInt

    def infer(self, given: Given) -> Outcome:
        asked = given["outputs"]
        if not isinstance(asked, list) or not asked:
            raise OperatorError(
                "must list the parts: nothing determines them",
                field="outputs",
                allowed="the size of each part along the axis, such as [2, 4]",
            )
        _check_axis(self.axis, self.input.rank)
        return {"outputs": tuple(self._part(index, spec) for index, spec in enumerate(asked))}

    def _part(self, index: int, spec: int | OutputSpec) -> TensorDesc:
        if isinstance(spec, OutputSpec):
            if spec.sizes is None or len(spec.sizes) != self.input.rank:
                raise OperatorError(
                    "must be given, one for each dimension of the input",
                    field=f"outputs.{index}.sizes",
                    got=spec.sizes,
                )
            spec = spec.sizes[self.axis]
        if spec < 1:
            raise OperatorError("must be at least 1", field=f"outputs.{index}", got=spec)
        return self.input.like(sizes=_with(self.input.sizes, self.axis, spec))

    def constraints(self) -> Iterator[Problem]:
        parts = self.outputs
        yield from _part_problems("outputs", parts, self.input, self.axis)
        total, whole = sum(part.sizes[self.axis] for part in parts), self.input.sizes[self.axis]
        if total != whole:
            yield Problem(
                f"the sizes along axis {self.axis} must add up to the input's",
                field="outputs",
                got=total,
                allowed=str(whole),
            )

    def evaluate(self, *inputs: Array | None) -> tuple[Array, ...]:
        (x,) = inputs
        assert x is not None
        parts = self.outputs
        cuts = np.cumsum([part.sizes[self.axis] for part in parts])[:-1]
        return tuple(np.split(x, cuts, axis=self.axis))


def _check_axis(axis: int, rank: int) -> None:
    problems = list(axis_problems(axis, rank))
    if problems:
        raise OperatorError(problems)


def _with(sizes: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*sizes[:axis], size, *sizes[axis + 1 :])


def _part_problems(field: str, parts: tuple[TensorDesc, ...], whole: TensorDesc, axis: int) -> Iterator[Problem]:
    """The parts' sizes are the whole's, except along the axis."""
    for index, part in enumerate(parts):
        if part.rank == whole.rank and _with(part.sizes, axis, 1) != _with(whole.sizes, axis, 1):
            yield Problem(
                f"may differ only along axis {axis}",
                field=f"{field}.{index}.sizes",
                got=list(part.sizes),
                allowed=str(list(_with(whole.sizes, axis, part.sizes[axis]))),
            )
