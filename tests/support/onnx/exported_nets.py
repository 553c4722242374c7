"""Networks of random weights as exporters write them: squeezenet, a transformer and a recogniser of speech."""

from __future__ import annotations

import pathlib
import tempfile

import numpy as np
import onnx
from onnx import TensorProto as Types
from support.onnx import light_models
from support.onnx.language_models import Form, Writer, info

import dmlgraph as dg


def imported(model: onnx.ModelProto) -> dg.Graph:
    """The graph of a model, imported from a file, at the level of DirectML on the software adapter."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.onnx")
        onnx.save_model(model, path)
        return dg.load(path, target="6.2")


def in_float16(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with all floats in 16 bits, as builders write it for GPUs."""
    for weights in model.graph.initializer:
        if weights.data_type == Types.FLOAT:
            array = onnx.numpy_helper.to_array(weights).astype(np.float16)
            weights.CopyFrom(onnx.numpy_helper.from_array(array, weights.name))
    for each in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        if each.type.tensor_type.elem_type == Types.FLOAT:
            each.type.tensor_type.elem_type = Types.FLOAT16
    return model


def squeezenet(side: int) -> onnx.ModelProto:
    """ONNX's own, for images of another size."""
    model = light_models.with_random_weights("squeezenet", 0)
    for size in model.graph.input[0].type.tensor_type.shape.dim[2:]:
        size.dim_value = side
    del model.graph.value_info[:]
    return model


def _affine(w: Writer, x: str, name: str, rows: int, columns: int) -> str:
    """A product with weights, and a bias."""
    made = w.call("MatMul", [x, w.constant(f"{name}.weight", w.random(rows, columns))], f"{name}/MatMul")
    return w.call("Add", [w.constant(f"{name}.bias", w.random(columns) / 8), made], f"{name}/Add")


def transformer(layers: int, *, tokens: int = 6, width: int = 16, letters: int = 40) -> onnx.ModelProto:
    """Layers of attention and of two products, with normalizations before each, as PyTorch's exporter writes them."""
    w = Writer(Form())

    def normalized(x: str, name: str) -> str:
        read = [x, w.constant(f"{name}.weight", 1 + w.random(width) / 4), w.constant(f"{name}.bias", w.random(width))]
        return w.call("LayerNormalization", read, f"{name}/LayerNormalization", axis=-1, epsilon=1e-5)

    x = "x"
    for layer in range(layers):
        name = f"/layers.{layer}"
        mixed = _attention(w, normalized(x, f"{name}/norm1"), f"{name}/self_attn", tokens, width)
        x = w.call("Add", [x, mixed], f"{name}/Add")
        wide = _affine(w, normalized(x, f"{name}/norm2"), f"{name}/linear1", width, 3 * width)
        made = _affine(w, _gelu(w, wide, f"{name}/act"), f"{name}/linear2", 3 * width, width)
        x = w.call("Add", [x, made], f"{name}/Add_1")
    made = _affine(w, normalized(x, "/norm"), "/head", width, letters)
    return w.model([info("x", Types.FLOAT, 1, tokens, width)], [info(made, Types.FLOAT, 1, tokens, letters)])


def _attention(w: Writer, x: str, name: str, tokens: int, width: int, heads: int = 2) -> str:
    def as_heads(part: str, perm: list[int]) -> str:
        made = _affine(w, x, f"{name}/{part}_proj", width, width)
        made = w.call("Reshape", [made, w.ints(1, tokens, heads, width // heads)], f"{name}/{part}/Reshape")
        return w.call("Transpose", [made], f"{name}/{part}/Transpose", perm=perm)

    scores = w.call("MatMul", [as_heads("q", [0, 2, 1, 3]), as_heads("k", [0, 2, 3, 1])], f"{name}/MatMul")
    scores = w.call("Div", [scores, _number(w, (width / heads) ** 0.5)], f"{name}/Div")
    weights = w.call("Softmax", [scores], f"{name}/Softmax", axis=-1)
    mixed = w.call("MatMul", [weights, as_heads("v", [0, 2, 1, 3])], f"{name}/MatMul_1")
    mixed = w.call("Transpose", [mixed], f"{name}/Transpose", perm=[0, 2, 1, 3])
    mixed = w.call("Reshape", [mixed, w.ints(1, tokens, width)], f"{name}/Reshape")
    return _affine(w, mixed, f"{name}/out_proj", width, width)


def _gelu(w: Writer, x: str, name: str) -> str:
    made = w.call("Erf", [w.call("Div", [x, _number(w, 2**0.5)], f"{name}/Div")], f"{name}/Erf")
    made = w.call("Add", [made, _number(w, 1)], f"{name}/Add")
    return w.call("Mul", [w.call("Mul", [x, made], f"{name}/Mul"), _number(w, 0.5)], f"{name}/Mul_1")


def _number(w: Writer, value: float) -> str:
    return w.constant(f"/Constant_{value:.4g}", np.float32(value))


def speech(*, frames: int = 24, bands: int = 16, state: int = 8, letters: int = 29) -> onnx.ModelProto:
    """Convolutions over a spectrogram, each with its batch norm, a GRU over the frames, and scores of letters."""
    w = Writer(Form())

    def convolved(x: str, name: str, channels: int, filters: int) -> str:
        weights = w.random(channels * 9, filters).reshape(channels, 3, 3, filters).transpose(3, 0, 1, 2)
        read = [x, w.constant(f"{name}.weight", weights.copy()), w.constant(f"{name}.bias", w.random(filters))]
        made = w.call("Conv", read, f"{name}/Conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        fields = {part: np.abs(w.random(filters)) + 0.5 for part in ("weight", "bias", "running_mean", "running_var")}
        read = [made, *(w.constant(f"{name}.bn.{part}", each) for part, each in fields.items())]
        return w.call("Relu", [w.call("BatchNormalization", read, f"{name}/bn", epsilon=1e-5)], f"{name}/Relu")

    power = w.call("Pow", ["x", _number(w, 2)], "/Pow")
    x = w.call("Log", [w.call("Add", [power, _number(w, 0.1)], "/Add")], "/Log")
    x = w.call("AveragePool", [convolved(x, "/first", 1, 6)], "/pool", kernel_shape=[2, 2], strides=[2, 2])
    steps, size = frames // 2, 4 * bands // 2
    x = w.call("Transpose", [convolved(x, "/second", 6, 4)], "/Transpose", perm=[2, 0, 1, 3])
    x = w.call("Reshape", [x, w.ints(steps, 1, size)], "/Reshape")
    weights = {"weight_ih": (size, 3 * state), "weight_hh": (state, 3 * state), "bias": (6 * state,)}
    read = [w.constant(f"rnn.{part}", w.random(*sizes).T[None].copy()) for part, sizes in weights.items()]
    made = w.call("GRU", [x, *read], "/rnn/GRU", hidden_size=state, linear_before_reset=1)
    x = w.call("Squeeze", [made, w.ints(1)], "/rnn/Squeeze")
    made = w.call("LogSoftmax", [_affine(w, x, "/out", state, letters)], "/LogSoftmax", axis=-1)
    return w.model([info("x", Types.FLOAT, 1, 1, frames, bands)], [info(made, Types.FLOAT, steps, 1, letters)])
