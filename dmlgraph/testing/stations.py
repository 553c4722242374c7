"""What runs on the workers of a sweep: looking for devices, and tests, both in processes of their own.

A worker never loads a driver itself, so no driver can stop or kill it.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
from collections.abc import Mapping, Sequence

from dmlgraph.base.errors import DeviceError
from dmlgraph.testing.bundle import Bundle
from dmlgraph.testing.records import Result
from dmlgraph.testing.subprocess_runner import EndedError, Found, How, list_devices, run_test

MOST_REPORTED = 200_000  # characters of a report that travel


@dataclasses.dataclass(frozen=True, slots=True)
class Survey:
    """What a worker has.

    Attributes:
        machine: its name.
        version: of its dmlgraph.
        devices: by name; those that it was given as resources, if it was given some.
        at_once: how many tests a device runs at once, if a resource says so.
    """

    machine: str
    version: str
    devices: Mapping[str, Found]
    at_once: Mapping[str, int]


def version() -> str:
    return importlib.metadata.version("dmlgraph")


def survey(names: Sequence[str], every: bool, seconds: float) -> Survey:
    """What this worker has; the arguments are those of `list_devices`.

    Raises:
        DeviceError: a driver hung or crashed.
    """
    from distributed import get_worker

    given: Mapping[str, float] = get_worker().state.total_resources
    at_once = {name: int(count) for name, count in given.items() if count >= 1 and _is_device(name)}
    wanted = [name for name in names if name in at_once] if at_once else list(names)
    wanted += [name for name in at_once if every and name not in wanted]
    try:
        found = list_devices(wanted, every=every, seconds=seconds)
    except EndedError as error:
        raise DeviceError(f"looking for devices: {error}", code="cluster") from None
    if at_once:
        found = {name: dataclasses.replace(each, listed=True) for name, each in found.items() if name in at_once}
    return Survey(platform.node(), version(), found, at_once)


def run_here(
    bundle: Bundle, dims: Mapping[str, int], name: str | None, device: str, seconds: float, how: How
) -> Result:
    """The result of a test; the arguments are those of `run_test`."""
    result = run_test(bundle, dims, name, device, seconds=seconds, how=how)
    if len(result.report) <= MOST_REPORTED:
        return result
    return dataclasses.replace(result, report=result.report[:MOST_REPORTED] + "\n…")


def _is_device(name: str) -> bool:
    from dmlgraph.devices import check_name

    try:
        check_name(name)
    except DeviceError:
        return False
    return True
