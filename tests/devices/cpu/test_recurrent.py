"""Recurrent networks of the CPU executor equal the reference's, in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from near import desc, filled, layouts, make, run, seeds

# Operator → gates, activations, its own fields.
NETWORKS: dict[str, tuple[int, list[str], dict[str, Any]]] = {
    "rnn": (1, ["activation_tanh"], {}),
    "lstm": (
        4,
        ["activation_sigmoid", "activation_tanh", "activation_softsign"],
        {"clip_threshold": 1.5, "use_clip_threshold": False, "couple_input_forget": False},
    ),
    "gru": (3, ["activation_sigmoid", "activation_tanh"], {"linear_before_reset": False}),
}
counts = st.integers(1, 4)


def made(name: str, steps: int, batch: int, inputs: int, hidden: int, **more: Any) -> Any:
    gates, activations, own = NETWORKS[name]
    directions = 2 if more.get("direction") == "bidirectional" else 1
    dtype = more.pop("dtype", "float32")
    state = desc((1, directions, batch, hidden), dtype)
    optional = {
        "bias": desc((1, 1, directions, 2 * gates * hidden), dtype),
        "hidden_init": state,
        "sequence_lengths": desc((1, 1, 1, batch), "uint32"),
    }
    if name == "lstm":
        optional |= {"cell_mem_init": state, "peephole": desc((1, 1, directions, 3 * hidden), dtype)}
    absent = more.pop("absent", ())
    fields = {
        "input": desc((1, steps, batch, inputs), dtype),
        "weight": desc((1, directions, gates * hidden, inputs), dtype),
        "recurrence": desc((1, directions, gates * hidden, hidden), dtype),
        **{field: None if field in absent else each for field, each in optional.items()},
        "activation_descs": activations * directions,
        "direction": "forward",
        **own,
    }
    return make(name, **fields | more)


def arrays_of(operator: Any, seed: int, layout: str = "packed") -> list[Any]:
    arrays = filled(operator, seed, layout)
    place = operator.input_fields.index("sequence_lengths")
    if arrays[place] is not None:
        steps = operator.input.sizes[1]
        arrays[place] = np.random.default_rng(seed).integers(1, steps + 1, arrays[place].shape).astype(np.uint32)
    return [each * each.dtype.type(0.3) if each is not None and each.dtype.kind == "f" else each for each in arrays]


def check(operator: Any, arrays: list[Any]) -> None:
    tolerance = 4e-3 if operator.input.dtype.numpy == np.float16 else 2e-5
    for got, expected in zip(run(operator, *arrays), operator.evaluate(*arrays), strict=True):
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("name", NETWORKS)
class TestRecurrent:
    @given(
        counts, counts, counts, counts, st.sampled_from(["float32", "float16"]),
        st.sampled_from(["forward", "backward", "bidirectional"]),
        st.sets(st.sampled_from(["bias", "hidden_init", "sequence_lengths", "cell_mem_init", "peephole"])),
        layouts, seeds,
    )  # fmt: skip
    def test_is_near_the_reference(self, name, steps, batch, inputs, hidden, dtype, direction, absent, layout, seed):
        operator = made(name, steps, batch, inputs, hidden, dtype=dtype, direction=direction, absent=absent)
        check(operator, arrays_of(operator, seed, layout))

    def test_a_large_one(self, name) -> None:
        operator = made(name, 20, 32, 128, 96)
        # Small weights: the state of a network with large ones is chaotic, and an error grows with every step.
        arrays = [each if each is None or each.dtype.kind == "u" else each / 32 for each in arrays_of(operator, 1)]
        check(operator, arrays)

    def test_an_activation_that_hides_an_overflow(self, name) -> None:
        operator = made(
            name, 2, 1, 2, 1, absent=("hidden_init", "sequence_lengths", "bias", "cell_mem_init", "peephole")
        )
        arrays = [each if each is None else np.full_like(each, 3e38) for each in arrays_of(operator, 2)]
        arrays[operator.input_fields.index("input")][..., 1] = -3e38
        for got, expected in zip(run(operator, *arrays), operator.evaluate(*arrays), strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("lstm", {"use_clip_threshold": True, "clip_threshold": 0.25}),
        ("lstm", {"couple_input_forget": True}),
        ("gru", {"linear_before_reset": True}),
        ("gru", {"linear_before_reset": True, "absent": ("bias",)}),
        ("rnn", {"activation_descs": ["activation_relu"]}),
    ],
)
def test_variants(name, fields) -> None:
    operator = made(name, 4, 3, 5, 2, **fields)
    check(operator, arrays_of(operator, 3))
