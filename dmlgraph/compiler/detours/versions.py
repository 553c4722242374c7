"""Detours through an earlier or later version of an operator, such as MEAN_VARIANCE_NORMALIZATION2."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dmlgraph import operators as ops
from dmlgraph.base.errors import DmlGraphError
from dmlgraph.base.scalar import Scalar
from dmlgraph.compiler.detours.site import NoDetourError, Site
from dmlgraph.graph.value import Value
from dmlgraph.operators.declaration.operator import Operator

Fields = Mapping[str, Any]
Converted = Callable[[Any], Fields | None]  # an operator → the fields of the other version; None where it has no such


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """Two versions of an operator, and how the fields of one become those of the other."""

    earlier: type[Operator]
    later: type[Operator]
    forward: Converted
    backward: Converted


def _with(earlier: type[Operator], later: type[Operator], **neutral: Any) -> Pair:
    """A version with more fields, which mean the same as before where they have these values or their defaults."""
    types = set(later.scalars.values())  # the data types of scalars are those of the tensors
    more = [field for field in later.attribute_fields if field not in {*earlier.attribute_fields, *types}]
    same = {field: later.fields[field].default for field in more} | neutral

    def forward(operator: Operator) -> Fields:
        return _plain(operator, earlier.attribute_fields) | same

    def backward(operator: Operator) -> Fields | None:
        found = operator.attributes
        fits = all(_equal(found[field], value) for field, value in same.items())
        return _plain(operator, earlier.attribute_fields) if fits else None

    return Pair(earlier, later, forward, backward)


def _for_floats(pair: Pair) -> Pair:
    """The pair for tensors of floats only."""

    def only(convert: Converted) -> Converted:
        return lambda operator: convert(operator) if operator.first_output.dtype.is_float else None

    return Pair(pair.earlier, pair.later, only(pair.forward), only(pair.backward))


def _plain(operator: Operator, fields: Iterable[str]) -> dict[str, Any]:
    """Fields with numbers in place of scalars of a data type."""
    found = {field: operator.attributes[field] for field in fields}
    return {field: value.plain if isinstance(value, Scalar) else value for field, value in found.items()}


def _equal(found: Any, neutral: Any) -> bool:
    """Whether a field has a value, or a list has it in each entry."""
    if isinstance(found, tuple) and not isinstance(neutral, tuple):
        return all(each == neutral for each in found)
    return bool(found == neutral)


def _last_axis(operator: ops.ActivationSoftmax1 | ops.ActivationLogSoftmax1 | ops.ActivationHardmax1) -> Fields | None:
    return {} if operator.axes == (operator.input.rank - 1,) else None


def _axes_of_image(operator: ops.MeanVarianceNormalization1) -> Fields | None:
    fields = {name: operator.attributes[name] for name in ("normalize_variance", "epsilon", "fused_activation")}
    by_channel = {tuple(range(2, operator.input.rank)): False, tuple(range(1, operator.input.rank)): True}
    axes = tuple(sorted(operator.axes))
    return {**fields, "cross_channel": by_channel[axes]} if axes in by_channel else None


def _of_image(operator: ops.MeanVarianceNormalization) -> Fields:
    fields = {name: operator.attributes[name] for name in ("normalize_variance", "epsilon", "fused_activation")}
    return {**fields, "axes": operator.reduced}


def _uses_both(operator: ops.MeanVarianceNormalization1) -> Fields:
    fields = {name: operator.attributes[name] for name in ("axes", "epsilon", "fused_activation")}
    return {**fields, "use_mean": True, "use_variance": operator.normalize_variance}


def _uses_mean(operator: ops.MeanVarianceNormalization2) -> Fields | None:
    fields = {name: operator.attributes[name] for name in ("axes", "epsilon", "fused_activation")}
    return {**fields, "normalize_variance": operator.use_variance} if operator.use_mean else None


def _window(operator: ops.Slice) -> Fields:
    pairs = zip(operator.sizes, operator.strides, strict=True)
    return {
        "input_window_offsets": operator.offsets,
        "input_window_sizes": [(size - 1) * step + 1 for size, step in pairs],
        "input_window_strides": operator.strides,
    }


def _offsets(operator: ops.Slice1) -> Fields | None:
    if any(step < 0 for step in operator.input_window_strides):
        return None
    return {
        "offsets": operator.input_window_offsets,
        "sizes": operator.first_output.sizes,
        "strides": operator.input_window_strides,
    }


VERSIONS = (
    Pair(ops.ActivationSoftmax, ops.ActivationSoftmax1, lambda _: {}, _last_axis),
    Pair(ops.ActivationLogSoftmax, ops.ActivationLogSoftmax1, lambda _: {}, _last_axis),
    Pair(ops.ActivationHardmax, ops.ActivationHardmax1, lambda _: {}, _last_axis),
    Pair(ops.MeanVarianceNormalization, ops.MeanVarianceNormalization1, _of_image, _axes_of_image),
    Pair(ops.MeanVarianceNormalization1, ops.MeanVarianceNormalization2, _uses_both, _uses_mean),
    Pair(ops.Slice, ops.Slice1, _window, _offsets),
    _with(ops.Add, ops.Add1),
    _for_floats(_with(ops.Clip, ops.Clip1)),  # the bounds of integers may be beyond them in the earlier version
    _for_floats(_with(ops.Padding, ops.Padding1)),  # so may be the value of integers
    _with(ops.TopK, ops.TopK1),
    _with(ops.AveragePooling, ops.AveragePooling1, dilations=1),
    _with(ops.LpPooling, ops.LpPooling1, dilations=1),
    _with(ops.MaxPooling, ops.MaxPooling1),
    _with(ops.MaxPooling1, ops.MaxPooling2, dilations=1),
    _with(ops.DepthToSpace, ops.DepthToSpace1),
    _with(ops.SpaceToDepth, ops.SpaceToDepth1),
    _with(ops.GatherNd, ops.GatherNd1),
)


def other_version(site: Site) -> Value:
    """The next version, else the one before: the first that is legal."""
    operator = site.operator
    kind = type(operator)
    converted = [(pair.later, pair.forward) for pair in VERSIONS if pair.earlier is kind]
    converted += [(pair.earlier, pair.backward) for pair in VERSIONS if pair.later is kind]
    if not converted:
        raise NoDetourError("its operator has no other version")
    why = f"no other version has all of its fields at feature level {site.level}"
    for other, fields_of in converted:
        fields = fields_of(operator)
        if fields is None or other.support().introduced > site.level:
            continue
        try:
            return site.instead(other, fields)
        except DmlGraphError as error:
            why = f"{other.name}: {error.problems[0].message}"
    raise NoDetourError(why)
