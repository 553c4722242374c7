"""The plans of graph files, as `dmlgraph lower --device cpu` prints them, are those in tests/devices/cpu/plans.

After a wanted change of plans, `python tests/devices/cpu/test_plan_text.py` writes the files anew.
"""

from __future__ import annotations

import pathlib

import pytest
from click.testing import CliRunner

from dmlgraph.cli.commands import main

ROOT = pathlib.Path(__file__).parents[3]
PLANS = pathlib.Path(__file__).parent / "plans"
GRAPHS = [
    "causal_attention/causal_attention.yaml",
    "digits/digits.yaml",
    "feed_forward/feed_forward_gelu.yaml",
    "letterbox/letterbox.yaml",
    "quantization/convolution.yaml",
    "ramp.yaml",
    "unet_block.yaml",
]


def plan(name: str) -> str:
    """What follows the DML_GRAPH_DESC."""
    result = CliRunner().invoke(main, ["lower", str(ROOT / "examples" / name), "--device", "cpu"])
    assert result.exit_code == 0, result.output
    _, begin, text = result.stdout.partition("\narena: ")
    return begin[1:] + text


def expected(name: str) -> pathlib.Path:
    return PLANS / f"{pathlib.Path(name).stem}.txt"


@pytest.mark.parametrize("name", GRAPHS)
def test_the_plan_of_an_example_is_the_one_in_its_file(name: str) -> None:
    assert plan(name) == expected(name).read_text(encoding="utf-8")


if __name__ == "__main__":
    for each in GRAPHS:
        expected(each).write_text(plan(each), encoding="utf-8")
