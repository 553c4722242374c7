"""The peers of benchmarks/cpu.py: how each library runs a line."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from cpu_lines import Line

Array = np.ndarray
Call = Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Peer:
    """A library: its package, the function that makes a call of a line, and whether that writes into a given array."""

    modules: tuple[str, ...]
    make: Callable[[Line, Mapping[str, Array], int], Call | None]
    writes_in_place: bool

    def is_installed(self) -> bool:
        return all(importlib.util.find_spec(module) for module in self.modules)

    def __call__(self, line: Line, inputs: Mapping[str, Array], threads: int) -> Call | None:
        return self.make(line, inputs, threads)


def _numpy(line: Line, inputs: Mapping[str, Array], _: int) -> Call | None:
    if line.name == "gelu" and importlib.util.find_spec("scipy") is None:
        return None  # NumPy itself has no erf
    return lambda: line.array(np, **inputs)


def _numexpr(line: Line, inputs: Mapping[str, Array], threads: int) -> Call | None:
    if line.numexpr is None:
        return None
    import numexpr

    numexpr.set_num_threads(threads)
    # Its numbers are doubles unless they are given as float32.
    text, constants = _named_numbers(line.numexpr)
    given = {**inputs, **constants}
    out = np.empty(np.broadcast_shapes(*(each.shape for each in inputs.values())), np.float32)
    return lambda: numexpr.evaluate(text, local_dict=given, out=out, casting="same_kind")


def _named_numbers(expression: str) -> tuple[str, dict[str, np.float32]]:
    import re

    constants: dict[str, np.float32] = {}

    def name(match: re.Match[str]) -> str:
        constants[f"k{len(constants)}"] = np.float32(match[0])
        return f"k{len(constants) - 1}"

    return re.sub(r"(?<![\w.])\d+(?:\.\d+)?", name, expression), constants


def _jax(line: Line, inputs: Mapping[str, Array], _: int) -> Call | None:
    import jax
    import jax.numpy as jnp

    if "size" in inputs:  # shapes must be known when it is traced
        compiled = jax.jit(functools.partial(line.array, jnp, **inputs))
        return lambda: compiled().block_until_ready()
    arrays = {name: jnp.asarray(each) for name, each in inputs.items()}
    compiled = jax.jit(functools.partial(line.array, jnp))
    return lambda: compiled(**arrays).block_until_ready()


def _onnxruntime(line: Line, inputs: Mapping[str, Array], threads: int) -> Call | None:
    if line.onnx is None:
        return None
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    constants, nodes = line.onnx
    if callable(constants):
        constants = constants(inputs)
    feeds = dict(inputs)
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node(operator, ins, outs, **attributes) for operator, ins, outs, attributes in nodes],
            line.name,
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
                for name, each in feeds.items()
            ],
            [
                helper.make_tensor_value_info(
                    "y", TensorProto.FLOAT16 if line.name == "photo" else TensorProto.FLOAT, None
                )
            ],
            [numpy_helper.from_array(np.asarray(each), name) for name, each in constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=9,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(["y"], feeds)[0]


def _numba(line: Line, inputs: Mapping[str, Array], threads: int) -> Call | None:
    if line.loops is None:
        return None
    import numba

    numba.set_num_threads(threads)
    compiled = numba.njit(parallel=True, error_model="numpy")(line.loops)
    given = [each for name, each in inputs.items() if name != "size"]
    shape = np.broadcast_shapes(*(each.shape for each in inputs.values()))
    out = np.empty(shape, np.float32)

    def call() -> Any:
        compiled(out, *given)
        return out

    return call


PEERS: dict[str, Peer] = {
    "numpy": Peer(("numpy",), _numpy, writes_in_place=False),
    "numexpr": Peer(("numexpr",), _numexpr, writes_in_place=True),
    "jax": Peer(("jax",), _jax, writes_in_place=False),
    "onnxruntime": Peer(("onnxruntime", "onnx"), _onnxruntime, writes_in_place=False),
    "numba": Peer(("numba",), _numba, writes_in_place=True),
}
