"""Recurrent networks of the CPU executor equal the reference's, up to the roundings of float32."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cpu.near import Array, compiled, desc, filled, layouts, make, run, seeds

from dmlgraph.devices.cpu.nodes import Native
from dmlgraph.devices.cpu.plan import lowered

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
FUNCTIONS = {"rnn": 1, "gru": 2, "lstm": 3}  # activations of a direction
USUAL = ["activation_sigmoid", "activation_tanh", "activation_tanh"]
# Every one that DirectML accepts, with attributes that leave a state bounded or growing slowly.
ACTIVATIONS: list[Any] = [
    "activation_identity", "activation_relu", "activation_sigmoid", "activation_tanh", "activation_softsign",
    "activation_gelu",
    {"op": "activation_softplus", "steepness": 1.5},
    {"op": "activation_swish", "sigmoid_input_scale": 1.5},
    {"op": "activation_hard_swish", "alpha": 0.25, "beta": 0.5},
    {"op": "activation_celu", "alpha": 0.5},
    {"op": "activation_elu", "alpha": 0.5},
    {"op": "activation_hard_sigmoid", "alpha": 0.3, "beta": 0.4},
    {"op": "activation_leaky_relu", "alpha": 0.25},
    {"op": "activation_linear", "alpha": 0.5, "beta": -0.125},
    {"op": "activation_parametric_softplus", "alpha": 0.5, "beta": 0.75},
    {"op": "activation_scaled_elu", "alpha": 0.5, "gamma": 0.75},
    {"op": "activation_scaled_tanh", "alpha": 0.75, "beta": 0.5},
    {"op": "activation_shrink", "bias": 0.25, "threshold": 0.25},
    {"op": "activation_thresholded_relu", "alpha": 0.125},
]  # fmt: skip
OUTPUTS = {name: ["output_sequence", "output_single"] for name in GATES}
OUTPUTS["lstm"].append("output_cell_single")
networks = st.sampled_from(sorted(GATES))
counts = st.integers(1, 4)


def made(name: str, steps: int, batch: int, inputs: int, hidden: int, **more: Any) -> Any:
    """An operator with every tensor except the fields of `absent`, in the order of DirectML's struct."""
    directions = 2 if more.get("direction") == "bidirectional" else 1
    dtype, absent = more.pop("dtype", "float32"), more.pop("absent", ())
    state = desc((1, directions, batch, hidden), dtype)
    optional = {
        "bias": desc((1, 1, directions, 2 * GATES[name] * hidden), dtype),
        "hidden_init": state,
        "sequence_lengths": desc((1, 1, 1, batch), "uint32"),
    }
    if name == "lstm":
        optional |= {"cell_mem_init": state, "peephole": desc((1, 1, directions, 3 * hidden), dtype)}
    fields = {
        "input": desc((1, steps, batch, inputs), dtype),
        "weight": desc((1, directions, GATES[name] * hidden, inputs), dtype),
        "recurrence": desc((1, directions, GATES[name] * hidden, hidden), dtype),
        **{field: None if field in absent else each for field, each in optional.items()},
        **{field: False for field in absent if field in OUTPUTS[name]},
        "activation_descs": (["activation_tanh"] if name == "rnn" else USUAL[: FUNCTIONS[name]]) * directions,
        "direction": "forward",
    }
    return make(name, **fields | more)


def arrays_of(operator: Any, seed: int, layout: str = "packed") -> list[Any]:
    """Weights small enough that an error does not grow from step to step; lengths of 0 to one more than the steps."""
    arrays = filled(operator, seed, layout)
    place = operator.input_fields.index("sequence_lengths")
    if arrays[place] is not None:
        steps = operator.input.sizes[-3]
        arrays[place] = np.random.default_rng(seed).integers(0, steps + 2, arrays[place].shape).astype(np.uint32)
    scale = 1 / (4 + 4 * operator.recurrence.sizes[-1])
    return [each * each.dtype.type(scale) if each is not None and each.dtype.kind == "f" else each for each in arrays]


def check(operator: Any, arrays: list[Any], threads: int | None = None) -> None:
    compare(operator, run(operator, *arrays, threads=threads), arrays)


def compare(operator: Any, results: tuple[Array, ...], arrays: list[Any]) -> None:
    tolerance = 2e-3 if operator.input.dtype.numpy == np.float16 else 4e-6
    for got, expected in zip(results, operator.evaluate(*arrays), strict=True):
        largest = np.abs(expected[np.isfinite(expected)]).max(initial=1)
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * largest)


@st.composite
def operators(draw: Any) -> Any:
    name = draw(networks)
    direction = draw(st.sampled_from(["forward", "backward", "bidirectional"]))
    count = FUNCTIONS[name] * (2 if direction == "bidirectional" else 1)
    kept = draw(st.sampled_from(OUTPUTS[name]))
    optional = ["bias", "hidden_init", "sequence_lengths", "cell_mem_init", "peephole"]
    optional += [field for field in OUTPUTS[name] if field != kept]
    more: dict[str, Any] = {}
    if name == "lstm":
        more["couple_input_forget"] = draw(st.booleans())
        if draw(st.booleans()):
            more["clip_threshold"] = draw(st.sampled_from([0.0, 0.03125, 0.5, float("inf")]))
    if name == "gru":
        more["linear_before_reset"] = draw(st.booleans())
    return made(
        name,
        draw(counts),
        draw(st.one_of(st.just(1), st.integers(1, 17))),
        draw(st.integers(1, 9)),
        draw(st.one_of(st.integers(1, 9), st.sampled_from([16, 31, 33, 48, 150]))),
        dtype=draw(st.sampled_from(["float32", "float16"])),
        direction=direction,
        activation_descs=draw(st.lists(st.sampled_from(ACTIVATIONS), min_size=count, max_size=count)),
        absent=draw(st.sets(st.sampled_from(optional))),
        **more,
    )


class TestAllOptions:
    @given(operators(), layouts, seeds)
    def test_results_are_near_the_reference(self, operator, layout, seed) -> None:
        check(operator, arrays_of(operator, seed, layout))

    @given(operators(), seeds)
    def test_constant_weights_are_near_the_reference_too(self, operator, seed) -> None:
        arrays = arrays_of(operator, seed)
        with compiled(operator, constants={1: arrays[1], 2: arrays[2]}) as executable:
            others = {f"x{port}": each for port, each in enumerate(arrays) if each is not None and port not in (1, 2)}
            compare(operator, tuple(executable.run(others).values()), arrays)

    @pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
    def test_every_activation_runs_natively(self, activation) -> None:
        operator = made("lstm", 3, 2, 3, 5, activation_descs=[activation] * 3)
        assert isinstance(lowered(operator), Native)
        check(operator, arrays_of(operator, 7))


@pytest.mark.parametrize("name", GATES)
class TestThreads:
    @pytest.mark.parametrize(
        ("steps", "batch", "inputs", "hidden", "direction"),
        [
            (30, 1, 24, 80, "bidirectional"),  # a thread for each direction
            (12, 17, 24, 80, "forward"),  # … for some of the rows
            (12, 17, 24, 80, "bidirectional"),
            (3, 1, 8, 600, "forward"),  # … for some of the hidden units
            (3, 5, 8, 600, "bidirectional"),
        ],
    )
    def test_results_are_near_the_reference_and_have_the_same_bits(
        self, name, steps, batch, inputs, hidden, direction
    ) -> None:
        operator = made(name, steps, batch, inputs, hidden, direction=direction)
        arrays = arrays_of(operator, 1)
        results = [run(operator, *arrays, threads=threads) for threads in (1, 2, 3)]
        compare(operator, results[0], arrays)
        for others in results[1:]:
            for one, other in zip(results[0], others, strict=True):
                np.testing.assert_array_equal(one, other)

    def test_many_steps_are_multiplied_in_several_chunks(self, name) -> None:
        operator = made(name, 300, 3, 5, 150, direction="bidirectional", absent=("hidden_init",))
        check(operator, arrays_of(operator, 2), threads=2)


@pytest.mark.parametrize("name", GATES)
class TestSpecialValues:
    @pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1e-40, 3e38])
    @pytest.mark.parametrize("field", ["input", "weight", "recurrence", "bias", "hidden_init"])
    def test_one_special_number(self, name, field, number) -> None:
        operator = made(name, 3, 2, 3, 5)
        arrays = arrays_of(operator, 3)
        arrays[operator.input_fields.index(field)][..., -1, 1] = number
        check(operator, arrays)

    def test_a_product_beyond_the_range_of_float32(self, name) -> None:
        operator = made(name, 2, 1, 1, 1)
        arrays = arrays_of(operator, 2)
        arrays[0][...], arrays[1][...] = 3e38, -3e38
        check(operator, arrays)


def test_a_batch_of_lengths() -> None:
    """H_t = H_(t−1) + 1 for a hand-made network: what it counts is the length."""
    operator = made(
        "rnn", 3, 5, 1, 2, absent=("hidden_init",), direction="bidirectional",
        activation_descs=["activation_identity"] * 2,
    )  # fmt: skip
    lengths = np.array([0, 1, 2, 3, 9], np.uint32).reshape(1, 1, 1, 5)
    ones, eye = np.ones((1, 3, 5, 1), np.float32), np.eye(2, dtype=np.float32)[None, None].repeat(2, 1)
    bias = np.array([0.5, 0.5, 0, 0] * 2, np.float32).reshape(1, 1, 2, 4)
    sequence, last = run(operator, ones, np.full((1, 2, 2, 1), 0.5, np.float32), eye, bias, None, lengths)
    steps = np.minimum(lengths[0, 0, 0], 3)
    for direction in range(2):
        np.testing.assert_array_equal(last[0, direction], np.repeat(steps[:, None], 2, 1))
        for time in range(3):
            counted = time + 1 if direction == 0 else steps - time
            expected = np.where(time < steps, counted, 0)
            np.testing.assert_array_equal(sequence[time, direction], np.repeat(expected[:, None], 2, 1))


LEVELS = """
import sys
import numpy as np
sys.path.insert(0, {tests!r})
from devices.cpu import test_recurrent as tests
for name in tests.GATES:
    for batch, hidden in ((1, 9), (1, 140), (5, 20), (16, 33)):
        operator = tests.made(name, 4, batch, 7, hidden)
        tests.check(operator, tests.arrays_of(operator, batch))
"""


@pytest.mark.parametrize("level", ["baseline", "avx2", "avx512"])
def test_every_level(level) -> None:
    environment = os.environ | {"DMLGRAPH_CPU_LEVEL": level}
    code = LEVELS.format(tests=str(Path(__file__).parents[2]))
    subprocess.run([sys.executable, "-P", "-c", code], check=True, env=environment)
