"""ONNX's own test cases of its operators, on the devices that compute on the processor."""

from __future__ import annotations

import pytest
from support.onnx.exclusions import EXCLUDED
from support.onnx.node_cases import cases, excluded, failures, is_expanded

from dmlgraph.devices.names import DeviceName

LEAST = {False: 1108, True: 380}  # passing cases of operators, and of their definitions by others


def test_the_table_of_exclusions_has_no_useless_entry() -> None:
    names = [case.name for case in cases()]
    matches = {name: excluded(name, EXCLUDED) for name in names}
    assert not {name: found for name, found in matches.items() if len(found) > 1}
    assert not set(EXCLUDED) - {pattern for found in matches.values() for pattern in found}


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_every_case_passes_unless_it_is_excluded(device: DeviceName, capsys: pytest.CaptureFixture[str]) -> None:
    failed = dict(failures(device))
    expected = {case.name for case in cases() if excluded(case.name, EXCLUDED)}
    passing = {kind: [each.name for each in cases() if is_expanded(each.name) is kind] for kind in LEAST}
    counts = {kind: (sum(name not in failed for name in names), len(names)) for kind, names in passing.items()}
    with capsys.disabled():
        print(
            f"\n{device}: {counts[False][0]} of {counts[False][1]} node cases pass, "
            f"{counts[True][0]} of {counts[True][1]} expanded ones"
        )
    assert {name: why for name, why in failed.items() if name not in expected} == {}
    assert expected - failed.keys() == set(), "these pass: take them out of the table"
    for kind, least in LEAST.items():
        assert counts[kind][0] >= least
