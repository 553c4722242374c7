"""Single operators of every family on special values and sizes of 1: cpu and DirectML give what the reference gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from passes.perturbed import hull, ulp
from sketches import Array, Sample
from special_operators import case

from campaigns.campaign import Campaign
from dmlgraph.devices import directml_install

RUNS = 6
# Units in the last place that a device may be off, beside what the inputs' last bits make of the result.
ULPS = {"cpu": 16, "directml:software": 64}


# Comparing.


def moved(inputs: dict[str, Array], seed: int) -> dict[str, Array]:
    """The inputs with the last bits of their finite numbers changed; zeros stay."""
    rng = np.random.default_rng(seed)

    def one(array: Array) -> Array:
        if array.dtype.kind != "f":
            return array
        with np.errstate(all="ignore"):
            steps = (rng.integers(-1, 1, array.shape, endpoint=True) * np.spacing(array)).astype(array.dtype)
            near = array + steps
        return np.where(np.isfinite(near) & (array != 0), near, array)

    return {name: one(array) for name, array in inputs.items()}


def differing(got: Array, runs: Sequence[Array], units: int) -> Array:
    """Where a result is not among those of the reference on inputs as good as the same.

    Where these do not agree on whether it is finite, infinite or NaN, it may be anything.
    """
    low, high, spread = hull(runs)
    if got.dtype.kind != "f":
        return np.asarray(np.abs(got.astype(object) - runs[0].astype(object)) > spread)
    finite = np.isfinite(runs)
    settled = ~(finite.any(0) & ~finite.all(0)) & ~(np.isnan(runs).any(0) & ~np.isnan(runs).all(0))
    with np.errstate(invalid="ignore"):
        margin = 2 * spread + units * ulp(np.fmax(np.abs(low), np.abs(high)), got.dtype)
        near = np.where(finite.all(0), (got >= low - margin) & (got <= high + margin), got == runs[0])
    return np.asarray(settled & ~near & ~(np.isnan(got) & np.isnan(runs[0])))


def compare(sample: Sample) -> Iterator[tuple[str, str]]:
    """Devices that give something else, and what it is."""
    graph = sample.graph
    reference = graph.compile("reference", fuse=False)
    runs = [reference.run(sample.inputs), *(reference.run(moved(sample.inputs, seed)) for seed in range(RUNS))]
    runs = [{name: array.copy() for name, array in each.items()} for each in runs]
    for device, units in ULPS.items():
        results = graph.compile(device, fuse=False).run(sample.inputs)
        for name, got in results.items():
            wrong = differing(got, [each[name] for each in runs], units)
            if wrong.any():
                where = tuple(map(int, np.argwhere(wrong)[0]))
                expected = runs[0][name][where]
                yield device, f"output '{name}' is {got[where]!r} at {where}, not {expected!r}"


def one_case(seed: int) -> str | None:
    sample = case(seed)
    if sample is None:
        return None
    directml_install.install()
    with np.errstate(all="ignore"):
        problems = [text for device, text in compare(sample) if True]
    return f"{'; '.join(problems)}\n{sample!r}\n{sample.inputs!r}" if problems else None


CAMPAIGN = Campaign("special_values", "single operators on NaN, infinities, extremes and sizes of 1", one_case)
