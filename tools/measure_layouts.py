"""Measures which layouts of tensors DirectML takes, operator by operator, on the software adapter.

    python tools/measure_layouts.py                       # one data type for each operator: minutes
    python tools/measure_layouts.py --every-type          # all data types: an hour
    python tools/measure_layouts.py --large               # tensors of up to 8 dimensions, and of thousands of elements
    python tools/measure_layouts.py --operators gemm,roi_pooling --out layouts.jsonl

It prints every trial whose outcome is not "right", and a summary.  The trials (tests/support/layout_trials.py) run
in a child process; if a trial ends it or takes too long, that is its outcome, and the next trials run in a new process.
One outcome is "wrong" by rounding only: MEAN_VARIANCE_NORMALIZATION1 of equal numbers divides a rounding error by
√epsilon.  What was found is in dmlgraph/devices/directml/layouts.py and docs/measured.md.
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import pathlib
import sys
from multiprocessing.connection import Connection
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))

from support.layout_instances import Instance, instances, large_instances
from support.layout_trials import Trial, outcome, trials

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType
from dmlgraph.devices.directml.device import DirectMLDevice

SECONDS = 60.0  # for one trial


def chosen(names: set[str], *, every_type: bool, large: bool) -> list[Instance]:
    """The instances to try: of each operator and set of tensors those of its first data type, or all."""
    source = large_instances if large else instances
    found = [each for each in source(FeatureLevel.V6_2) if not names or each.operator.name in names]
    if every_type or large:
        return found
    order = list(map(str, DataType))
    first: dict[Any, Instance] = {}
    for each in sorted(found, key=lambda each: order.index(each.dtype)):
        first.setdefault((each.operator.name, tuple(tensor.path for tensor in each.tensors())), each)
    return list(first.values())


def work(connection: Connection, tried: list[Instance], skipped: int) -> None:
    """Runs in the child: sends the outcome of each trial after the first `skipped` ones."""
    device = DirectMLDevice("software")
    for index, trial in enumerate(trial for instance in tried for trial in trials(instance)):
        if index >= skipped:
            connection.send((row(trial), outcome(device, trial)))
    connection.send(None)


def row(trial: Trial) -> dict[str, Any]:
    return {
        "operator": trial.instance.operator.name,
        "dtype": trial.instance.dtype,
        "path": trial.path,
        "layout": trial.layout,
        "place": trial.place,
        "desc": str(trial.desc),
    }


def measure(tried: list[Instance]) -> list[tuple[dict[str, Any], str]]:
    """Every trial with its outcome."""
    found: list[tuple[dict[str, Any], str]] = []
    total = sum(1 for instance in tried for _ in trials(instance))
    while len(found) < total:
        ours, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(target=work, args=(theirs, tried, len(found)))
        child.start()
        theirs.close()
        try:
            while ours.poll(SECONDS) and (answer := ours.recv()) is not None:
                found.append(answer)
            if len(found) < total:
                child.kill()
                found.append(_unfinished(tried, len(found), "takes too long"))
        except EOFError:
            found.append(_unfinished(tried, len(found), "ends the process"))
        child.join()
    return found


def _unfinished(tried: list[Instance], index: int, what: str) -> tuple[dict[str, Any], str]:
    every = (trial for instance in tried for trial in trials(instance))
    return next((row(trial), what) for place, trial in enumerate(every) if place == index)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", default="", help="names, separated by commas; all by default")
    parser.add_argument("--every-type", action="store_true", help="all data types of the tables of tests/operators")
    parser.add_argument("--large", action="store_true", help="larger tensors, of fewer operators")
    parser.add_argument("--out", type=pathlib.Path, help="a file for all outcomes, one JSON object per line")
    arguments = parser.parse_args()
    names = set(filter(None, arguments.operators.split(",")))
    found = measure(chosen(names, every_type=arguments.every_type, large=arguments.large))
    if arguments.out:
        arguments.out.write_text(
            "".join(json.dumps({**each, "outcome": what}) + "\n" for each, what in found), encoding="utf-8"
        )
    for each, what in found:
        if what != "right":
            print(*each.values(), "→", what)
    print(collections.Counter(what for _, what in found))


if __name__ == "__main__":
    main()
