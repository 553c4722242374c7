"""Outputs before and after inference: the requests for them, merged with what the inputs determine."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dmlgraph.base.errors import OperatorError, TensorError, listing, suggestion
from dmlgraph.base.report import Report
from dmlgraph.base.tensor import MAX_RANK, DataType, TensorDesc


@dataclasses.dataclass(frozen=True, slots=True)
class OutputSpec:
    """A request for an output before it is inferred: any of data type, sizes and strides.

    `wanted` says whether an optional output is requested; None leaves it to the operator.
    """

    dtype: DataType | None = None
    sizes: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    wanted: bool | None = None

    MEMBERS: ClassVar = ("dtype", "sizes", "strides")

    @classmethod
    def of(cls, value: object) -> OutputSpec:
        """From a mapping with any of the members, a whole description, or a bool: whether the output is requested.

        Raises:
            TensorError: an unknown member, or one of the wrong kind.
        """
        if isinstance(value, OutputSpec):
            return value
        if isinstance(value, bool):
            return cls(wanted=value)
        if isinstance(value, TensorDesc):
            return cls(value.dtype, value.sizes, value.strides, wanted=True)
        if not isinstance(value, Mapping):
            raise TensorError(
                "must give dtype, sizes or strides",
                code="missing",
                got=value,
                allowed="{dtype: …, sizes: …, strides: …}",
            )
        # A description with stand-ins for the missing members checks the given ones.
        sizes = value.get("sizes")
        strides = value.get("strides")
        is_list = isinstance(strides, Sequence) and not isinstance(strides, str)
        stand_in = [1] * min(len(strides), MAX_RANK + 1) if is_list else [1]  # type: ignore[arg-type]
        with Report(TensorError) as report:
            for key in map(str, value):
                if key not in cls.MEMBERS:
                    known, hint = listing(cls.MEMBERS), suggestion(key, cls.MEMBERS)
                    report.problem("is not known here", code="unknown-field", field=key, allowed=known, hint=hint)
            desc = TensorDesc(
                dtype=value["dtype"] if value.get("dtype") is not None else DataType.UINT8,
                sizes=sizes if sizes is not None else stand_in,
                strides=strides,
            )
        return cls(
            desc.dtype if value.get("dtype") is not None else None,
            desc.sizes if sizes is not None else None,
            desc.strides,
            wanted=True,
        )


# What is given of an operator, as `descriptor` makes it.  Output field → OutputSpec; for an array a list of specs and
# sizes, or their number.  Input or attribute → its value, if it is given or has a default.
Given = Mapping[str, Any]
Outcome = Mapping[str, TensorDesc | tuple[TensorDesc, ...] | None]  # output field → description, None: left out


def take_given(fields: Mapping[str, bool], data: dict[str, Any]) -> dict[str, Any]:
    """Removes the outputs from `data` and returns the requests for them; absent ones request nothing.

    `fields` says for each output whether it is an array of outputs.

    Raises:
        OperatorError: every problem of all outputs.
    """
    given: dict[str, Any] = {}
    with Report(OperatorError) as report:
        for name, is_array in fields.items():
            value = data.pop(name, None)
            if value is None:
                given[name] = OutputSpec()
            elif is_array and isinstance(value, (list, tuple)):
                given[name] = [_spec(each, f"{name}.{index}", report) for index, each in enumerate(value)]
            else:
                given[name] = _spec(value, name, report, is_array=is_array)
    return given


def _spec(value: object, path: str, report: Report, *, is_array: bool = True) -> int | OutputSpec:
    """The request for an output; for an array, and for each of its members, a number is enough."""
    if is_array and isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    with report.at(field=path):
        return OutputSpec.of(value)
    return OutputSpec()


def asked_sizes(given: Given, field: str) -> tuple[int, ...]:
    """The sizes of an output that only the caller can know.

    Raises:
        OperatorError: they were not given.
    """
    sizes: tuple[int, ...] | None = given[field].sizes
    if sizes is None:
        raise OperatorError("must be given: nothing determines them", code="undetermined", field=f"{field}.sizes")
    return sizes


def merged(inferred: Outcome, given: Given) -> dict[str, Any]:
    """The inferred outputs with the requested strides.

    Raises:
        OperatorError: a request contradicts what the inputs determine.
    """
    outputs: dict[str, Any] = {}
    for name, outcome in inferred.items():
        if isinstance(outcome, tuple):
            specs = given[name] if isinstance(given[name], list) else [OutputSpec()] * len(outcome)
            outputs[name] = tuple(
                _merge(f"{name}.{index}", desc, spec if isinstance(spec, OutputSpec) else OutputSpec())
                for index, (desc, spec) in enumerate(zip(outcome, specs, strict=True))
            )
        elif outcome is not None and given[name].wanted is False:
            raise OperatorError("cannot be left out", code="conflict", field=name, got=False)
        else:
            outputs[name] = None if outcome is None else _merge(name, outcome, given[name])
    return outputs


def _merge(path: str, desc: TensorDesc, spec: OutputSpec) -> TensorDesc:
    for member in ("dtype", "sizes"):
        asked, found = getattr(spec, member), getattr(desc, member)
        if asked is not None and asked != found:
            raise OperatorError(
                "is determined by the inputs",
                code="conflict",
                field=f"{path}.{member}",
                got=_text(asked),
                allowed=_text(found),
            )
    if spec.strides is None:
        return desc
    with Report(OperatorError, field=path):
        return desc.like(strides=spec.strides)


def _text(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)
