"""Views and their readers on every device: fused or not, they compute what NumPy does."""

from __future__ import annotations

from support.passes.perturbed import approximated, is_finite
from support.random_graphs import LEVELS, graph_of

from campaigns import windows
from campaigns.campaign import Campaign
from campaigns.windows import DIRECTML_LEVEL, ULP, assert_close


def one_case(seed: int) -> None:
    level = LEVELS[seed % len(LEVELS)] or DIRECTML_LEVEL
    sample = graph_of(seed, "views", level)
    if is_finite(sample.graph, sample.inputs):
        runs = approximated(sample.graph, sample.inputs, ULP)
        for device in ("reference", "cpu"):
            for fuse in (False, True):
                outputs = sample.graph.compile(device, fuse=fuse).run(sample.inputs)
                assert_close(outputs, runs, sample, f"{device}, fuse={fuse}")
    windows.agrees(sample)


CAMPAIGN = Campaign("views", "views and their readers on reference, cpu and directml:software: as NumPy", one_case)
