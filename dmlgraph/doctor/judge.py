"""Judges a node: whether its results are those of its inputs, within the bounds of its operator on a device."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.doctor.bounds import ALLOWED, ULPS, Allowed, differing, moved
from dmlgraph.doctor.sums import FREE_ORDER, LINEAR, magnitudes_of
from dmlgraph.operators.declaration.operator import Operator

Array = np.ndarray[Any, Any]

RUNS = 4  # of the reference on inputs with other last bits
OF_INTEGERS = 32  # where the result is rounded to integers: a half goes up or down, and often up in all of a few

# Operators whose result is one rounding of the exact one on every device, beside those that only move elements.
EXACT: frozenset[type[Operator]] = frozenset(
    (
        ops.Abs, ops.ActivationIdentity, ops.ActivationRelu, ops.Add, ops.BitAnd, ops.BitCount, ops.BitNot,
        ops.BitOr, ops.BitShiftLeft, ops.BitShiftRight, ops.BitXor, ops.Ceil, ops.FillValueConstant, ops.Floor,
        ops.Identity, ops.If, ops.IsInfinity, ops.IsNan, ops.LogicalAnd, ops.LogicalEquals,
        ops.LogicalGreaterThan, ops.LogicalGreaterThanOrEqual, ops.LogicalLessThan, ops.LogicalLessThanOrEqual,
        ops.LogicalNot, ops.LogicalOr, ops.LogicalXor, ops.Max, ops.Min, ops.Multiply, ops.Negate, ops.Sign,
        ops.Subtract,
    )
)  # fmt: skip

# Operators for which a number far below the others is as good as none, such as what a mask takes from scores.
MASKED = (ops.ActivationSoftmax, ops.ActivationSoftmax1)
CANCELLING = 1e-5  # an operator with a larger bound cancels digits, and the more so the larger the numbers are
SQUARES = 1e15  # float32 numbers whose squares, and sums of these, do not overflow


@dataclasses.dataclass(frozen=True, slots=True)
class Judge:
    """The bounds of a device's results.

    Attributes:
        device: its name.
    """

    device: str

    @property
    def family(self) -> str:
        """Whose bounds hold."""
        return "directml:software" if self.device.startswith("directml") else self.device

    def bounds(self, operator: Operator) -> tuple[int, float]:
        """By how many units in the last place an operator's results may differ, and `Allowed.near` of float32 ones."""
        if is_exact(operator):
            return 0, 0.0
        activation = operator.attributes.get("fused_activation")
        kinds = [type(operator), *([activation.operator] if activation is not None else [])]
        near = max(ALLOWED.get(self.family, {}).get(kind, Allowed()).near for kind in kinds)
        return ULPS.get(self.family, 0), near

    def wrong(
        self, operator: Operator, inputs: Sequence[Array | None], got: Sequence[Array], expected: Sequence[Array]
    ) -> bool:
        """Whether a result is not one of the inputs.

        Args:
            operator: of the node.
            inputs: by port, None for those that are left out.
            got: the outputs on the device.
            expected: those of the reference, or of another device, for the same inputs.
        """
        exact = is_exact(operator)
        allowed = ALLOWED.get(self.family, {}).get(type(operator), Allowed())
        is_linear = type(operator) in LINEAR
        if not exact and not is_linear and _is_beyond(operator, inputs, allowed):
            return False
        units, near = self.bounds(operator)
        if not any(self._off(each, [right], units, near).any() for each, right in zip(got, expected, strict=True)):
            return False  # of most nodes nothing more has to be computed
        magnitudes = magnitudes_of(operator, inputs)
        free = _overflowing(magnitudes, got) if is_linear else _kept_nans(operator, inputs, got)
        slack: Sequence[Array | float] = [FREE_ORDER * each for each in magnitudes] or [0.0] * len(got)

        def off(runs: Sequence[Sequence[Array]]) -> bool:
            rows = zip(slack, got, *runs, strict=True)
            found = (self._off(each, right, units, near, more) for more, each, *right in rows)
            return any(bool((each & ~any_result).any()) for each, any_result in zip(found, free, strict=True))

        if not off([expected]):
            return False
        counts = (RUNS,) if all(each.dtype.kind == "f" for each in got) else (RUNS, OF_INTEGERS)
        return exact or all(off([expected, *_runs(operator, inputs, count)]) for count in counts)

    def is_near(self, got: Array, runs: Sequence[Array], through: Iterable[Operator] = ()) -> bool:
        """Whether an array is as near to some results as those of a single node may be.

        `through`: the operators that computed it, where one may be less exact than most.
        """
        near = max((self.bounds(each)[1] for each in through), default=0.0)
        return not self._off(got, runs, ULPS.get(self.family, 0), near).any()

    def _off(
        self, got: Array, runs: Sequence[Array], units: int, near: float, slack: Array | float = 0.0
    ) -> Array:
        """The elements that are too far from those of some runs."""
        if len(runs) == 1 and got.dtype.kind != "f":
            return np.asarray(got != runs[0])
        with np.errstate(all="ignore"):
            off = differing(got, runs, units, near, slack)
            if got.dtype.kind == "f" and off.any():  # devices may flush what is below the normal numbers
                tiny = float(np.finfo(got.dtype).tiny)
                small = (np.abs(got.astype(np.float64)) <= tiny) & (np.abs(runs[0].astype(np.float64)) <= tiny)
                off &= ~small
        return off


def is_exact(operator: Operator) -> bool:
    """Whether every device gives the same bits, except for numbers below the normal ones."""
    if operator.attributes.get("scale_bias") is not None or _is_fused(operator):
        return False
    return operator.only_moves or type(operator) in EXACT


def _is_fused(operator: Operator) -> bool:
    return operator.attributes.get("fused_activation") is not None


def _kept_nans(operator: Operator, inputs: Sequence[Array | None], got: Sequence[Array]) -> list[Array | bool]:
    """By output, where a NaN is of what a fused activation was given: DirectML's RELU keeps it, or makes it of −∞."""
    if not _is_fused(operator):
        return [False] * len(got)
    with np.errstate(all="ignore"):
        before = operator.replace(fused_activation=None).evaluate(*inputs)
    return [~(each > -np.inf) & np.isnan(now) for each, now in zip(before, got, strict=True)]


def _overflowing(magnitudes: Sequence[Array], got: Sequence[Array]) -> list[Array | bool]:
    """By output, where a sum of products may overflow or is not finite, on the way too: any result is allowed there."""
    pairs = zip(magnitudes, got, strict=True)
    return [~(each <= np.finfo(of.dtype).max / 2) if of.dtype.kind == "f" else False for each, of in pairs]


def _is_finite(arrays: Sequence[Array | None]) -> bool:
    return all(each is None or each.dtype.kind != "f" or bool(np.isfinite(each).all()) for each in arrays)


def _runs(operator: Operator, inputs: Sequence[Array | None], count: int) -> Iterator[tuple[Array, ...]]:
    """Results of the reference on inputs with other last bits."""
    named = {str(port): each for port, each in enumerate(inputs) if each is not None}
    for seed in range(count):
        near = moved(named, seed)
        with np.errstate(all="ignore"):
            yield operator.evaluate(*(near.get(str(port)) for port in range(len(inputs))))


def _is_beyond(operator: Operator, inputs: Sequence[Array | None], allowed: Allowed) -> bool:
    """Whether an operator reads numbers for which any result is allowed."""
    numbers = [each for each in inputs if each is not None and each.dtype.kind == "f"]
    numbers += _scaled(operator, numbers)
    beyond = allowed.beyond
    if allowed.near <= CANCELLING and all(each.dtype != np.float16 for each in numbers):
        beyond = max(beyond, SQUARES)
    for array in numbers:
        finite = np.isfinite(array)
        if allowed.special and not finite.all():
            return True
        found = array[finite].astype(np.float64)
        if np.isfinite(beyond) and ((found if isinstance(operator, MASKED) else np.abs(found)) > beyond).any():
            return True
    return (allowed.special or operator.finite_only) and not _is_finite(numbers)


def _scaled(operator: Operator, numbers: Sequence[Array]) -> list[Array]:
    """What an operator computes with in place of the numbers that it reads: NaN where its scale is NaN."""
    affine = operator.attributes.get("scale_bias")
    if affine is None:
        return []
    with np.errstate(all="ignore"):
        return [(each.astype(np.float64) * affine.scale + affine.bias).astype(each.dtype) for each in numbers]
