"""Measures which operators DirectML merges into others, and where the result is wrong, on the software adapter.

    python tools/measure_merges.py                        # every producer before every consumer of one value: minutes
    python tools/measure_merges.py --producers "gemm,sin" # of these, also consumers of two values, with each other term
    python tools/measure_merges.py --activations "none,fused relu" --sizes 2,3,4,6 --dtype float16

The combinations are those of tests/support/merge_cases.py, without the workarounds of dmlgraph/devices/directml/faults.
It prints each one that is refused or gives other values than its operators one by one, and at the end the pairs that
take fewer dispatches than their operators do by themselves.  What was found is in docs/measured.md.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import sys
from collections.abc import Iterator

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))

import numpy as np
from campaigns.windows import one_by_one
from support.merge_cases import HOSTS, OF_TWO, PAIRS, PRODUCERS, UNARY_CONSUMERS, Case, Made, build, differs

from dmlgraph.base.errors import OperatorError
from dmlgraph.compiler.desc import GraphDesc, OperatorDescNode
from dmlgraph.devices.compile import lower_graph
from dmlgraph.devices.directml.device import DirectMLDevice, DirectMLExecutable, ExecutionFlag
from dmlgraph.devices.directml.errors import DirectMLError
from dmlgraph.devices.directml.refusal import Wiring, part_of
from dmlgraph.devices.reference import ReferenceDevice
from dmlgraph.operators import FillValueSequence, Operator


def chosen(given: argparse.Namespace) -> Iterator[Case]:
    """The combinations to measure."""
    producers = [each for each in given.producers.split(",") if each]
    sizes = tuple(map(int, given.sizes.split(",")))
    for producer in producers or PRODUCERS:
        for activation in given.activations.split(","):
            if "fused" in activation and producer not in HOSTS:
                continue
            for consumer in (*UNARY_CONSUMERS, *(OF_TWO if producers else ())):
                for order, other in PAIRS if consumer in OF_TWO else [("", "")]:
                    yield Case(producer, activation, consumer, order, other, "only", "nothing", sizes, given.dtype)


class Bench:
    """DirectML without the workarounds."""

    def __init__(self) -> None:
        self._device, self._reference = DirectMLDevice("software"), ReferenceDevice()
        self._single: dict[Operator, int] = {}

    def measure(self, made: Made) -> tuple[str, int]:
        """What DirectML does ("right", "wrong", "refused", "not legal"), and how many dispatches it saves."""
        try:
            desc = lower_graph(made.graph, self._device, fuse=False)[1]
        except OperatorError:
            return "not legal", 0
        try:
            with self._compiled(desc) as executable:
                got, count = executable.run(made.inputs), int(executable.stats["dispatches"])
        except DirectMLError as error:
            if error.call != "CompileGraph":
                raise
            return "refused", 0
        with np.errstate(all="ignore"):
            expected = self._reference.compile(desc, reason="asked for").run(made.inputs)
        if any(differs(got[name], expected[name]) for name in got):
            expected = one_by_one(desc, made.inputs)
        is_wrong = any(differs(got[name], expected[name]) for name in got)
        return "wrong" if is_wrong else "right", self._saved(desc, count)

    def _saved(self, desc: GraphDesc, count: int) -> int:
        """How many more dispatches the operators take by themselves."""
        wiring = Wiring(desc)
        singles = 0
        for index, node in enumerate(desc.nodes):
            if isinstance(node, OperatorDescNode) and not isinstance(node.operator, FillValueSequence):
                part = part_of(desc, [index], wiring)
                if node.operator not in self._single:
                    zeros = {each.name: np.zeros(each.desc.sizes, each.desc.dtype.numpy) for each in part.inputs}
                    with self._compiled(part) as executable:
                        executable.run(zeros)
                        self._single[node.operator] = int(executable.stats["dispatches"])
                singles += self._single[node.operator]
        return singles - count

    def _compiled(self, desc: GraphDesc) -> DirectMLExecutable:
        device = self._device
        return DirectMLExecutable(desc, device.name, "asked for", device._open_to_run(), ExecutionFlag.NONE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--producers", default="", help="names, separated by commas; all by default")
    parser.add_argument("--activations", default="none,fused relu,fused sigmoid", help="of producers that have them")
    parser.add_argument("--sizes", default="1,1,4,4", help="of every value (1,1,4,4)")
    parser.add_argument("--dtype", default="float32")
    given = parser.parse_args()
    bench, found = Bench(), collections.Counter[str]()
    merged: dict[str, list[str]] = collections.defaultdict(list)
    for case in chosen(given):
        made = build(case)
        what, saved = bench.measure(made) if made else ("not legal", 0)
        found[what] += 1
        if what in ("wrong", "refused"):
            print(what, *case[:5])
        if saved > 0:
            merged[case.consumer].append(f"{case.producer} ({case.activation})")
    for consumer, producers in merged.items():
        print(
            f"fewer dispatches: '{consumer}' of {len(set(producers))} producers: {', '.join(dict.fromkeys(producers))}"
        )
    print(dict(found))


if __name__ == "__main__":
    main()
