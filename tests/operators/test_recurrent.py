"""RNN, LSTM and GRU, compared with their equations number by number, and with ONNX's."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from support.operators.checks import OperatorTests
from support.operators.harness import (
    FLOATS,
    INF,
    NAN,
    Array,
    Case,
    add_node,
    build,
    case,
    operator_class,
    refused,
    run_all,
)
from support.operators.literal import some
from support.operators.onnx_model import evaluate

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName

T, B, X, H = 3, 2, 3, 2  # steps, sequences, input numbers per step, hidden size
GATES = {"rnn": 1, "lstm": 4, "gru": 3}
DIRECTIONS = {"forward": (False,), "backward": (True,), "bidirectional": (False, True)}
Function = Callable[[float], float]
FUNCTIONS: dict[str, Function] = {
    "activation_tanh": math.tanh,
    "activation_sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "activation_relu": lambda x: max(x, 0.0),
    "activation_softsign": lambda x: x / (1 + abs(x)),
}
LEAKY = {"op": "activation_leaky_relu", "alpha": 0.25}
STATE = ("hidden_init", "cell_mem_init")
OUTPUTS = ("output_sequence", "output_single", "output_cell_single")


def function(activation: Any) -> Function:
    return (lambda x: x if x > 0 else 0.25 * x) if activation is LEAKY else FUNCTIONS[activation]


# The equations: all tensors of one direction by name, the numbers of one step, and the state → the next state.


State = tuple[list[float], list[float]]


def weighted(part: dict[str, Any], gate: int, x: Sequence[float], hidden: Sequence[float]) -> State:
    """W · x + Wb and R · H + Rb of a gate."""
    rows = range(gate * H, gate * H + H)
    both = []
    for matrix, vector, bias in ((part["weight"], x, 0), (part["recurrence"], hidden, GATES[part["operator"]] * H)):
        products = (sum(float(w) * v for w, v in zip(matrix[row], vector, strict=True)) for row in rows)
        both.append([each + float(part["bias"][bias + row]) for each, row in zip(products, rows, strict=True)])
    return both[0], both[1]


def total(part: dict[str, Any], gate: int, x: Sequence[float], hidden: Sequence[float]) -> list[float]:
    return [a + b for a, b in zip(*weighted(part, gate, x, hidden), strict=True)]


def rnn_step(part: dict[str, Any], x: Sequence[float], hidden: list[float], cell: list[float]) -> State:
    (f,) = part["functions"]
    return [f(each) for each in total(part, 0, x, hidden)], cell


def lstm_step(part: dict[str, Any], x: Sequence[float], hidden: list[float], cell: list[float]) -> State:
    f, g, h = part["functions"]
    bound = part["clip_threshold"] if part["use_clip_threshold"] else math.inf
    sums = [total(part, gate, x, hidden) for gate in range(4)]
    peepholes = part["peephole"]
    new_hidden, new_cell = [], []
    for n in range(H):
        to_input, to_output, to_forget = (float(peepholes[gate * H + n]) for gate in range(3))

        def clip(value: float) -> float:
            return min(max(value, -bound), bound)

        i = f(clip(sums[0][n] + to_input * cell[n]))
        forget = 1 - i if part["couple_input_forget"] else f(clip(sums[2][n] + to_forget * cell[n]))
        c = forget * cell[n] + i * g(clip(sums[3][n]))
        new_cell.append(c)
        new_hidden.append(f(clip(sums[1][n] + to_output * c)) * h(c))
    return new_hidden, new_cell


def gru_step(part: dict[str, Any], x: Sequence[float], hidden: list[float], cell: list[float]) -> State:
    f, g = part["functions"]
    z = [f(each) for each in total(part, 0, x, hidden)]
    r = [f(each) for each in total(part, 1, x, hidden)]
    if part["linear_before_reset"]:
        from_x, from_hidden = weighted(part, 2, x, hidden)
        new = [g(a + gate * b) for a, gate, b in zip(from_x, r, from_hidden, strict=True)]
    else:
        new = [g(each) for each in total(part, 2, x, [gate * old for gate, old in zip(r, hidden, strict=True)])]
    return [(1 - gate) * n + gate * old for gate, n, old in zip(z, new, hidden, strict=True)], cell


MOST = float(np.finfo(np.float32).max)
STEPS = {"rnn": rnn_step, "lstm": lstm_step, "gru": gru_step}


def network(operator: str, tensors: dict[str, Any], **fields: Any) -> dict[str, Array]:
    """Every output, in Python's floats."""
    ways = DIRECTIONS[fields["direction"]]
    count = len(fields["activation_descs"]) // len(ways)
    outputs = {
        "output_sequence": np.zeros((T, len(ways), B, H)),
        "output_single": np.zeros((1, len(ways), B, H)),
        "output_cell_single": np.zeros((1, len(ways), B, H)),
    }
    for d, backward in enumerate(ways):
        part: dict[str, Any] = {"operator": operator, **fields}
        part["functions"] = [function(each) for each in fields["activation_descs"][d * count : (d + 1) * count]]
        part["weight"], part["recurrence"] = tensors["weight"][0, d], tensors["recurrence"][0, d]
        for name, zeros in (("bias", 2 * GATES[operator] * H), ("peephole", 3 * H)):
            given = tensors.get(name)
            part[name] = [0.0] * zeros if given is None else given[0, 0, d]
        for b in range(B):
            state = [
                [0.0] * H if tensors.get(name) is None else list(map(float, tensors[name][0, d, b])) for name in STATE
            ]
            lengths = tensors.get("sequence_lengths")
            times = range(T if lengths is None else int(lengths[0, 0, 0, b]))
            for t in reversed(times) if backward else times:
                state = list(STEPS[operator](part, list(map(float, tensors["input"][0, t, b])), *state))
                outputs["output_sequence"][t, d, b] = state[0]
            outputs["output_single"][0, d, b], outputs["output_cell_single"][0, d, b] = state
    return outputs


# Rows.


def tensors_of(operator: str, of: str, directions: int, leave_out: Sequence[str] = (), lengths: Any = None) -> Any:
    gates = GATES[operator]
    sizes: dict[str, Any] = {
        "input": [1, T, B, X],
        "weight": [1, directions, gates * H, X],
        "recurrence": [1, directions, gates * H, H],
        "bias": [1, 1, directions, 2 * gates * H],
        "hidden_init": [1, directions, B, H],
        "cell_mem_init": [1, directions, B, H],
        "sequence_lengths": None,
        "peephole": [1, 1, directions, 3 * H],
    }
    tensors: dict[str, Any] = {
        field: None if field in leave_out or sizes[field] is None else some(sizes[field], of, -1, 1, seed)
        for seed, field in enumerate(operator_class(operator).input_fields)
    }
    if lengths is not None:
        tensors["sequence_lengths"] = np.array(lengths, "uint32").reshape(1, 1, 1, B)
    return tensors


DEFAULTS: dict[str, dict[str, Any]] = {
    "rnn": {"activation_descs": ["activation_tanh"]},
    "lstm": {
        "activation_descs": ["activation_sigmoid", "activation_tanh", "activation_tanh"],
        "clip_threshold": 0,
        "use_clip_threshold": False,
        "couple_input_forget": False,
    },
    "gru": {"activation_descs": ["activation_sigmoid", "activation_tanh"], "linear_before_reset": False},
}
OPTIONAL = ("bias", "hidden_init", "cell_mem_init", "peephole")


def row(
    operator: str,
    why: str,
    of: str = "float32",
    direction: str = "forward",
    leave_out: Sequence[str] = (),
    lengths: Any = None,
    **fields: Any,
) -> Case:
    ways = len(DIRECTIONS[direction])
    fields = DEFAULTS[operator] | {"direction": direction} | fields
    if len(fields["activation_descs"]) == len(DEFAULTS[operator]["activation_descs"]):
        fields["activation_descs"] = fields["activation_descs"] * ways
    tensors = tensors_of(operator, of, ways, leave_out, lengths)
    outputs = network(operator, tensors, **fields)
    gives = tuple(outputs[field].astype(of) for field in OUTPUTS if field in operator_class(operator).output_fields)
    return case(f"{why}, {direction}", list(tensors.values()), gives, of, **fields)


def rows(operator: str) -> tuple[Case, ...]:
    """The rows of all three operators."""
    several = DEFAULTS[operator]["activation_descs"]
    others = ["activation_softsign", LEAKY, "activation_sigmoid"][: len(several)]
    return (
        *(row(operator, "all", of, direction) for of in FLOATS for direction in DIRECTIONS),
        *(row(operator, "nothing optional", direction=direction, leave_out=OPTIONAL) for direction in DIRECTIONS),
        *(row(operator, "lengths", of, direction, lengths=[2, 1]) for of in FLOATS for direction in DIRECTIONS),
        row(operator, "full lengths", lengths=[3, 3]),
        row(operator, "other functions", activation_descs=others),
        row(operator, "a function for each direction", direction="bidirectional", activation_descs=[*several, *others]),
        *(row(operator, f"no {field}", leave_out=[field]) for field in ("bias", "hidden_init")),
    )


class RecurrentTests(OperatorTests):
    """The checks of all three."""

    levels = "1.0: 4D F32 F16"
    asked: ClassVar[tuple[str, ...]] = ("output_sequence", "output_single")
    ulp: ClassVar = {
        "reference": 1,
        "directml:software": 8,
    }  # sums, and the shader's exp; a state carries their errors on
    ulp_floor: ClassVar = {"reference": 0.1, "directml:software": 1.0}

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        def tensor(name: str, *last: int, of: DataTypeName = dtype) -> Any:
            return graph.input(name, sizes=[*[1] * (rank - len(last)), *last], dtype=of)

        gates = GATES[self.operator]
        inputs = {
            "input": tensor("input", 1),
            "weight": tensor("weight", gates, 1),
            "recurrence": tensor("recurrence", gates, 1),
            "bias": tensor("bias", 2 * gates),
            "hidden_init": tensor("hidden", 1),
            "cell_mem_init": tensor("cell", 1),
            "sequence_lengths": tensor("lengths", 1, of="uint32"),
            "peephole": tensor("peephole", 3),
        }
        fields = operator_class(self.operator).input_fields
        add_node(
            graph, self.operator, [inputs[field] for field in fields], **DEFAULTS[self.operator], direction="forward"
        )

    def fields(self, **changes: Any) -> dict[str, Any]:
        return DEFAULTS[self.operator] | {"direction": "forward"} | changes

    # Outputs that are left out.

    def test_each_output_may_be_left_out(self, device: DeviceName) -> None:
        outputs = operator_class(self.operator).output_fields
        for index, field in enumerate(outputs):
            got = run_all(self.operator, self.sample.inputs, device=device, **self.sample.fields, **{field: False})
            kept = [each for at, each in enumerate(self.sample.gives) if at != index]
            assert len(got) == len(kept)
            for each, expected in zip(got, kept, strict=True):
                self.assert_close(each, expected, device)

    def test_one_output_must_be_wanted(self) -> None:
        without = dict.fromkeys(operator_class(self.operator).output_fields, False)
        error = refused(self.operator, self.sample.inputs, **self.sample.fields, **without)
        assert (error.field, error.code) == ("output_sequence", "missing")

    # Sizes.

    @pytest.mark.parametrize("field", ["weight", "bias", "hidden_init", "sequence_lengths"])
    def test_sizes_follow_from_input_recurrence_and_direction(self, field: str) -> None:
        tensors = tensors_of(self.operator, "float32", 1, lengths=[1, 2])
        right = tensors[field].shape
        tensors[field] = np.ones([*right[:-1], right[-1] + 1], tensors[field].dtype)
        error = refused(self.operator, list(tensors.values()), **self.fields())
        assert (error.field, error.got) == (f"{field}.sizes", list(tensors[field].shape))
        assert error.allowed == str(list(right))

    def test_two_directions_want_the_weights_of_two(self) -> None:
        tensors = tensors_of(self.operator, "float32", 1)
        functions = self.fields()["activation_descs"] * 2
        problems = refused(
            self.operator,
            list(tensors.values()),
            **self.fields(direction="bidirectional", activation_descs=functions),
        ).problems
        assert {"weight.sizes", "recurrence.sizes", "bias.sizes"} <= {each.field for each in problems}

    def test_tensors_have_four_dimensions(self) -> None:
        tensors = tensors_of(self.operator, "float32", 1)
        tensors["input"] = tensors["input"][0]
        error = refused(self.operator, list(tensors.values()), **self.fields())
        assert (error.field, error.allowed) == ("input.sizes", "4 sizes")

    # Activations.

    @pytest.mark.parametrize("more", [-1, 1])
    def test_the_direction_says_how_many_functions_there_are(self, more: int) -> None:
        right = self.fields()["activation_descs"]
        wrong = [*right, "activation_relu"] if more > 0 else right[1:]
        error = refused(self.operator, self.sample.inputs, **self.fields(activation_descs=wrong))
        assert (error.field, error.got, error.allowed) == ("activation_descs", len(wrong), str(len(right)))

    @pytest.mark.parametrize("name", ["tanh", {"op": "activation_softmax1", "axes": [3]}, "activation_hardmax"])
    def test_other_functions_are_refused(self, name: Any) -> None:
        right = self.fields()["activation_descs"]
        error = refused(self.operator, self.sample.inputs, **self.fields(activation_descs=[*right[:-1], name]))
        assert (error.field, error.got) == (
            f"activation_descs.{len(right) - 1}",
            name if isinstance(name, str) else name["op"],
        )
        allowed = (error.allowed or "").split(", ")
        assert {"activation_tanh", "activation_celu", "activation_gelu", "activation_shrink"} <= set(allowed)

    def test_a_function_must_exist_at_the_level(self) -> None:
        fields = self.fields(activation_descs=[*self.fields()["activation_descs"][:-1], "activation_gelu"])
        error = refused(self.operator, self.sample.inputs, target="5.0", **fields)
        assert (error.field or "").startswith("activation_descs.")
        assert "does not exist at feature level 5.0; legal from 5.1" in str(error)
        build(self.operator, self.sample.inputs, target="5.1", **fields)

    def test_functions_are_a_list(self) -> None:
        error = refused(self.operator, self.sample.inputs, **self.fields(activation_descs="activation_tanh"))
        assert (error.field, error.code) == ("activation_descs", "kind")

    # Owned tensors: DirectML refuses them here.

    def test_inputs_cannot_be_owned(self) -> None:
        descs = {
            field: None if each is None else dg.TensorDesc(dtype=each.dtype, sizes=each.shape, owned=field == "weight")
            for field, each in zip(operator_class(self.operator).input_fields, self.sample.inputs, strict=True)
        }
        with pytest.raises(dg.OperatorError) as caught:
            operator_class(self.operator)(**descs, **self.sample.fields)
        assert caught.value.field == "weight.owned"

    def test_constants_are_bound_without_being_owned(self, device: DeviceName) -> None:
        """Large ones, which other operators would own, and small ones, which would be constant nodes."""
        tensors = tensors_of(self.operator, "float32", 1)
        graph = dg.Graph("test")
        values = {
            field: None
            if each is None
            else graph.input(field, sizes=each.shape, dtype=each.dtype)
            if field == "input"
            else graph.constant(field, each)
            for field, each in tensors.items()
        }
        node = add_node(graph, self.operator, list(values.values()), **self.fields())
        for index, value in enumerate(node):
            graph.output(f"y{index}", value)
        assert [slot.desc.owned for slot in graph.lower().inputs] == [False] * len(graph.lower().inputs)
        assert len(graph.lower().nodes) == 1
        got = list(graph.compile(device=device, fuse=False).run({"input": tensors["input"]}).values())
        for each, expected in zip(got, row(self.operator, "").gives, strict=True):
            self.assert_close(each, expected, device)


NOT_FINITE = [math.nan, math.inf, -math.inf]
LARGEST = float(np.finfo("float32").max)


def column(of: str, *numbers: float) -> Array:
    return np.array(numbers, of).reshape(1, 1, -1, 1)


class TestRnn(RecurrentTests):
    operator = "rnn"
    sample = row("rnn", "all")
    cases = rows("rnn")

    @pytest.mark.parametrize(("of", "bound"), [("float32", LARGEST), ("float16", math.inf)])
    def test_what_f_is_given_is_clipped(self, of: str, bound: float, device: DeviceName) -> None:
        """NaN becomes the lower bound."""
        inputs = [column(of, *NOT_FINITE, 1), column(of, 1), column(of, 0)]
        fields = self.fields(activation_descs=["activation_identity"])
        sequence, last = run_all("rnn", inputs, device=device, **fields)
        for got in (sequence, last):
            np.testing.assert_array_equal(got.ravel(), [-bound, bound, -bound, 1])


class TestLstm(RecurrentTests):
    operator = "lstm"
    asked: ClassVar = OUTPUTS
    sample = row("lstm", "all")
    cases = (
        *rows("lstm"),
        *(row("lstm", f"no {field}", leave_out=[field]) for field in ("cell_mem_init", "peephole")),
        *(row("lstm", "clipped", of, clip_threshold=0.25, use_clip_threshold=True) for of in FLOATS),
        row("lstm", "a threshold that is not used", clip_threshold=0.25),
        *(row("lstm", "coupled", of, couple_input_forget=True) for of in FLOATS),
        row("lstm", "coupled and clipped", couple_input_forget=True, clip_threshold=0.5, use_clip_threshold=True),
    )

    @pytest.mark.parametrize("of", FLOATS)
    @pytest.mark.parametrize("bound", [3.0, 0.0])
    def test_nan_is_clipped_to_the_least(self, of: str, bound: float, device: DeviceName) -> None:
        """Only c is not 0, and f = 1: C_1 = c and H_1 = c."""
        inputs = [column(of, *NOT_FINITE, 1), column(of, 0, 0, 0, 1), column(of, 0, 0, 0, 0)]
        inputs[0][..., :3, :] = 0  # 0 · NaN is NaN in every gate, so the initial state brings the NaN
        inputs[2][..., 3, :] = 1
        hidden = column(of, *NOT_FINITE, 0)
        functions = ["activation_identity"] * 3
        fields = self.fields(activation_descs=functions, clip_threshold=bound, use_clip_threshold=True)
        *_, cell = run_all("lstm", [*inputs, None, hidden], device=device, **fields)
        # The arguments of i, o and f are 0 · x, which is NaN too, and so clipped: i · c = bound² or −bound².
        np.testing.assert_array_equal(cell.ravel()[:3], [bound**2, -(bound**2), bound**2])

    def test_an_absent_peephole_is_no_zero(self, device: DeviceName) -> None:
        """With infinite cells, zeros would give NaN."""
        zeros = column("float32", 0, 0, 0, 0)
        cell = column("float32", math.inf)
        inputs = [column("float32", 1), zeros, zeros, None, None, cell]
        fields = self.fields(activation_descs=["activation_sigmoid", "activation_tanh", "activation_tanh"])
        _, hidden, last = run_all("lstm", inputs, device=device, **fields)
        assert (hidden.item(), last.item()) == (0.5, math.inf)

    def test_the_peephole_of_the_output_sees_the_new_cell(self, device: DeviceName) -> None:
        """All weights except Po are zero: with C_0 = 0 and c = tanh(1), C_1 = 0.5 · c, and o = sigmoid(Po · C_1)."""
        x, zeros = np.zeros([1, 1, 1, 1], "float32"), np.zeros([1, 1, 4, 1], "float32")
        bias = np.zeros([1, 1, 1, 8], "float32")
        bias[..., 3] = 1
        peephole = np.array([0, 4, 0], "float32").reshape(1, 1, 1, 3)
        inputs = [x, zeros, zeros, bias, None, None, None, peephole]
        _, hidden, cell = run_all("lstm", inputs, device=device, **self.fields())
        new = 0.5 * math.tanh(1)
        np.testing.assert_allclose(cell.item(), new, rtol=1e-6)
        np.testing.assert_allclose(hidden.item(), math.tanh(new) / (1 + math.exp(-4 * new)), rtol=1e-6)


class TestGru(RecurrentTests):
    operator = "gru"
    sample = row("gru", "all")
    cases = (
        *rows("gru"),
        *(row("gru", "linear before reset", of, linear_before_reset=True) for of in FLOATS),
        row("gru", "linear before reset", direction="bidirectional", linear_before_reset=True),
    )


ONNX_OP = {"rnn": "RNN", "lstm": "LSTM", "gru": "GRU"}


@pytest.mark.parametrize("operator", ["rnn", "lstm", "gru"])
def test_forward_is_what_onnx_has(operator: str, device: DeviceName) -> None:
    tensors = tensors_of(operator, "float32", 1)
    hidden, cell = (None if tensors.get(name) is None else tensors[name][0] for name in STATE)
    inputs = [
        tensors["input"][0],
        tensors["weight"][0],
        tensors["recurrence"][0],
        tensors["bias"][0, 0],
        None,
        hidden,
        *(() if cell is None else (cell, tensors["peephole"][0, 0])),
    ]
    expected = evaluate(ONNX_OP[operator], inputs, outputs=2, hidden_size=H)
    got = run_all(operator, list(tensors.values()), device=device, **DEFAULTS[operator], direction="forward")
    np.testing.assert_allclose(got[0], expected[0].reshape(T, 1, B, H), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[1], expected[1].reshape(1, 1, B, H), rtol=1e-5, atol=1e-6)


def test_a_file_has_functions_by_name_and_with_attributes(tmp_path: pathlib.Path) -> None:
    graph = dg.Graph("test")
    tensors = tensors_of("rnn", "float32", 2, leave_out=OPTIONAL)
    values = [
        None if each is None else graph.input(name, sizes=each.shape, dtype="float32") for name, each in tensors.items()
    ]
    functions = ["activation_tanh", LEAKY]
    sequence, _ = add_node(graph, "rnn", values, activation_descs=functions, direction="bidirectional")
    graph.output("y", sequence)
    file = tmp_path / "test.yaml"
    graph.save(file)
    assert "activation_descs: [activation_tanh, {op: activation_leaky_relu, alpha: 0.25}]" in file.read_text(
        encoding="utf-8"
    )
    assert dg.load(file).lower() == graph.lower()


def test_a_large_sequence_is_bound_without_being_owned(device: DeviceName) -> None:
    """One that DirectML's fill does not compute, read by a network that accepts no owned tensors."""
    graph, count = dg.Graph("test"), 2**18 + 1
    x = graph.input("x", sizes=[1, 1, 1, count], dtype="float32")
    weight = graph.fill_value_sequence(sizes=[1, 1, 1, count], dtype="float32", value_start=0, value_delta=2**-36)
    recurrence = graph.constant("recurrence", np.zeros([1, 1, 1, 1], "float32"))
    _, last = add_node(graph, "rnn", [x, weight, recurrence], **DEFAULTS["rnn"], direction="forward")
    graph.output("y", last)
    got = graph.compile(device=device, fuse=False).run({"x": np.ones([1, 1, 1, count], "float32")})["y"]
    np.testing.assert_allclose(got.item(), math.tanh(sum(range(count)) * 2.0**-36), rtol=1e-4)


@pytest.mark.parametrize("dtype", FLOATS)
def test_what_activations_are_given_is_clipped_to_float32(dtype: str, device: DeviceName) -> None:
    """NaN becomes the lower bound; a tanh gives −1 for it."""
    x = np.array([NAN, INF, -INF, 2], dtype).reshape(1, 1, 4, 1)
    one, zero = (np.full([1] * 4, number, dtype) for number in (1, 0))
    for function, gives in (
        ("activation_identity", [-MOST, MOST, -MOST, 2]),
        ("activation_tanh", [-1, 1, -1, np.tanh(2)]),
    ):
        fields = {"direction": "forward", "activation_descs": [function], "output_sequence": False}
        *_, got = run_all("rnn", [x, one, zero], device=device, output_single=True, **fields)
        with np.errstate(over="ignore"):  # these are infinite in float16
            np.testing.assert_allclose(got.ravel(), np.array(gives).astype(dtype), rtol=1e-3)
