"""Checks of operators whose fields depend on the number of dimensions, and that have inputs of several kinds or several
outputs; and ONNX's reference implementation, which has many of them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import dmlgraph as dg

from .checks import OperatorTests, check_level
from .harness import Array, add_node, operator_class, parse_levels, refused


class ShapedTests(OperatorTests):
    """Beside what `OperatorTests` asks for, a subclass states:

    Attributes:
        kinds: a letter for each input; inputs of one letter have one data type.
        main: the letter that `levels` is about.
        dtypes: by letter, a data type that is legal at every level.
        others: by letter, the levels of the other inputs.
    """

    kinds: ClassVar[str] = "x"
    main: ClassVar[str] = "x"
    dtypes: ClassVar[Mapping[str, str]] = {"x": "float32", "i": "uint32"}
    others: ClassVar[Mapping[str, str]] = {}

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        """The inputs' sizes and the fields of a node with this number of dimensions."""
        raise NotImplementedError

    def node_at(self, graph: dg.Graph, dtype: str, rank: int) -> None:
        self.node_with(graph, self.main, dtype, rank)

    def node_with(self, graph: dg.Graph, kind: str, dtype: str, rank: int) -> None:
        """Adds the operator with inputs of a kind having a data type."""
        sizes, fields = self.at_rank(rank)
        tensors = [
            graph.input(f"x{index}", sizes=each, dtype=dtype if of == kind else self.dtypes[of])
            for index, (of, each) in enumerate(zip(self.kinds, sizes, strict=True))
        ]
        add_node(graph, self.operator, tensors, **fields)

    @pytest.mark.parametrize("level", dg.FeatureLevel, ids=str)
    def test_levels_of_other_inputs(self, level: dg.FeatureLevel) -> None:
        for kind, levels in self.others.items():
            check_level(
                parse_levels(levels), level, lambda *node, kind=kind: self.node_with(node[0], kind, node[1], node[2])
            )

    def test_output_may_not_overlap_itself(self) -> None:
        fields = operator_class(self.operator).output_fields
        several = [field for field, each in zip(fields, self.sample.gives, strict=True) if each.size > 1]
        error = refused(self.operator, self.sample.inputs, **self._asking_strides(lambda sizes: [0] * len(sizes)))
        assert error.field == f"{several[0]}.strides"
        assert error.allowed == "strides that give every element an address of its own"

    def _asking_strides(self, strides: Any) -> dict[str, Any]:
        asked = {
            field: {"dtype": str(each.dtype), "sizes": each.shape, "strides": strides(each.shape)}
            for field, each in zip(operator_class(self.operator).output_fields, self.sample.gives, strict=True)
        }
        return {**self.sample.fields, **asked}


def values(rng: np.random.Generator, sizes: Any, dtype: str) -> Array:
    """Small numbers of a data type, with repetitions; floats are quarters, so that sums of them are exact."""
    numbers = rng.integers(0 if dtype.startswith("u") else -8, 9, sizes)
    return (numbers / 4 if dtype.startswith("float") else numbers).astype(dtype)


def onnx_run(operator: str, inputs: list[Array], outputs: int = 1, **attributes: Any) -> Any:
    """The outputs of an ONNX operator on arrays, by ONNX's reference implementation; a single one by itself."""
    names = [f"x{index}" for index in range(len(inputs))]
    results = [f"y{index}" for index in range(outputs)]
    node = onnx.helper.make_node(operator, names, results, **attributes)
    graph = onnx.helper.make_graph(
        [node],
        "test",
        [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in zip(names, inputs, strict=True)
        ],
        [onnx.helper.make_empty_tensor_value_info(name) for name in results],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])
    got = ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))
    return got[0] if outputs == 1 else got
