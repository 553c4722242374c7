"""Runs with states from four threads while calls of Direct3D fail at random, or lose the device: 1000 runs a case."""

from __future__ import annotations

from support.failing_runs import Work, fail_while_threads_run, objects

from campaigns.campaign import Campaign

RUNS = 250  # of each thread


def one_case(seed: int) -> str | None:
    Work().close()
    before = objects()
    failed = fail_while_threads_run(seed, RUNS, removes_device=bool(seed % 2))
    Work().close()
    if not failed:
        return "no call failed"
    left = objects()
    return None if left == before else f"objects stay: {set(left) ^ set(before)}"


CAMPAIGN = Campaign(
    "failures", "runs with states while calls of Direct3D fail: right values, and nothing stays", one_case
)
