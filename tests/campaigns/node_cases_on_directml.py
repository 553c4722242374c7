"""ONNX's node cases on the real DirectML, one after another; the seed is the case's number, modulo their count."""

from __future__ import annotations

import functools

from support.onnx.exclusions import EXCLUDED, ON_DIRECTML
from support.onnx.node_cases import cases, check, excluded

import dmlgraph as dg
from campaigns.campaign import Campaign
from dmlgraph.devices.names import DeviceName

DEVICE: DeviceName = "directml:software"


@functools.cache
def _included() -> list[int]:
    return [index for index, case in enumerate(cases()) if not excluded(case.name, EXCLUDED)]


def one_case(seed: int) -> str | None:
    case = cases()[_included()[seed % len(_included())]]
    expected = excluded(case.name, ON_DIRECTML)
    try:
        check(case, DEVICE)
    except (dg.DmlGraphError, AssertionError) as error:
        return None if expected else f"{case.name}: {error}"
    return f"{case.name}: passes, but the table excludes it" if expected else None


CAMPAIGN = Campaign("node_cases_on_directml", "ONNX's node cases on the real DirectML", one_case)
