"""Executable: what a compiled graph accepts, what it refuses, and in whose memory the results are."""

from __future__ import annotations

import sys
import threading
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest
from support.problems import expect, raises

import dmlgraph as dg
from dmlgraph.devices.executable import Executable
from dmlgraph.devices.names import DeviceName

DEVICES = ["reference", "cpu"]
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def graph() -> dg.Graph:
    g = dg.Graph("g")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    bias = g.input("bias", sizes=[3], dtype="float32")
    g.output("y", x * 2 + bias)
    g.output("same", x)
    return g


BIAS = np.array([10, 20, 30], np.float32)
Y = X * 2 + BIAS


@pytest.fixture(params=DEVICES)
def executable(request: pytest.FixtureRequest) -> Executable:
    return graph().compile(request.param)


def refused(executable: Executable, inputs: Any, out: Any = None) -> dg.BindingError:
    """The error, which `run` and `bind` must have in common."""
    texts = []
    for call in (executable.run, executable.bind):
        with pytest.raises(dg.BindingError) as caught:
            call(inputs, out)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    return caught.value


# Inputs.


def test_a_run_gives_an_array_for_every_output(executable: Executable) -> None:
    results = executable.run({"x": X, "bias": BIAS})
    assert list(results) == ["y", "same"]
    np.testing.assert_array_equal(results["y"], Y)
    assert results["y"].dtype == np.float32


def test_missing_inputs_are_all_named_with_what_they_are(executable: Executable) -> None:
    assert str(refused(executable, {})) == "inputs are missing: 'x' (float32 [2, 3]), 'bias' (float32 [3])"
    assert str(refused(executable, None)) == str(refused(executable, {}))
    assert str(refused(executable, {"x": X})) == "inputs are missing: 'bias' (float32 [3])"


def test_an_unknown_input_gets_a_suggestion(executable: Executable) -> None:
    error = refused(executable, {"x": X, "bais": BIAS})
    expect(error, "unknown-array", field="bais", allowed="x, bias")


def test_an_input_of_another_data_type_is_told_how_to_convert(executable: Executable) -> None:
    error = refused(executable, {"x": X.astype(np.float64), "bias": BIAS})
    expect(error, "dtype", field="x", got="float64", allowed="float32")


def test_an_input_of_another_byte_order_has_another_data_type(executable: Executable) -> None:
    assert refused(executable, {"x": X.astype(">f4"), "bias": BIAS}).got == ">f4"


def test_arrays_may_name_their_byte_order() -> None:
    """NumPy takes the types for equal."""
    named = np.array([1, 2], np.dtype("f4").newbyteorder("little"))
    graph = dg.Graph()
    graph.output("y", graph.input("x", sizes=[2], dtype="float32") + graph.constant("k", named))
    for device in ("cpu", "reference"):
        np.testing.assert_array_equal(graph.compile(device).run({"x": named})["y"], [2, 4])


@pytest.mark.parametrize("shape", [(3, 2), (6,), (1, 2, 3), (2, 1)])
def test_an_input_of_another_shape_is_refused_and_not_broadcast(executable: Executable, shape: tuple[int, ...]) -> None:
    error = refused(executable, {"x": np.zeros(shape, np.float32), "bias": BIAS})
    expect(error, "sizes", field="x", got=list(shape), allowed="[2, 3]")


def test_a_list_of_numbers_is_no_array_of_the_data_type(executable: Executable) -> None:
    error = refused(executable, {"x": X, "bias": [1.0, 2.0, 3.0]})
    assert (error.field, error.got, error.allowed) == ("bias", "float64", "float32")


def test_lists_of_different_lengths_are_not_an_array(executable: Executable) -> None:
    error = refused(executable, {"x": [[1, 2], [3]], "bias": BIAS})
    expect(error, "kind", field="x")


def test_a_closed_executable_does_not_run(executable: Executable) -> None:
    bound = executable.bind({"x": X, "bias": BIAS})
    with executable:
        bound()
    for call in (bound, lambda: executable.run({"x": X, "bias": BIAS})):
        with raises(dg.DeviceError, "closed"):
            call()


@pytest.mark.parametrize("inputs", [X, [X, BIAS], "x", 3])
def test_inputs_are_given_by_name(executable: Executable, inputs: Any) -> None:
    error = refused(executable, inputs)
    expect(error, "kind", field="inputs")


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(X),
        np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2] / 2,
        X[::-1, ::-1][::-1, ::-1],
        np.ascontiguousarray(X.T).T,
        np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3),
    ],
    ids=["fortran", "strided", "reversed", "transposed", "unaligned"],
)
def test_the_layout_of_an_input_does_not_matter(executable: Executable, array: np.ndarray[Any, Any]) -> None:
    np.testing.assert_array_equal(executable.run({"x": array, "bias": BIAS})["y"], Y)


def test_inputs_may_be_read_only_and_broadcast_views_and_are_left_alone(executable: Executable) -> None:
    x, bias = X.copy(), np.broadcast_to(np.float32(1), (3,))
    x.flags.writeable = False
    results = executable.run({"x": x, "bias": bias})
    np.testing.assert_array_equal(results["y"], X * 2 + 1)
    np.testing.assert_array_equal(x, X)


# Results.


def test_results_are_the_callers_own(executable: Executable) -> None:
    x = X.copy()
    first = executable.run({"x": x, "bias": BIAS})
    second = executable.run({"x": x, "bias": BIAS})
    for name in ("y", "same"):
        assert first[name].flags.writeable
        assert first[name].flags.c_contiguous
        assert not np.shares_memory(first[name], second[name])
        assert not np.shares_memory(first[name], x)
    first["same"][:] = 0
    np.testing.assert_array_equal(second["same"], X)
    np.testing.assert_array_equal(x, X)


def test_a_constant_output_cannot_be_changed_through_its_result() -> None:
    g = dg.Graph()
    g.output("y", g.constant("c", np.arange(3, dtype=np.float32)))
    executable = g.compile("reference")
    executable.run()["y"][:] = 7
    assert executable.run()["y"].tolist() == [0, 1, 2]


def test_out_is_written_into_and_given_back(executable: Executable) -> None:
    y = np.full((2, 3), -1, np.float32)
    results = executable.run({"x": X, "bias": BIAS}, out={"y": y})
    assert results["y"] is y
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(results["same"], X)


def test_out_may_have_any_layout(executable: Executable) -> None:
    whole = np.full((4, 6), -1, np.float32)
    executable.run({"x": X, "bias": BIAS}, out={"y": whole[::2, 1::2]})
    np.testing.assert_array_equal(whole[::2, 1::2], Y)
    assert (whole[1::2] == -1).all()
    assert (whole[:, ::2] == -1).all()
    fortran = np.zeros((2, 3), np.float32, order="F")
    executable.run({"x": X, "bias": BIAS}, out={"y": fortran})
    np.testing.assert_array_equal(fortran, Y)


def test_out_may_be_an_input_itself(executable: Executable) -> None:
    x = X.copy()
    results = executable.run({"x": x, "bias": BIAS}, out={"y": x})
    np.testing.assert_array_equal(x, Y)
    np.testing.assert_array_equal(results["same"], X)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.zeros((2, 3), np.float64), "the output has another data type; got float64; allowed: float32"),
        (np.zeros((3, 2), np.float32), "the output has another shape; got [3, 2]; allowed: [2, 3]"),
        ([[0.0] * 3] * 2, "must be a NumPy array to write into; got list"),
        (None, "must be a NumPy array to write into; got NoneType"),
        (np.broadcast_to(np.float32(0), (2, 3)), "cannot be written into: the array is read-only"),
    ],
    ids=["dtype", "shape", "list", "none", "read-only"],
)
def test_out_that_cannot_hold_the_output_is_refused(executable: Executable, array: Any, text: str) -> None:
    assert str(refused(executable, {"x": X, "bias": BIAS}, {"y": array})) == f"field 'y': {text}"


def test_an_unknown_output_gets_a_suggestion(executable: Executable) -> None:
    error = refused(executable, {"x": X, "bias": BIAS}, {"sane": Y})
    expect(error, "unknown-array", field="sane", allowed="y, same")
    assert refused(executable, {"x": X, "bias": BIAS}, [Y]).field == "out"


def test_a_refused_run_writes_nothing(executable: Executable) -> None:
    y = np.full((2, 3), -1, np.float32)
    refused(executable, {"x": X}, {"y": y})
    assert (y == -1).all()


# Binding.


def test_a_bound_run_reads_what_the_arrays_hold_at_that_moment(executable: Executable) -> None:
    x, y = X.copy(), np.empty((2, 3), np.float32)
    again = executable.bind({"x": x, "bias": BIAS}, {"y": y})
    for factor in (1, 2, 3):
        x[:] = X * factor
        results = again()
        assert results["y"] is y
        np.testing.assert_array_equal(y, X * factor * 2 + BIAS)
    assert not np.shares_memory(again()["same"], again()["same"])


# Owned inputs.


@pytest.fixture(params=DEVICES)
def owning(request: pytest.FixtureRequest) -> Executable:
    g = dg.Graph("owning")
    x = g.input("x", sizes=[3], dtype="float32")
    w = g.input("w", sizes=[3], dtype="float32", owned=True)
    g.output("y", x + w)
    return g.compile(request.param)


def test_an_owned_input_is_kept_after_the_first_run(owning: Executable) -> None:
    assert "inputs are missing: 'w'" in str(refused(owning, {"x": BIAS}))
    weights = np.ones(3, np.float32)
    assert owning.run({"x": BIAS, "w": weights})["y"].tolist() == [11, 21, 31]
    weights[:] = 9  # the device keeps the numbers that it was given before
    assert owning.run({"x": BIAS})["y"].tolist() == [11, 21, 31]


def test_an_owned_input_is_replaced_when_it_is_given_again(owning: Executable) -> None:
    owning.run({"x": BIAS, "w": np.ones(3, np.float32)})
    assert owning.run({"x": BIAS, "w": np.full(3, 2, np.float32)})["y"].tolist() == [12, 22, 32]
    assert owning.run({"x": BIAS})["y"].tolist() == [12, 22, 32]
    assert refused(owning, {"x": BIAS, "w": np.zeros(2, np.float32)}).field == "w"
    assert owning.run({"x": BIAS})["y"].tolist() == [12, 22, 32]


def test_a_refused_call_leaves_owned_inputs_as_they_were(owning: Executable) -> None:
    owning.run({"x": BIAS, "w": np.ones(3, np.float32)})
    refused(owning, {"w": np.full(3, 2, np.float32)})  # without x
    assert owning.run({"x": BIAS})["y"].tolist() == [11, 21, 31]


def test_threads_that_give_owned_inputs_get_the_results_of_their_own(owning: Executable) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        weights = np.full(3, number, np.float32)
        results = (owning.run({"x": BIAS, "w": weights})["y"] for _ in range(200))
        wrong.extend(number for y in results if y.tolist() != (BIAS + number).tolist())

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


# Others.


def test_a_constant_is_not_an_input(executable: Executable) -> None:
    g = dg.Graph()
    g.output("y", g.constant("c", np.zeros(100, np.float32)) + 1)
    constant = g.compile(cast("DeviceName", executable.device))
    expect(
        refused(constant, {"c": np.zeros(100, np.float32)}),
        "unknown-array",
        field="c",
        allowed="nothing: the graph has no inputs",
    )
    assert constant.run()["y"].tolist() == [1] * 100


def test_4_bit_inputs_are_ml_dtypes_arrays(executable: Executable) -> None:
    g = dg.Graph()
    g.input("x", sizes=[3], dtype="uint4")
    g.output("y", g.fill_value_constant(sizes=[1], dtype="int8", value=5))
    nibbles = g.compile(cast("DeviceName", executable.device))
    assert nibbles.run({"x": np.array([0, 7, 15], ml_dtypes.uint4)})["y"].tolist() == [5]
    error = refused(nibbles, {"x": np.zeros(3, np.uint8)})
    assert (error.got, error.allowed) == ("uint8", "uint4")


def test_an_executable_says_what_it_runs_and_how(executable: Executable) -> None:
    assert executable.graph == graph().lower()
    assert executable.stats["nodes"] == len(executable.graph.nodes)
    executable.run({"x": X, "bias": BIAS})
    assert executable.stats["run_seconds"] > 0
    with executable as entered:
        assert entered is executable


def test_a_graph_changed_after_compiling_does_not_change_the_executable() -> None:
    g = graph()
    executable = g.compile("reference")
    g.output("later", g.outputs["y"])
    assert list(executable.run({"x": X, "bias": BIAS})) == ["y", "same"]


def test_outputs_may_not_share_memory():
    g = dg.Graph("two")
    x = g.input("x", sizes=[4], dtype="float32")
    g.output("a", dg.exp(x))
    g.output("b", dg.log(x))
    executable = g.compile("reference")
    x_values, buffer = np.ones(4, np.float32), np.zeros(8, np.float32)
    with raises(dg.BindingError, "shared-memory") as caught:
        executable.run({"x": x_values}, out={"a": buffer[:4], "b": buffer[2:6]})
    assert caught.value.field == "b"
    results = executable.run({"x": x_values}, out={"a": buffer[::2], "b": buffer[1::2]})
    assert buffer[1::2].tolist() == [0, 0, 0, 0]
    assert results["a"].tolist() == [float(np.float32(np.e))] * 4


def test_an_output_may_not_be_written_onto_itself():
    g = dg.Graph("one")
    g.output("y", dg.exp(g.input("x", sizes=[4], dtype="float32")))
    repeated = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), [4], [0], writeable=True)
    with raises(dg.BindingError, "shared-memory", field="y", got="strides of [0] bytes"):
        g.compile("reference").run({"x": np.ones(4, np.float32)}, out={"y": repeated})
