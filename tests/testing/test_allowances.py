"""Files of tests that are allowed to fail: patterns with reasons."""

from __future__ import annotations

import pathlib

import pytest
from support.problems import raises

from dmlgraph.base.errors import DocumentError
from dmlgraph.devices.names import DeviceName
from dmlgraph.testing.allowances import Allowances, read
from dmlgraph.testing.records import Outcome, Place, Record, Result


def allowances(tmp_path: pathlib.Path, text: str) -> Allowances:
    (tmp_path / "may.yaml").write_text(text, "utf-8")
    return read(tmp_path / "may.yaml")


def record(
    file: str = "models/a.yaml", test: str = "t", device: DeviceName = "directml:1", machine: str = "lab-3"
) -> Record:
    return Record(file, test, Place(device, machine), Result(Outcome.FAILED, "why"))


@pytest.mark.parametrize(
    ("entry", "fits"),
    [
        ("graph: a.yaml", True),
        ("graph: models/a.yaml", True),
        ('graph: "*.yaml"', True),
        ("graph: b.yaml", False),
        ("graph: odels/a.yaml", False),
        ("test: t", True),
        ("test: T", False),
        ('device: "directml*"', True),
        ("device: directml", False),
        ('machine: "lab-?"', True),
        ('graph: a.yaml, machine: "lab-4"', False),
        ('graph: a.yaml, test: "*", device: "*:1", machine: "*"', True),
    ],
)
def test_an_entry_fits_if_all_its_patterns_do(tmp_path: pathlib.Path, entry: str, fits: bool) -> None:
    found = allowances(tmp_path, f"- {{{entry}, reason: driver}}\n")
    done = found.applied(record())
    assert (done.may_fail, done.is_failure) == (("driver", False) if fits else (None, True))
    assert len(found.unused) == (not fits)


def test_the_first_entry_that_fits_gives_the_reason_and_others_are_not_used(tmp_path: pathlib.Path) -> None:
    found = allowances(tmp_path, "- {test: t, reason: first}\n- {reason: second}\n- {test: u, reason: third}\n")
    assert found.applied(record()).may_fail == "first"
    assert [each.reason for each in found.unused] == ["second", "third"]
    assert found.applied(record(test="v")).may_fail == "second"
    assert [str(each.place) for each in found.unused] == [f"{tmp_path / 'may.yaml'}:3:3"]


def test_a_test_that_passes_stays_passed_and_a_file_that_is_wrong_is_never_allowed(tmp_path: pathlib.Path) -> None:
    found = allowances(tmp_path, "- reason: all\n")
    passed = found.applied(Record("a.yaml", "t", Place("cpu"), Result(Outcome.PASSED)))
    assert (passed.may_fail, passed.word) == ("all", "passed")
    broken = found.applied(Record("a.yaml", "", None, Result(Outcome.BROKEN, "x")))
    assert broken.is_failure


def test_a_skipped_test_does_not_use_an_entry(tmp_path: pathlib.Path) -> None:
    found = allowances(tmp_path, "- reason: all\n")
    found.applied(Record("a.yaml", "t", Place("cpu"), Result(Outcome.SKIPPED)))
    assert len(found.unused) == 1


@pytest.mark.parametrize("text", ["", "[]\n", "# nothing yet\n"])
def test_nothing_may_fail(tmp_path: pathlib.Path, text: str) -> None:
    assert allowances(tmp_path, text).entries == ()


def test_every_mistake_is_reported_with_its_place(tmp_path: pathlib.Path) -> None:
    text = "- {graph: a}\n- 3\n- {grahp: a, reason: r}\n- {test: [a], reason: r}\n- {reason: ' '}\n"
    with pytest.raises(DocumentError) as error:
        allowances(tmp_path, text)
    lines = str(error.value).splitlines()
    expected = ["1:3: field 'reason'", "2:3: must be a mapping", "3:4: field 'grahp'", "4:10: field 'test'", "5:12: "]
    assert [each in line for each, line in zip(expected, lines, strict=True)] == [True] * 5, lines


def test_a_mapping_is_not_a_list(tmp_path: pathlib.Path) -> None:
    with raises(DocumentError, "kind", got={"graph": "a"}):
        allowances(tmp_path, "graph: a\n")


def test_a_file_that_is_not_there_is_an_error(tmp_path: pathlib.Path) -> None:
    with raises(DocumentError, "unreadable"):
        read(tmp_path / "none.yaml")
