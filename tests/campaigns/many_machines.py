"""Jobs of thousands of chunks whose workers are killed at random, and whose scheduler is killed once.

A case has some chunks; `DMLGRAPH_CHUNKS=10000 python tests/campaigns many_machines --cases 1` has ten thousand
on four workers.
"""

from __future__ import annotations

import os
import pathlib
import random
import sys
import tempfile

from campaigns.campaign import Campaign

CHUNKS = int(os.environ.get("DMLGRAPH_CHUNKS", "80"))


def one_case(seed: int) -> None:
    if sys.platform == "win32":
        return
    from support.distributed_killing import digits, photos, survive

    choose = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="many-machines-") as folder:
        job = (digits, photos)[seed % 2](pathlib.Path(folder), CHUNKS, choose)
        workers, kills = (4, CHUNKS // 500) if CHUNKS >= 1000 else (2, choose.randint(1, 3))
        survive(job, workers, choose, kills)


CAMPAIGN = Campaign(
    "many_machines", "jobs whose workers and scheduler are killed: every result once", one_case, hang_seconds=7200
)
