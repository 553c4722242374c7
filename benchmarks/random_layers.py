"""Random nodes of ONNX on the device `cpu`, beside ONNX Runtime: which kinds of layers are slower than its?

    python benchmarks/random_layers.py [--kinds convolution …] [--seed 0] [--seconds 60] [--threads 1] [--above 1.3]

Sizes are drawn so that their logarithms are uniform: small ones are as frequent as large ones.  Each case is a model of
one or two nodes, with weights as constants.  Outputs are compared first.  A time is the least of some rounds, in which
both libraries take turns; each round calls one for a millisecond and a half.  Cases whose ratio of times is above
`--above` are listed, then a line for each operator: the number of cases, the geometric mean of their ratios, and how
many are above.  Below 3 µs a ratio is that of the libraries' calls, so such cases are left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import pathlib
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
from beside import geometric_mean

import dmlgraph as dg

Array = np.ndarray
ROUND = 0.0015  # seconds of calls in a row
ROUNDS = 30
LARGEST = 8_000_000  # elements of a tensor
MOST = 2e9  # multiplications and additions of a case
SHORTEST = 3e-6  # seconds of a case
ACTIVATIONS = "Relu", "Sigmoid", "LeakyRelu", "HardSwish", "Tanh"
FUNCTIONS = (
    "Exp", "Log", "Sqrt", "Tanh", "Sigmoid", "Erf", "Gelu", "Mish", "HardSwish", "Softplus", "Elu", "Abs", "Neg",
    "Floor", "Sin", "Reciprocal", "Sign",
)  # fmt: skip
REDUCTIONS = "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceProd", "ReduceLogSumExp"
NORMALIZATIONS = "Softmax", "LogSoftmax", "LayerNormalization", "InstanceNormalization", "BatchNormalization", "LRN"


class TooLargeError(Exception):
    """A case takes too long, or its tensors are too large, or its windows do not fit."""


@dataclasses.dataclass
class Draft:
    """A node in the making; `what` tells its sizes."""

    operator: str
    inputs: list[Array]
    constants: list[Array] = dataclasses.field(default_factory=list)
    attributes: dict[str, Any] = dataclasses.field(default_factory=dict)
    outputs: int = 1
    activation: str | None = None
    what: str = ""

    def model(self) -> onnx.ModelProto:
        """The inputs are x0, x1, …, then come the constants; the outputs are y0, …."""
        names = [f"x{i}" for i in range(len(self.inputs))]
        weights = [onnx.numpy_helper.from_array(each, f"w{i}") for i, each in enumerate(self.constants)]
        made = [f"y{i}" for i in range(self.outputs)]
        first = ["sum", *made[1:]] if self.activation else made
        read = names + [each.name for each in weights]
        nodes = [onnx.helper.make_node(self.operator, read, first, "node", **self.attributes)]
        if self.activation:
            nodes.append(onnx.helper.make_node(self.activation, ["sum"], made[:1], "activation"))
        infos = [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
            for name, each in zip(names, self.inputs, strict=True)
        ]
        outputs = [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in made]
        graph = onnx.helper.make_graph(nodes, "case", infos, outputs, weights)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)


class Chance:
    """Draws sizes and numbers."""

    def __init__(self, seed: int) -> None:
        self._random, self._numbers = random.Random(seed), np.random.default_rng(seed)
        self.one_of, self.maybe = self._random.choice, lambda part: self._random.random() < part

    def size(self, low: int, high: int) -> int:
        return round(math.exp(self._random.uniform(math.log(low), math.log(high))))

    def numbers(self, *shape: int) -> Array:
        if math.prod(shape) > LARGEST:
            raise TooLargeError
        return self._numbers.standard_normal(shape, np.float32)

    def positive(self, *shape: int) -> Array:
        return np.abs(self.numbers(*shape)) + np.float32(0.1)

    def indices(self, below: int, *shape: int) -> Array:
        return self._numbers.integers(0, below, shape)

    def shape(self, ranks: tuple[int, ...] = (2, 3, 4)) -> list[int]:
        rank, left, sizes = self.one_of(ranks), self.size(64, 2_000_000), []
        for _ in range(rank - 1):
            sizes.append(self.size(1, max(2, round(left ** (1.5 / rank)))))
            left = max(1, left // sizes[-1])
        sizes.append(left)
        self._random.shuffle(sizes)
        return sizes

    def order(self, rank: int) -> list[int]:
        return self._random.sample(range(rank), rank)


def _windows(c: Chance, rank: int, *, backward: bool = False) -> Draft:
    """A convolution of 1 to 3 spatial dimensions."""
    batch = c.one_of([1, 1, 1, 2, 4])
    side = c.size(16, 16000) if rank == 1 else c.size(5, 160) if rank == 2 else c.size(4, 40)
    channels, filters = c.size(1, 256), c.size(1, 256)
    taps = c.one_of([1, 3, 5, 7, 9, 15, 31] if rank == 1 else [1, 1, 3, 3, 3, 5, 7, 2, 4] if rank == 2 else [1, 3])
    taps = c.one_of([2, 2, 3, 4, 4, 5]) if backward else taps
    stride, dilation = c.one_of([1, 2, 2, 2, 3] if backward else [1, 1, 1, 2, 3]), c.one_of([1, 1, 1, 1, 2, 3])
    groups = 1
    if c.maybe(0.2):
        groups = c.one_of([2, 4, 8])
        channels, filters = -(-channels // groups) * groups, -(-filters // groups) * groups
    elif c.maybe(0.2):
        groups, filters = channels, channels
    dilation = 1 if backward else dilation
    span = dilation * (taps - 1) + 1
    operations = 2 * batch * side**rank * channels * filters / groups * taps**rank
    if side < span or operations * (1 if backward else stride**-rank) > MOST:
        raise TooLargeError
    padding = max(0, (taps - stride + 1) // 2) if backward else c.one_of([span // 2, span // 2, 0])
    ends = (channels, filters // groups) if backward else (filters, channels // groups)
    return Draft(
        "ConvTranspose" if backward else "Conv",
        [c.numbers(batch, channels, *[side] * rank)],
        [c.numbers(*ends, *[taps] * rank), c.numbers(filters)],
        {"strides": [stride] * rank, "dilations": [dilation] * rank, "pads": [padding] * 2 * rank, "group": groups},
        activation=c.one_of([None, *ACTIVATIONS]),
    )


def _product(c: Chance) -> Draft:
    rows, depth, columns = c.size(1, 1024), c.size(1, 2048), c.size(1, 2048)
    if 2 * rows * depth * columns > MOST:
        raise TooLargeError
    turns = {"transA": c.one_of([0, 0, 1]), "transB": c.one_of([0, 1])}
    left = c.numbers(depth, rows) if turns["transA"] else c.numbers(rows, depth)
    right = c.numbers(columns, depth) if turns["transB"] else c.numbers(depth, columns)
    bias = c.numbers(columns)
    inputs, constants = ([left], [right, bias]) if c.maybe(0.6) else ([left, right], [bias])
    return Draft("Gemm", inputs, constants, turns)


def _batched(c: Chance) -> Draft:
    batch = [c.size(1, 16) for _ in range(c.one_of([0, 1, 2]))]
    rows, depth, columns = c.size(1, 512), c.size(1, 512), c.size(1, 512)
    if 2 * math.prod(batch) * rows * depth * columns > MOST:
        raise TooLargeError
    right = batch if c.maybe(0.7) else []
    return Draft("MatMul", [c.numbers(*batch, rows, depth), c.numbers(*right, depth, columns)])


def _pooling(c: Chance) -> Draft:
    sizes = c.one_of([1, 2]), c.size(1, 256), *[c.size(4, 150)] * 2
    operator = c.one_of(["MaxPool", "MaxPool", "AveragePool", "GlobalAveragePool"])
    if operator == "GlobalAveragePool":
        return Draft(operator, [c.numbers(*sizes)])
    taps, stride = c.one_of([2, 3, 3, 5, 7]), c.one_of([1, 2, 2, 3])
    if sizes[-1] < taps:
        raise TooLargeError
    padding = c.one_of([0, taps // 2])
    return Draft(
        operator,
        [c.numbers(*sizes)],
        attributes={"kernel_shape": [taps] * 2, "strides": [stride] * 2, "pads": [padding] * 4},
    )


def _normalization(c: Chance) -> Draft:
    operator = c.one_of(
        ["Softmax", "LogSoftmax", "LayerNormalization", "InstanceNormalization", "BatchNormalization", "LRN"]
    )
    if "Softmax" in operator:
        shape = c.shape()
        return Draft(operator, [c.numbers(*shape)], attributes={"axis": c.one_of([-1, -1, *range(1, len(shape))])})
    if operator == "LayerNormalization":
        shape = c.shape()
        return Draft(operator, [c.numbers(*shape)], [c.numbers(shape[-1]) for _ in range(2)])
    channels, side = c.size(1, 128), c.size(2, 100)
    x = c.numbers(c.one_of([1, 2]), channels, side, side)
    if operator == "LRN":
        return Draft(operator, [x], attributes={"size": c.one_of([3, 5])})
    constants = [c.numbers(channels) for _ in range(2 if operator == "InstanceNormalization" else 3)]
    return Draft(operator, [x], constants + [c.positive(channels)] * (operator == "BatchNormalization"))


def _reduction(c: Chance) -> Draft:
    shape = c.shape((1, 2, 3, 4))
    if c.maybe(0.15):
        return Draft("ArgMax", [c.numbers(*shape)], attributes={"axis": c.one_of(range(len(shape)))})
    axes = sorted(c.order(len(shape))[: c.one_of(range(1, len(shape) + 1))])
    return Draft(c.one_of(REDUCTIONS), [c.numbers(*shape)], [np.array(axes)], what=f"axes {axes}")


def _transpose(c: Chance, shape: list[int]) -> Draft:
    return Draft("Transpose", [c.numbers(*shape)], attributes={"perm": c.order(len(shape))})


def _concat(c: Chance, shape: list[int]) -> Draft:
    axis = c.one_of(range(len(shape)))
    other = [c.size(1, 64) if dimension == axis else size for dimension, size in enumerate(shape)]
    return Draft("Concat", [c.numbers(*shape), c.numbers(*other)], attributes={"axis": axis})


def _split(c: Chance, shape: list[int]) -> Draft:
    axis = c.one_of(range(len(shape)))
    if shape[axis] < 2:
        raise TooLargeError
    first = c.size(1, shape[axis] - 1)
    parts = np.array([first, shape[axis] - first])
    return Draft("Split", [c.numbers(*shape)], [parts], {"axis": axis}, outputs=2, what=f"at {first}")


def _slice(c: Chance, shape: list[int]) -> Draft:
    axis, step = c.one_of(range(len(shape))), c.one_of([1, 2, 3, -1])
    ends = (0, shape[axis]) if step > 0 else (shape[axis] - 1, -shape[axis] - 1)
    return Draft(
        "Slice",
        [c.numbers(*shape)],
        [np.array([each]) for each in (*ends, axis, step)],
        what=f"axis {axis} step {step}",
    )


def _gather(c: Chance, shape: list[int]) -> Draft:
    axis = c.one_of(range(len(shape)))
    if c.maybe(0.5):
        indices = c.indices(shape[axis], *shape)
        return Draft("GatherElements", [c.numbers(*shape), indices], attributes={"axis": axis})
    return Draft("Gather", [c.numbers(*shape)], [c.indices(shape[axis], c.size(1, 512))], {"axis": axis})


def _tile(c: Chance, shape: list[int]) -> Draft:
    repeats = [c.one_of([1, 1, 2, 3]) for _ in shape]
    return Draft("Tile", [c.numbers(*shape)], [np.array(repeats)], what=f"by {repeats}")


def _resize(c: Chance, _: list[int]) -> Draft:
    # Whole results: ONNX Runtime aligns the corners of a size with a fraction, the specification the whole one's.
    channels, side, factor = c.size(1, 64), 2 * c.size(2, 40), c.one_of([2.0, 4.0, 0.5, 1.5])
    mode = c.one_of(["nearest", "linear"])
    # ONNX Runtime rounds a nearest element between aligned corners in another way than the specification.
    places = ["half_pixel", "asymmetric", *(["align_corners"] if mode == "linear" else [])]
    modes = {"mode": mode, "coordinate_transformation_mode": c.one_of(places)}
    scales = np.array([1, 1, factor, factor], np.float32)
    return Draft(
        "Resize", [c.numbers(1, channels, side, side)], [np.zeros(0, np.float32), scales], modes, what=f"{factor}"
    )


def _blocks(c: Chance, _: list[int]) -> Draft:
    channels, side = c.size(1, 32), c.size(2, 60)
    if c.maybe(0.5):
        return Draft("SpaceToDepth", [c.numbers(1, channels, 2 * side, 2 * side)], attributes={"blocksize": 2})
    modes = {"blocksize": 2, "mode": c.one_of(["DCR", "CRD"])}
    return Draft("DepthToSpace", [c.numbers(1, 4 * channels, side, side)], attributes=modes)


def _top_k(c: Chance, shape: list[int]) -> Draft:
    count = c.size(1, min(50, shape[-1]))
    return Draft("TopK", [c.numbers(*shape)], [np.array([count])], outputs=2, what=f"{count}")


def _cumulative(c: Chance, shape: list[int]) -> Draft:
    axis = c.one_of(range(len(shape)))
    return Draft("CumSum", [c.numbers(*shape)], [np.array(axis)], what=f"axis {axis}")


MOVEMENTS = _transpose, _concat, _split, _slice, _gather, _tile, _resize, _blocks, _top_k, _cumulative


def _movement(c: Chance) -> Draft:
    return c.one_of(MOVEMENTS)(c, c.shape())


def _element_wise(c: Chance) -> Draft:
    shape = c.shape()
    if c.maybe(0.5):
        return Draft(c.one_of(FUNCTIONS), [c.positive(*shape)])
    other = [size if c.maybe(0.6) else 1 for size in shape][c.one_of([0, 0, 1]) :]
    return Draft(c.one_of(["Add", "Mul", "Sub", "Div", "Max", "Min", "Pow"]), [c.positive(*shape), c.positive(*other)])


def _recurrent(c: Chance) -> Draft:
    operator, gates = c.one_of([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    steps, batch, inputs, hidden = c.size(1, 200), c.size(1, 16), c.size(1, 256), c.size(1, 256)
    directions = c.one_of([1, 2])
    if 2 * steps * batch * hidden * (inputs + hidden) * gates * directions > MOST:
        raise TooLargeError
    shapes = (gates * hidden, inputs), (gates * hidden, hidden), (2 * gates * hidden,)
    weights = [c.numbers(directions, *shape) / 10 for shape in shapes]
    modes = {"hidden_size": hidden, "direction": ["forward", "bidirectional"][directions - 1]}
    return Draft(operator, [c.numbers(steps, batch, inputs)], weights, modes)


KINDS: dict[str, Callable[[Chance], Draft]] = {
    "convolution": lambda c: _windows(c, 2),
    "line": lambda c: _windows(c, 1),
    "volume": lambda c: _windows(c, 3),
    "backward": lambda c: _windows(c, c.one_of([1, 2, 2]), backward=True),
    "product": _product,
    "batched": _batched,
    "pooling": _pooling,
    "normalization": _normalization,
    "reduction": _reduction,
    "movement": _movement,
    "element_wise": _element_wise,
    "recurrent": _recurrent,
}


def _least(calls: list[Callable[[], object]]) -> list[float]:
    """The least seconds of a call of each."""
    least = [math.inf] * len(calls)
    for _ in range(ROUNDS):
        for number, call in enumerate(calls):
            start = time.perf_counter()
            count, taken = 0, 0.0
            while taken < ROUND:
                call()
                count, taken = count + 1, time.perf_counter() - start
            least[number] = min(least[number], taken / count)
            if taken > 20 * ROUND:
                return [min(each, other) for each, other in zip(least, map(_once, calls), strict=True)]
    return least


def _once(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compare(draft: Draft, threads: int) -> tuple[float, float]:
    """The seconds of the device and of ONNX Runtime.

    Raises:
        AssertionError: outputs differ by more than a thousandth of the greatest one.
    """
    model = draft.model()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    inputs = {f"x{i}": each for i, each in enumerate(draft.inputs)}
    expected = session.run(None, inputs)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "case.onnx"
        onnx.save(model, path)
        executable = dg.load(path).compile(device="cpu", threads=threads)
    results = executable.run(inputs)
    binding = session.io_binding()
    for name, each in inputs.items():
        binding.bind_cpu_input(name, each)
    for (name, result), wanted in zip(results.items(), expected, strict=True):
        if result.dtype.kind == "f":
            limit = 1e-3 * max(1.0, float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)))
            np.testing.assert_allclose(result.reshape(wanted.shape), wanted, 1e-3, limit)
        binding.bind_ortvalue_output(name, onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(wanted)))
    own = executable.bind(inputs, {name: np.empty_like(each) for name, each in results.items()})
    seconds = _least([own, lambda: session.run_with_iobinding(binding)])
    return seconds[0], seconds[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--above", type=float, default=1.3, metavar="RATIO")
    arguments = parser.parse_args()
    chance, ratios = Chance(arguments.seed), defaultdict(list)
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        try:
            draft = KINDS[chance.one_of(arguments.kinds)](chance)
        except TooLargeError:
            continue
        own, other = compare(draft, arguments.threads)
        if max(own, other) < SHORTEST:
            continue
        ratios[draft.operator].append(own / other)
        if own / other > arguments.above:
            sizes = " ".join(str(list(each.shape)) for each in draft.inputs + draft.constants)
            fields = " ".join(f"{key}={each}" for key, each in draft.attributes.items())
            print(
                f"{own / other:6.2f} {1e6 * own:10.1f} µs  {draft.operator} {sizes} {fields} {draft.what}", flush=True
            )
    print(f"\n{'operator':24}{'cases':>6}{'mean':>7}{'above ' + str(arguments.above):>11}")
    for operator, found in sorted(ratios.items()):
        above = sum(each > arguments.above for each in found)
        print(f"{operator:24}{len(found):6}{geometric_mean(found):7.2f}{above:11}")


if __name__ == "__main__":
    main()
