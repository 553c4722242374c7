"""What the tests of the views share: every data type, saving and loading, and what NumPy computes."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from support.operators.harness import DTYPES, Array, refused
from support.problems import expect

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName
from dmlgraph.formats.yaml import dumps


def numbers(sizes: tuple[int, ...], dtype: str = "float32") -> Array:
    """Different small numbers, as far as the data type has them."""
    count = int(np.prod(sizes))
    kind = dg.TensorDesc(dtype=dtype, sizes=sizes).dtype.numpy
    return (np.arange(count) % 7).astype(kind).reshape(sizes)


def viewed(
    build: Callable[[dg.Value], dg.Value], x: Array, device: DeviceName = "reference", dtype: DataTypeName | None = None
) -> Array:
    """A view of a value that a node makes, read by another node."""
    graph = dg.Graph("view")
    value = graph.input("x", sizes=x.shape, dtype=dtype or x.dtype)
    graph.output("y", build(value))
    return graph.compile(device).run({"x": x})["y"]


def again(text: str) -> dg.Graph:
    """A graph from text, saved and loaded."""
    return dg.loads(dumps(dg.loads(text)))


class ViewTests:
    """Tests of any view.

    Attributes:
        operator: its name.
        cases: by name: sizes of the input, the call, and the same in NumPy.
    """

    operator: ClassVar[str]
    moves: ClassVar[bool] = False  # whether the first case moves elements, which DirectML cannot do with 4 bits
    cases: ClassVar[dict[str, tuple[tuple[int, ...], Callable[[Any], Any], Callable[[Any], Any]]]]

    def test_is_what_numpy_computes(self, device: DeviceName) -> None:
        for name, (sizes, build, function) in self.cases.items():
            x = numbers(sizes)
            expected = function(x)
            for value in (build, lambda v, build=build: dg.negate(build(dg.negate(v)))):
                got = viewed(value, x, device)
                assert got.shape == expected.shape, name
                np.testing.assert_array_equal(got, expected, err_msg=name)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_takes_every_data_type(self, dtype: DataTypeName) -> None:
        sizes, build, function = next(iter(self.cases.values()))
        x = numbers(sizes, dtype)
        if self.moves and dtype.endswith("int4"):
            with pytest.raises(dg.GraphError) as caught:
                viewed(build, x, dtype=dtype)
            expect(caught.value, "level", hint="no level copies this data type in another order")
            return
        for device in ("reference", "cpu"):
            np.testing.assert_array_equal(viewed(build, x, device, dtype), function(x))

    def test_is_the_same_after_saving(self, tmp_path: pathlib.Path) -> None:
        for name, (sizes, build, _) in self.cases.items():
            graph = dg.Graph("view")
            graph.output("y", build(graph.input("x", sizes=sizes, dtype="float32")))
            graph.save(tmp_path / "view.yaml")
            loaded = dg.load(tmp_path / "view.yaml")
            assert dumps(loaded) == dumps(graph), name
            assert loaded.outputs["y"].sizes == graph.outputs["y"].sizes

    def test_has_no_strides_of_its_own(self) -> None:
        sizes, build, _ = next(iter(self.cases.values()))
        made = build(dg.Graph("g").input("x", sizes=sizes, dtype="float32"))
        (node,) = (each for each in made.graph.nodes if each.name == made.node)
        strides = [1000**place for place in range(made.rank, 0, -1)]
        error = refused(self.operator, [numbers(sizes)], **node.attributes, output={"strides": strides})
        expect(error, "strides", field="output.strides", got=strides)
