"""Campaigns find every kind of failure: a case that fails, raises, ends its process or hangs."""

from __future__ import annotations

import os
import pathlib
import time

import pytest

from campaigns.campaign import MOST_FAILURES, Campaign, Limit, Report, known, run

ALL = Limit(seconds=600, cases=6)


def fails_at_three(seed: int) -> str | None:
    return "three" if seed == 3 else None


def raises_at_three(seed: int) -> None:
    assert seed != 3, "this is three"


def dies_at_three(seed: int) -> None:
    if seed == 3:
        os._exit(7)


def hangs_at_three(seed: int) -> None:
    if seed == 3:
        time.sleep(3600)


def always_fails(seed: int) -> str:
    return str(seed)


def cases(one_case, *, hang_seconds: float = 300, limit: Limit = ALL, here: bool = False) -> Report:
    return run(Campaign("planted", "", one_case, hang_seconds), 0, limit, here=here, quiet=True)


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize(("one_case", "words"), [(fails_at_three, "three"), (raises_at_three, "this is three")])
def test_a_failure_is_told_and_the_next_cases_follow(one_case, words: str, here: bool):
    report = cases(one_case, here=here)
    assert report.cases == 6
    assert list(report.failures) == [3]
    assert words in report.failures[3]


def test_a_case_that_ends_its_process():
    report = cases(dies_at_three)
    assert (report.cases, report.failures) == (6, {3: "ended the process with status 7"})


def test_a_case_that_hangs():
    report = cases(hangs_at_three, hang_seconds=20, limit=Limit(600, 5))
    assert report.cases == 5
    assert list(report.failures) == [3]
    assert "hangs" in report.failures[3]


def test_a_campaign_ends_after_many_failures():
    assert len(cases(always_fails, limit=Limit(600, 1000), here=True).failures) == MOST_FAILURES


def test_every_campaign_is_known():
    """`.ci/run` tries each of them for some seconds."""
    names = {path.stem for path in pathlib.Path(__file__).parent.glob("*.py")}
    assert set(known()) == names - {"__init__", "__main__", "campaign", "test_campaign"}
    assert all(each.summary for each in known().values())
