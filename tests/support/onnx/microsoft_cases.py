"""Models of one operator of com.microsoft, and what ONNX Runtime's CPU computes of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime

import dmlgraph as dg
from dmlgraph.devices import choose
from dmlgraph.devices.names import DeviceName
from dmlgraph.formats.onnx.importer import Importer
from dmlgraph.formats.onnx.model import prepare

Array = np.ndarray[Any, Any]
BOUNDS = {"float32": 2e-5, "float16": 4e-3}  # of differences, as a part of the greatest number
SOFTWARE: DeviceName = "directml:software"
ON_SOFTWARE = 4  # cases of an operator that also run there
OLD = dg.FeatureLevel.V5_1  # a target that needs compositions
FEW = 0.05  # the part of quantized numbers that may differ by a step


@dataclasses.dataclass
class Case:
    """A model of one node.

    Attributes:
        operator: its name.
        inputs: in order; None for one that is left out.
        attributes: of the node.
        outputs: which are asked for.
        known: the indices of inputs that are initializers.
        domain: of the operator.
        opset: of ONNX's own domain.
        bound: of differences, as a part of the greatest number; by default that of the type.
        steps: how many steps integers may differ by; FEW of them may at all.
    """

    operator: str
    inputs: Sequence[Array | None]
    attributes: dict[str, Any] = dataclasses.field(default_factory=dict)
    outputs: tuple[bool, ...] = (True,)
    known: tuple[int, ...] = ()
    domain: str = "com.microsoft"
    opset: int = 21
    bound: float | None = None
    steps: int = 0

    @property
    def names(self) -> list[str]:
        return ["" if each is None else f"x{index}" for index, each in enumerate(self.inputs)]

    def model(self) -> onnx.ModelProto:
        outputs = [f"y{index}" if wanted else "" for index, wanted in enumerate(self.outputs)]
        node = onnx.helper.make_node(
            self.operator, self.names, outputs, name="n", domain=self.domain, **self.attributes
        )
        given = [(name, each) for name, each in zip(self.names, self.inputs, strict=True) if each is not None]
        fixed = {f"x{index}" for index in self.known}
        graph = onnx.helper.make_graph(
            [node],
            "g",
            [
                onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
                for name, each in given
                if name not in fixed
            ],
            [onnx.helper.make_empty_tensor_value_info(name) for name in outputs if name],
            [onnx.numpy_helper.from_array(each, name) for name, each in given if name in fixed],
        )
        opsets = [onnx.helper.make_opsetid("", self.opset), onnx.helper.make_opsetid("com.microsoft", 1)]
        return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def feeds(self) -> dict[str, Array]:
        pairs = enumerate(zip(self.names, self.inputs, strict=True))
        return {name: each for index, (name, each) in pairs if each is not None and index not in self.known}

    def expected(self) -> list[Array]:
        """By ONNX Runtime, without its optimizations."""
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(
            self.model().SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return [np.asarray(each) for each in session.run(None, self.feeds())]

    def graph(self, target: dg.FeatureLevel | None = None) -> dg.Graph:
        """Imported."""
        prepared = prepare(ir.from_proto(self.model()))
        return Importer(prepared, dims={}, values={}, target=target, convert=None).read()

    def run(self, device: DeviceName, target: dg.FeatureLevel | None = None) -> list[Array]:
        """The results of a device; the target is its level unless another is given."""
        graph = self.graph(target or choose(device).device.level)
        given = self.feeds()
        feeds = {node.name: given[node.name].astype(node.desc.dtype.numpy) for node in graph.inputs}
        feeds = {node.name: feeds[node.name].reshape(node.desc.sizes) for node in graph.inputs}
        return list(graph.compile(device=device).run(feeds).values())

    def check(self, expected: list[Array], *devices: DeviceName, target: dg.FeatureLevel | None = None) -> None:
        """Compares the results of devices.

        Raises:
            AssertionError: they differ by more than the bounds.
        """
        for device in devices:
            got = self.run(device, target)
            assert len(got) == len(expected)
            for result, wanted in zip(got, expected, strict=True):
                self._compare(result, wanted, device)

    def _compare(self, got: Array, wanted: Array, device: DeviceName) -> None:
        assert got.shape == (wanted.shape or (1,)), device
        got = got.reshape(wanted.shape)
        assert got.dtype == wanted.dtype, device
        if wanted.dtype.kind == "f":
            bound = self.bound or BOUNDS[str(wanted.dtype)]
            greatest = max(float(np.abs(wanted.astype(np.float64)).max()), 1e-6)
            got, wanted = got.astype(np.float64), wanted.astype(np.float64)
            np.testing.assert_allclose(got, wanted, 0, bound * greatest, err_msg=device)
            return
        away = np.abs(got.astype(np.int64) - wanted.astype(np.int64))
        assert away.max(initial=0) <= self.steps, device
        assert (away != 0).sum() <= max(FEW * away.size, 1), device


class Chance:
    """Random numbers and choices of a case."""

    def __init__(self, *seed: int) -> None:
        self.numbers = np.random.default_rng(seed)

    def floats(self, *sizes: int, dtype: Any = np.float32) -> Array:
        return self.numbers.normal(size=sizes).astype(dtype)

    def positive(self, *sizes: int, least: float = 0.01, most: float = 0.1) -> Array:
        """Such as scales."""
        return np.asarray(self.numbers.uniform(least, most, sizes), np.float32)

    def whole(self, dtype: Any, *sizes: int) -> Array:
        """All numbers of a type of 8 bits."""
        limits = np.iinfo(dtype)
        return np.asarray(self.numbers.integers(limits.min, limits.max + 1, sizes), dtype)

    def weights(self, dtype: Any, *sizes: int) -> Array:
        """The same, of int8 in 7 bits: ONNX Runtime's kernels may saturate sums of 16 bits."""
        numbers = self.whole(dtype, *sizes)
        return numbers // 2 if dtype is np.int8 else numbers

    def below(self, count: int, *sizes: int, dtype: Any = np.int32) -> Array:
        return np.asarray(self.numbers.integers(0, count, sizes), dtype)

    def size(self, least: int, most: int) -> int:
        return int(self.numbers.integers(least, most + 1))

    def one(self, *choices: Any) -> Any:
        return choices[self.size(0, len(choices) - 1)]

    def flag(self) -> int:
        return self.size(0, 1)

    def maybe(self, value: Any) -> Any:
        return value if self.flag() else None


Maker = Callable[[Chance], Case]


class Makers:
    """Functions that make random cases, by name, with how many cases a test makes."""

    def __init__(self) -> None:
        self._all: dict[str, tuple[Maker, int, bool]] = {}

    def __call__(self, count: int, *, old: bool = True) -> Callable[[Maker], Maker]:
        """Enters a maker; `old` says whether an old feature level has what the cases need."""

        def enter(maker: Maker) -> Maker:
            self._all[maker.__name__.strip("_")] = maker, count, old
            return maker

        return enter

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def check(self, name: str) -> None:
        """Compares all cases of a maker with ONNX Runtime, on the devices that compute on the processor.

        Some also run on the real DirectML, and all for an old level.
        """
        maker, count, old = self._all[name]
        for index in range(count):
            case = maker(Chance(*name.encode(), index))
            devices: list[DeviceName] = ["reference", "cpu", *([SOFTWARE] if index < ON_SOFTWARE else [])]
            try:
                expected = case.expected()
                case.check(expected, *devices)
                if old:
                    case.check(expected, "cpu", target=OLD)
            except Exception as error:
                shapes = [None if each is None else (each.shape, str(each.dtype)) for each in case.inputs]
                error.add_note(f"case {index}: {shapes}, {case.attributes}, known: {case.known}")
                raise
