"""What can be laid over a picture: times, values, differences, and what fusion made of each node.

picture.save(graph, "times.svg", over=sources.times(executable.profile(inputs)))
picture.save(graph, "values.html", over=sources.values({"hidden": hidden, "y": y}))
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.base.tables import show_seconds
from dmlgraph.picture.overlay import Mark, Overlay

if TYPE_CHECKING:
    from dmlgraph.compiler.pipeline import Fused
    from dmlgraph.devices.executable import Step
    from dmlgraph.measure.ulp import Comparison

    Array = np.ndarray[Any, Any]

MOST_ULP = 24  # binary digits of a difference at the end of the scale; float32 has as many


def times(steps: Iterable[Step], origins: Mapping[str, Sequence[str]] | None = None) -> Overlay:
    """How long each node takes.

    Args:
        steps: of `Executable.profile`, or of a measurement.  Of nodes that run together, the last has their time.
        origins: of the graph that ran: node → the nodes of the source graph that it was fused from, so that the
            picture may show either graph.
    """
    steps, origins = list(steps), origins or {}
    total = sum(step.seconds for step in steps) or 1.0
    marks: dict[str, Mark] = {}
    for step in steps:
        *others, last = step.nodes
        sources = [name for node in step.nodes for name in origins.get(node, ()) if name not in step.nodes]
        marks |= {name: Mark(f"runs with {last}") for name in (*sources, *others)}
        marks[last] = _time(step.seconds, total)
    longest = max((mark.number for mark in marks.values() if mark.number is not None), default=0.0)

    def joined(inside: Sequence[Mark]) -> Mark:
        return _time(sum(mark.number or 0.0 for mark in inside), total)

    return Overlay("time", marks, (0.0, longest), ("0", show_seconds(longest), ""), joined)


def _time(seconds: float, total: float) -> Mark:
    return Mark(f"{show_seconds(seconds)}, {seconds / total:.1%}", seconds)


def values(arrays: Mapping[str, Array] | Iterable[tuple[str, Array]]) -> Overlay:
    """The range of what each node computes, coloured by the largest magnitude; NaN and infinity are alarms.

    Args:
        arrays: by node; a node may have several.
    """
    marks: dict[str, Mark] = {}
    for name, array in arrays.items() if isinstance(arrays, Mapping) else arrays:
        mark = _range(array)
        marks[name] = _wider([marks[name], mark]) if name in marks else mark
    numbers = [mark.number for mark in marks.values() if mark.number is not None]
    low, high = min(numbers, default=0.0), max(numbers, default=0.0)
    labels = (f"up to {_power(low)}", f"up to {_power(high)}", "NaN or infinity")
    return Overlay("values", marks, (low, high), labels, _wider)


def _range(array: Array) -> Mark:
    """The least and the greatest number; the number of the mark is the decimal logarithm of the magnitude."""
    numbers = np.asarray(array, np.float64)
    finite = numbers[np.isfinite(numbers)]
    wrong = [f"{count:,} {what}" for what, count in (("NaN", np.isnan(numbers).sum()), ("∞", np.isinf(numbers).sum()))
             if count]  # fmt: skip
    if not finite.size:
        return Mark(", ".join(wrong) or "empty", None, alarm=bool(wrong))
    low, high = float(finite.min()), float(finite.max())
    greatest = max(abs(low), abs(high))
    number = math.log10(greatest) if greatest else None
    return Mark(", ".join([f"{low:.3g} … {high:.3g}", *wrong]), number, alarm=bool(wrong))


def _wider(marks: Sequence[Mark]) -> Mark:
    """The mark with an alarm, else that of the largest magnitude."""
    return max(marks, key=lambda mark: (mark.alarm, -math.inf if mark.number is None else mark.number))


def _power(number: float) -> str:
    return f"{10**number:.2g}"


def differences(compared: Mapping[str, Comparison] | Iterable[tuple[str, Comparison]]) -> Overlay:
    """How far what each node computes is apart on two devices; a NaN against a number is an alarm.

    Args:
        compared: by node, as `dmlgraph.measure.ulp.compare` gives it; a node may have several.
    """
    marks: dict[str, Mark] = {}
    for name, comparison in compared.items() if isinstance(compared, Mapping) else compared:
        mark = _difference(comparison)
        marks[name] = _wider([marks[name], mark]) if name in marks else mark
    return Overlay("difference", marks, (0.0, float(MOST_ULP)), ("equal", "2^24 ULP", "NaN against a number"), _wider)


def _difference(comparison: Comparison) -> Mark:
    if comparison.equal:
        return Mark("equal", 0.0)
    if comparison.ulp is None:
        return Mark("NaN against a number", None, alarm=True)
    share = f"{comparison.differing:,} of {comparison.elements:,}"
    return Mark(f"{comparison.ulp:,} ULP, {share}", 4 + math.log2(comparison.ulp + 1))


def fusion(fused: Fused) -> Overlay:
    """What fusion made of each node, in the picture of either graph; nothing of a node that stayed as it was."""
    kept = {node.name for node in fused.graph.nodes}
    more = {name: len({*origins} - {name}) for name, origins in fused.origins.items()}
    marks = {name: Mark(f"with {count} more", float(count)) for name, count in more.items() if count}
    for name, origins in fused.origins.items():
        marks |= {origin: Mark(f"→ {name}", float(more[name])) for origin in origins if origin not in kept}
    removed = {name for entry in fused.record if entry.applied for name in entry.removed}
    marks |= {name: Mark("is gone", 1.0) for name in removed - kept - set(marks)}
    most = max(more.values(), default=0)

    def joined(inside: Sequence[Mark]) -> Mark:
        return Mark(f"{len(inside)} fused", max(mark.number or 0.0 for mark in inside))

    return Overlay("fused", marks, (1.0, float(most)), ("with 1 more", f"with {most} more", ""), joined)
