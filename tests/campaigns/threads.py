"""Several threads that use the same executables at once: run, bind, profile, compile, stats and close, at random.

Each result is compared with that of a single thread; the error of a closed executable is right, too.
"""

from __future__ import annotations

import functools
import random
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from support.random_graphs import graph_of
from support.sketches import Sample

import dmlgraph as dg
from campaigns.campaign import Campaign
from dmlgraph.devices.directml.errors import DirectMLError
from dmlgraph.devices.executable import Executable
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]

ACTIONS = 12  # of each thread


class Scene:
    """What the threads share: a graph, two sets of inputs with their results, and executables."""

    def __init__(self, sample: Sample, device: DeviceName, rng: random.Random) -> None:
        self.graph, self.device = sample.graph, device
        self.inputs = [sample.inputs, {name: _permuted(array, rng) for name, array in sample.inputs.items()}]
        with self.compile() as alone:
            self.expected = [alone.run(each) for each in self.inputs]
        self.executables = [self.compile() for _ in range(2)]
        self.has_owned = any(slot.desc.owned and slot.elements is None for slot in self.executables[0].graph.inputs)

    def compile(self) -> Executable:
        return self.graph.compile(self.device)

    def check(self, which: int, results: Mapping[str, Array]) -> None:
        for name, array in self.expected[which].items():
            if not np.array_equal(results[name].view(np.uint8), array.view(np.uint8)):
                assert results[name].shape == array.shape, name
                np.testing.assert_array_equal(results[name], array, err_msg=name)


def _permuted(array: Array, rng: random.Random) -> Array:
    """The same numbers in another order."""
    order = list(range(array.size))
    rng.shuffle(order)
    return array.reshape(-1)[order].reshape(array.shape)


# Actions of a thread.


def run(scene: Scene, executable: Executable, rng: random.Random) -> None:
    which = rng.randrange(2)
    scene.check(which, executable.run(scene.inputs[which]))


def run_into(scene: Scene, executable: Executable, rng: random.Random) -> None:
    which = rng.randrange(2)
    out = {name: np.empty_like(array) for name, array in scene.expected[which].items() if rng.random() < 0.7}
    results = executable.run(scene.inputs[which], out)
    scene.check(which, results)
    assert all(results[name] is array for name, array in out.items())


def bind(scene: Scene, executable: Executable, rng: random.Random) -> None:
    which = rng.randrange(2)
    again = executable.bind(scene.inputs[which])
    for _ in range(rng.randint(1, 3)):
        scene.check(which, again())


def profile(scene: Scene, executable: Executable, rng: random.Random) -> None:
    steps = executable.profile(scene.inputs[rng.randrange(2)])
    if steps is not None:
        again = executable.profile(scene.inputs[0])
        assert again is not None
        assert [each.nodes for each in steps] == [each.nodes for each in again]
        assert all(each.seconds >= 0 for each in steps)


def compile_another(scene: Scene, _: Executable, rng: random.Random) -> None:
    with scene.compile() as made:
        run(scene, made, rng)


def look(_: Scene, executable: Executable, __: random.Random) -> None:
    assert executable.stats
    assert dict(executable.stats)


def replace(scene: Scene, executable: Executable, rng: random.Random) -> None:
    """Closes an executable that others are using, and replaces it with a new one."""
    executable.close()
    scene.executables[rng.randrange(2)] = scene.compile()


Action = Callable[[Scene, Executable, random.Random], None]
FREQUENT: Sequence[Action] = (run, run_into, bind, profile, look)
RARE: Sequence[Action] = (compile_another, replace)


def act(scene: Scene, seed: int, begin: threading.Barrier, problems: list[BaseException]) -> None:
    rng = random.Random(seed)
    try:
        begin.wait()
        for _ in range(ACTIONS):
            action = rng.choice(FREQUENT if rng.random() < 0.8 else RARE)
            try:
                action(scene, rng.choice(scene.executables), rng)
            except dg.DeviceError as error:
                if "closed" not in str(error):
                    raise
    except BaseException as error:
        problems.append(error)


@functools.cache
def devices() -> Sequence[DeviceName]:
    """The devices of this machine."""
    found: list[DeviceName] = ["cpu", "reference"]
    try:
        _tiny().compile("directml:software")
        found.append("directml:software")
    except dg.DmlGraphError:
        pass
    return found


def _tiny() -> dg.Graph:
    graph = dg.Graph("tiny")
    graph.output("y", dg.identity(graph.input("x", sizes=[1], dtype="float32")))
    return graph


def one_case(seed: int) -> None:
    rng = random.Random(seed)
    interval = sys.getswitchinterval()
    try:
        device = rng.choice(devices())
        scene = Scene(graph_of(seed, level="6.2" if device == "directml:software" else None), device, rng)
    except DirectMLError:
        return  # other campaigns test what DirectML refuses
    count = rng.randint(2, 6)
    begin = threading.Barrier(count)
    problems: list[BaseException] = []
    threads = [
        threading.Thread(target=act, args=(scene, rng.getrandbits(32), begin, problems), daemon=True)
        for _ in range(count - 1)
    ]
    sys.setswitchinterval(rng.choice([1e-6, 1e-4, interval]))
    try:
        for thread in threads:
            thread.start()
        act(scene, rng.getrandbits(32), begin, problems)
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    if problems:
        raise problems[0]


CAMPAIGN = Campaign("threads", "several threads at the same executables", one_case, hang_seconds=300)
