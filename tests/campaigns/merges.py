"""Two or three operators in a row, in every combination of tests/support/merge_cases.py: DirectML merges some of them.

The combinations are numbered; a seed stands for SHARE of them, far apart from each other, so that a short run tries
some of every producer and consumer, and every seed tries others.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from support.merge_cases import CASES, STRIDE, Case, build, case_of, differs

from campaigns.campaign import Campaign
from campaigns.windows import one_by_one
from dmlgraph.base.errors import OperatorError
from dmlgraph.devices import choose
from dmlgraph.devices.compile import lower_graph
from dmlgraph.devices.directml.errors import DirectMLError

SHARE = 8  # combinations in a case


def numbered(seed: int) -> Iterator[Case]:
    """The combinations of a seed: no two seeds below CASES / SHARE have one in common."""
    return (case_of((seed * SHARE + index) * STRIDE % CASES) for index in range(SHARE))


def one_case(seed: int) -> str | None:
    return "\n".join(filter(None, map(problem, numbered(seed)))) or None


def problem(case: Case) -> str | None:
    """What is wrong with a combination, fused or not."""
    made = build(case)
    if made is None:
        return None
    device = choose("directml:software").device
    for fuse in (False, True):
        try:
            desc = lower_graph(made.graph, device, fuse=fuse)[1]
        except OperatorError:
            return None  # of a higher level
        how = f"{case}, {'fused' if fuse else 'not fused'}"
        try:
            with device.compile(desc, reason="asked for") as executable:
                got = executable.run(made.inputs)
        except DirectMLError as error:
            return f"{how}: {error}"
        with np.errstate(all="ignore"):
            expected = choose("reference").device.compile(desc, reason="asked for").run(made.inputs)
        wrong = [name for name in got if differs(got[name], expected[name])]
        if wrong:  # an operator of DirectML may differ by itself
            expected = one_by_one(desc, made.inputs)
            wrong = [name for name in wrong if differs(got[name], expected[name])]
        if wrong:
            return f"{how}: wrong {', '.join(wrong)}"
    return None


CAMPAIGN = Campaign("merges", "operators that DirectML may merge on directml:software: as the reference", one_case)
