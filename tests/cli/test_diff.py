"""`dmlgraph diff`."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dmlgraph.cli.commands import main
from dmlgraph.cli.diff import _report
from dmlgraph.devices import choose
from dmlgraph.formats.yaml import load
from dmlgraph.measure.diff import Difference, Finding, Side
from dmlgraph.measure.ulp import compare

# The product is rounded before it is scaled, unless both are fused into one GEMM.
SCALED = """\
dmlgraph: 1
name: scaled
dims: {N: 2}
inputs:
  x: {dtype: float32, sizes: [N, 3]}
  w: {dtype: float32, sizes: [3, 2]}
nodes:
  third: {op: fill_value_constant, output: {dtype: float32, sizes: [1, 1]}, value: 3}
  product: {op: gemm, a: x, b: w}
  y: {op: multiply, a: product, b: third}
  z: {op: activation_relu, input: x}
outputs: [y, z]
"""
# (1 + 2⁻¹²)² is 1 + 2⁻¹¹ + 2⁻²⁴: the last term is lost to rounding, unless it is scaled first.
X = np.array([[1 + 2.0**-12, 0, 0], [1, 1, 1]], np.float32)
W = np.array([[1 + 2.0**-12, 1], [0, 1], [0, 1]], np.float32)
TWICE, ONCE = np.float32(3 + 3 * 2.0**-11), np.float32(3 + 3 * 2.0**-11 + 2.0**-22)
WIDE = np.float32(3 + 3 * 2.0**-12)


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scaled.yaml").write_text(SCALED, encoding="utf-8")
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "w.npy", W)
    return tmp_path


INPUTS = ("--input", "x=x.npy", "--input", "w=w.npy")


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["diff", *arguments])


def test_equal_outputs_are_status_0() -> None:
    result = call("scaled.yaml", *INPUTS, "--device", "reference", "--device", "reference")
    assert result.exit_code == 0
    assert result.stdout == (
        "output  data type  sizes   differs  ULP  absolute\n"
        "y       float32    [2, 2]  equal      0         0\n"
        "z       float32    [2, 3]  equal      0         0\n"
    )
    assert result.stderr == "reference, fused (asked for as 'reference')\n" * 2


def test_states_are_compared_after_the_run(folder: pathlib.Path) -> None:
    (folder / "states.yaml").write_text(
        "dmlgraph: 1\nstates:\n  s: {dtype: float32, sizes: [2], initial: {value: 1}, next: y}\n"
        "nodes: {y: {op: add, a: s, b: s}}\noutputs: [y]\n",
        encoding="utf-8",
    )
    result = call("states.yaml", "--device", "reference", "--device", "cpu")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1:] == [
        "y        float32    [2]    equal      0         0",
        "state s  float32    [2]    equal      0         0",
    ]


def test_the_first_node_that_differs_is_told_with_its_place_and_is_status_1() -> None:
    result = call("scaled.yaml", *INPUTS, "--device", "reference")
    assert result.exit_code == 1
    assert result.stdout == (
        "output  data type  sizes   differs  ULP  absolute\n"
        "y       float32    [2, 2]  1 of 4     1  2.38e-07\n"
        "z       float32    [2, 3]  equal      0         0\n"
        "\n"
        "scaled.yaml:10:3: the first node that differs is 'y', multiply and gemm\n"
        "     element  reference, not fused    reference, fused        ULP  absolute\n"
        f"  >  y[0, 0]  {TWICE!s} (0x40401800)  {ONCE!s} (0x40401801)     1  2.38e-07\n"
        f"     y[0, 1]  {WIDE!s} (0x40400c00)  {WIDE!s} (0x40400c00)    0         0\n"
        f"     y[1, 0]  {WIDE!s} (0x40400c00)  {WIDE!s} (0x40400c00)    0         0\n"
        "  1 of 4 elements differ, most of all this one: 1 ULP, 2.38e-07\n"
        "  fused from y, third, product by gemm_scale\n"
    )


def test_a_tolerance_makes_them_equal() -> None:
    result = call("scaled.yaml", *INPUTS, "--device", "reference", "--ulp", "1")
    assert result.exit_code == 0
    assert "y       float32    [2, 2]  equal      1  " in result.stdout


def test_cpu_agrees_with_the_reference_and_missing_inputs_are_made_up() -> None:
    result = call("scaled.yaml", "--device", "reference", "--device", "cpu", "--dim", "N=50", "--ulp", "4096")
    assert result.exit_code == 0
    assert result.stdout.count("equal") == 2
    assert "[50, 2]" in result.stdout
    assert result.stderr.startswith("random numbers (seed 0) for: x, w\n")


def test_no_fuse_runs_both_as_the_graph_stands() -> None:
    result = call("scaled.yaml", *INPUTS, "--device", "reference", "--device", "reference", "--no-fuse")
    assert result.exit_code == 0
    assert result.stderr == "reference, not fused (asked for as 'reference')\n" * 2


A, B = np.array([1, np.nan, -0.0], np.float32), np.array([1, 2, 0], np.float32)
SIDES = (Side(choose("reference"), True), Side(choose("cpu"), True))


def test_a_nan_against_a_number_is_shown_as_such() -> None:
    comparison = compare(A, B)
    finding = Finding("y", SIDES, ("multiply", "multiply"), "y", comparison, ("product", "y"), ("rule",))
    text = list(_report(load("scaled.yaml"), Difference(SIDES, ("", ""), {"y": comparison}, finding)))
    assert text == [
        "output  data type  sizes   differs  ULP  absolute",
        "y       float32    [2, 2]  2 of 3   NaN       nan",
        "",
        "scaled.yaml:10:3: the first node that differs is 'y', multiply",
        "     element  reference, fused   cpu, fused        ULP  absolute",
        "     y[0]     1.0 (0x3f800000)   1.0 (0x3f800000)    0         0",
        "  >  y[1]     nan (0x7fc00000)   2.0 (0x40000000)  NaN       nan",
        "     y[2]     -0.0 (0x80000000)  0.0 (0x00000000)    1         0",
        "  2 of 3 elements differ, most of all this one: a NaN against a number",
        "  fused from product, y by rule",
        "  without fusion, no node differs",
    ]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ((), ["no single node differs when every intermediate value is kept"]),
        (
            SIDES[1:],
            [
                "no single node differs: the outputs of 'cpu, fused' change when every intermediate value is kept,",
                "so the difference comes from running several nodes as one",
            ],
        ),
    ],
)
def test_differences_of_no_single_node(changed: tuple[Side, ...], text: list[str]) -> None:
    found = Difference(SIDES, ("", ""), {"y": compare(A, B)}, changed=changed)
    assert list(_report(load("scaled.yaml"), found))[3:] == text


def test_nans_of_other_bits_are_mentioned() -> None:
    one, other = (np.array([bits], np.uint32).view(np.float32) for bits in (0x7FC00000, 0x7FC00001))
    found = Difference(SIDES, ("", ""), {"y": compare(one, other)})
    assert list(_report(load("scaled.yaml"), found))[2:] == ["1 NaN has other bits; they count as equal"]


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["scaled.yaml"], 2, "Missing option '--device'"),
        (["scaled.yaml", "--device", "cpu", "--device", "cpuu"], 2, "is not a device; got cpuu"),
        (["scaled.yaml", "--device", "cpu", "--no-fuse"], 2, "leaves nothing to compare"),
        (["scaled.yaml", *["--device", "cpu"] * 3], 2, "takes one or two devices, not 3"),
        (["none.yaml", "--device", "cpu"], 2, "'none.yaml' does not exist"),
        (["scaled.yaml", "--device", "cpu", "--ulp", "-1"], 2, "-1 is not in the range x>=0"),
        (["scaled.yaml", "--device", "cpu", "--input", "x=none.npy"], 1, "cannot read 'none.npy'"),
        (["scaled.yaml", "--device", "cpu", "--input", "z=x.npy"], 1, "field 'z': is not an input of the graph"),
        (["scaled.yaml", "--device", "cpu", "--dim", "M=1"], 1, "is not a dim of the graph"),
    ],
)
def test_mistakes(arguments: list[str], status: int, text: str) -> None:
    result = call(*arguments)
    assert result.exit_code == status
    assert text in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("tolerance", "status"),
    [
        ([], 1),
        (["--relative", "1e-6"], 0),
        (["--relative", "1e-9"], 1),
        (["--absolute", "1e-6"], 0),
        (["--absolute", "1e-9"], 1),
        (["--relative", "1e-9", "--absolute", "1e-9", "--ulp", "1"], 0),
    ],
)
def test_tolerances(tolerance: list[str], status: int) -> None:
    result = call("scaled.yaml", *INPUTS, "--device", "reference", *tolerance)
    assert result.exit_code == status


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "x"])
@pytest.mark.parametrize("option", ["--relative", "--absolute"])
def test_a_tolerance_is_a_number_from_0_on(option: str, value: str) -> None:
    result = call("scaled.yaml", *INPUTS, "--device", "reference", option, value)
    assert result.exit_code == 2
    assert option in result.stderr
