"""What became of tests: outcomes, and records of them that commands print and reports hold."""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Iterable
from typing import Any


class Outcome(enum.StrEnum):
    """What became of a test."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CRASHED = "crashed"  # its process ended without a result
    TIMED_OUT = "timed out"  # its process was ended
    LOST = "lost"  # no machine gave a result
    BROKEN = "broken"  # the file is wrong: its tests did not run


WRONG = frozenset(Outcome) - {Outcome.PASSED, Outcome.SKIPPED}
ALLOWED = "allowed to fail"  # what a summary calls a test that is wrong, and may be


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """The result of a test on a device.

    Attributes:
        outcome: what became of it.
        report: why it did not pass, as text of one or more lines.
        seconds: it took.
    """

    outcome: Outcome
    report: str = ""
    seconds: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a test ran.

    Attributes:
        device: the name of the device.
        machine: the name of the machine; "" for this one.
        description: what the device is, in a phrase.
    """

    device: str
    machine: str = ""
    description: str = ""

    def __str__(self) -> str:
        return f"{self.device} on {self.machine}" if self.machine else self.device


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A test, where it ran, and its result.

    Attributes:
        file: the graph file.
        test: the name of the test; "" if the file is wrong.
        place: where it ran; None if the file is wrong.
        result: what became of it.
        sizes: the dims that were set, as `N=8`, if tests ran with several.
        attempts: how many times it was begun.
        may_fail: the reason why it is allowed to fail; None if it is not.
    """

    file: str
    test: str
    place: Place | None
    result: Result
    sizes: str = ""
    attempts: int = 1
    may_fail: str | None = None

    @property
    def name(self) -> str:
        """The test with its device, sizes and machine: `ones[cpu] with N=8 on lab-3`."""
        if self.place is None:
            return "the file"
        machine = f" on {self.place.machine}" if self.place.machine else ""
        return f"{case_name(self.test, self.place.device)}{f' with {self.sizes}' if self.sizes else ''}{machine}"

    @property
    def is_wrong(self) -> bool:
        """Whether it did not pass, allowed or not."""
        return self.result.outcome in WRONG

    @property
    def is_failure(self) -> bool:
        return self.is_wrong and self.may_fail is None

    @property
    def word(self) -> str:
        """Its outcome, for people."""
        return ALLOWED if self.is_wrong and self.may_fail is not None else self.result.outcome.value

    @property
    def plain(self) -> dict[str, Any]:
        """The record as JSON has it."""
        place = self.place or Place("")
        return {
            "graph": self.file,
            "test": self.test,
            "sizes": self.sizes,
            "device": place.device,
            "machine": place.machine,
            "description": place.description,
            "outcome": self.result.outcome.value,
            "seconds": round(self.result.seconds, 6),
            "attempts": self.attempts,
            "may_fail": self.may_fail,
            "report": self.result.report,
        }


def case_name(test: str, device: str) -> str:
    """`ones[cpu]`."""
    return f"{test}[{device}]"


def counted(records: Iterable[Record]) -> str:
    """`1 failed, 3 passed`; files that are wrong are not counted."""
    words = collections.Counter(each.word for each in records if each.result.outcome is not Outcome.BROKEN)
    return ", ".join(f"{count} {word}" for word, count in sorted(words.items()))
