"""A job survives the death of its workers and of its scheduler; the campaign `many_machines` is the long form."""

from __future__ import annotations

import pathlib
import random
import sys

import pytest

pytest.importorskip("distributed.client")

from support.distributed_killing import digits, survive


@pytest.mark.skipif(sys.platform == "win32", reason="other systems have the signal that kills at once")
def test_workers_and_the_scheduler_may_be_killed(tmp_path: pathlib.Path) -> None:
    choose = random.Random(0)
    survive(digits(tmp_path, 200, choose), workers=2, choose=choose, kills=1)
