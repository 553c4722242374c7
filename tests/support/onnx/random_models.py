"""Random ONNX models of one operator each, with ONNX Runtime as the judge.

A sample's operator, opset, sizes, attributes and types are random; what ONNX lets be left out is left out at times.
The numbers are small, so that ONNX Runtime's own roundings stay small.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

Array = np.ndarray[Any, Any]
OPSETS = range(7, 23)
FAMILIES = (
    "support.onnx.random_arithmetic",
    "support.onnx.random_layers",
    "support.onnx.random_movement",
)  # modules with rules


@dataclasses.dataclass
class Sample:
    """A model and its inputs.

    Attributes:
        model: checked by onnx.
        feeds: arrays by the names of the inputs.
        exact: whether results must be the same.
    """

    model: onnx.ModelProto
    feeds: dict[str, Array]
    exact: bool = False

    @property
    def operator(self) -> str:
        return str(self.model.graph.node[0].op_type)

    @property
    def title(self) -> str:
        """The operator with its attributes and the sizes of its inputs."""
        (node,) = self.model.graph.node
        attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        known = {each.name: onnx.numpy_helper.to_array(each) for each in self.model.graph.initializer}
        inputs = [
            "-"
            if not name
            else f"{self.feeds[name].dtype}{list(self.feeds[name].shape)}"
            if name in self.feeds
            else f"{known[name].dtype}{known[name].tolist() if known[name].size < 9 else list(known[name].shape)}"
            for name in node.input
        ]
        return f"{node.op_type} {self.model.opset_import[0].version} {attributes} ({', '.join(inputs)})"


class Maker:
    """Makes the parts of a sample.

    Attributes:
        rng: the source of all choices.
        opset: of the model.
        operator: that of the sample.
        kind: of its numbers, see `numbers`.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.opset = 0
        self.operator = ""
        self.inputs: list[str] = []
        self.feeds: dict[str, Array] = {}
        self.known: list[onnx.TensorProto] = []
        self.attributes: dict[str, Any] = {}
        self.kind = ""

    def one_of(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def maybe(self, chance: float = 0.5) -> bool:
        return bool(self.rng.random() < chance)

    def whole(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def shape(self, low: int = 1, high: int = 4, most: int = 5) -> list[int]:
        return [self.whole(1, most) for _ in range(self.whole(low, high))]

    def numbers(self, shape: Sequence[int], kind: str = "", dtype: str = "float32") -> Array:
        """Numbers that suit an operator."""
        if kind == "integers" or np.dtype(dtype).kind in "iu":
            low = 0 if np.dtype(dtype).kind == "u" else -5
            whole = self.rng.integers(low, 6, shape)
            return np.asarray(np.where(whole == 0, 1, whole) if kind == "integers" else whole).astype(
                dtype if kind != "integers" or np.dtype(dtype).kind != "f" else "int32"
            )
        if dtype == "bool":
            return np.asarray(self.rng.random(shape) < 0.5)
        x = self.rng.normal(size=shape)
        x = {
            "cosine": lambda x: np.tanh(x) * 0.9,
            "above_one": lambda x: 1.1 + np.abs(x),
            "positive": lambda x: 0.2 + np.abs(x),
        }.get(kind, lambda x: x)(x)
        return np.asarray(x).astype(dtype)

    def give(self, array: Any) -> None:
        """An input of the model; now and then a constant instead."""
        name = f"x{len(self.inputs)}"
        array = np.asarray(array)
        if self.feeds and self.maybe(0.3):
            self.known.append(onnx.numpy_helper.from_array(array, name))
        else:
            self.feeds[name] = array
        self.inputs.append(name)

    def fix(self, array: Any, dtype: str = "int64") -> None:
        """An input that is a constant: a shape, axes, indices."""
        name = f"x{len(self.inputs)}"
        self.known.append(onnx.numpy_helper.from_array(np.asarray(array, dtype), name))
        self.inputs.append(name)

    def skip(self) -> None:
        """An optional input that is left out."""
        self.inputs.append("")

    def axis(self, rank: int) -> int:
        axis = self.whole(0, rank - 1)
        return axis - rank if self.maybe() and self.opset >= 11 else axis

    def axes(self, rank: int) -> list[int]:
        chosen = sorted(self.rng.permutation(rank)[: self.whole(1, rank)].tolist())
        return [each - rank if self.opset >= 11 and self.maybe(0.3) else each for each in chosen]

    def broadcasting(self, shape: Sequence[int]) -> list[int]:
        """A shape that broadcasts to this one, maybe of fewer dimensions."""
        cut = shape[self.whole(0, len(shape)) if self.maybe(0.4) else 0 :]
        return [1 if self.maybe(0.3) else size for size in cut]

    def sample(self, outputs: int = 1, *, exact: bool = False) -> Sample:
        while self.inputs and not self.inputs[-1]:
            self.inputs.pop()
        names = [f"y{index}" for index in range(outputs)]
        attributes = {key: each for key, each in self.attributes.items() if each is not None}
        node = helper.make_node(self.operator, self.inputs, names, **attributes)
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in self.feeds.items()
        ]
        graph = helper.make_graph([node], "random", inputs, [onnx.ValueInfoProto(name=n) for n in names], self.known)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        return Sample(model, self.feeds, exact)


Rule = Callable[[Maker], Sample]
_RULES: list[tuple[str, int, Rule]] = []  # one for each operator, several for those with many forms


def makes(operators: str, since: int = 7) -> Callable[[Rule], Rule]:
    """Enters a rule for operators, with the first opset in which it holds."""

    def enter(rule: Rule) -> Rule:
        _RULES.extend((each, since, rule) for each in operators.split())
        return rule

    return enter


def sample(seed: int) -> Sample:
    """The sample of a seed."""
    m = Maker(seed)
    for family in FAMILIES:
        importlib.import_module(family)
    operator, since, rule = m.one_of(*_RULES)
    m.operator, _, m.kind = operator.partition(":")
    versions = [each.since_version for each in onnx.defs.get_all_schemas_with_history() if each.name == m.operator]
    m.opset = m.whole(max(since, min(versions), OPSETS[0]), OPSETS[-1])
    return rule(m)
