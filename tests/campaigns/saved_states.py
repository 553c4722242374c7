"""Processes that are killed while they save a set of states again and again: the old file is left, or the new one.

A process that has imported everything is forked for every kill, so that a case takes milliseconds.  50 cases are 200
kills.
"""

from __future__ import annotations

import os
import pathlib
import random
import signal
import tempfile
import time
from typing import NoReturn

import numpy as np

import dmlgraph as dg
from campaigns.campaign import Campaign
from dmlgraph.devices.states import States

KILLS = 4  # of a case
ROWS, COLUMNS = 400, 500  # so that a file takes several writes
LATEST_KILL = 0.05  # seconds after the first save: several saves


def new_states() -> States:
    """A set with a growing state and one that is updated whole."""
    g = dg.Graph("victim")
    rows = g.state("rows", sizes=[ROWS, COLUMNS], dtype="float32", grows=0)
    whole = g.state("whole", sizes=[ROWS, COLUMNS], dtype="int32")
    g.update(whole, whole)
    g.output("rows", dg.identity(rows))
    return g.compile("reference").new_states()


def fill(states: States, version: int) -> None:
    """Makes the states hold what only this version holds."""
    states["rows"] = np.full((1 + version % ROWS, COLUMNS), version, np.float32)
    states["whole"] = np.full((ROWS, COLUMNS), version, np.int32)


def version_in(path: pathlib.Path) -> int:
    """The version whose states a file holds: all of them."""
    states = new_states()
    states.load(path)
    version = int(states["whole"][0, 0])
    assert (states["whole"] == version).all(), "half a file"
    assert states["rows"].shape == (1 + version % ROWS, COLUMNS), "states of two versions"
    assert (states["rows"] == version).all(), "states of two versions"
    return version


def save_for_ever(path: pathlib.Path, first: int, told: int) -> NoReturn:
    """Saves one version after another, and tells each that is saved."""
    states = new_states()
    for version in range(first, first + 1_000_000):
        fill(states, version)
        states.save(path)
        os.write(told, version.to_bytes(4, "little"))
    os._exit(1)


def killed_save(path: pathlib.Path, first: int, moment: float) -> None:
    """Kills a process while it saves, and checks the file that is left: the last one told, or the one after it."""
    heard, told = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            save_for_ever(path, first, told)
        finally:
            os._exit(1)  # whatever happens: what was forked must not go on in its place
    os.close(told)
    try:
        said = os.read(heard, 4)
        time.sleep(moment)
        os.kill(process, signal.SIGKILL)
        status = os.waitpid(process, 0)[1]
        assert os.WIFSIGNALED(status), f"it ended by itself with status {status}"
        while more := os.read(heard, 1 << 16):
            said += more
    finally:
        os.close(heard)
    last = int.from_bytes(said[-4:], "little")
    assert version_in(path) in (last, last + 1)
    others = [each for each in path.parent.iterdir() if each != path]
    assert all(each.name.startswith(".dmlgraph-") for each in others), others


def one_case(seed: int) -> None:
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="states-") as folder:
        path = pathlib.Path(folder, "states.safetensors")
        for kill in range(KILLS):
            killed_save(path, 1 + 1000 * kill, dice.uniform(0, LATEST_KILL))
        states = new_states()
        fill(states, 7)
        states.save(path)
        assert version_in(path) == 7


CAMPAIGN = Campaign("saved_states", "processes that are killed while they save states", one_case, hang_seconds=300)
