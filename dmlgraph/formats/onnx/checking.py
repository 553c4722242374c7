"""Checks a node: the number of inputs and outputs, types and attributes as ONNX's schema says; ranks and shapes.

Of ranks and shapes the schemas say nothing, or say it in words.  ONNX's own inference of shapes checks the same, but it
is not for models of strangers: it ends the process or never ends for some attributes (a negative `batch_dims` of
GatherND, the equation `......ii` of Einsum).
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx_ir as ir

from dmlgraph.base.errors import listing, plural, suggestion
from dmlgraph.formats.onnx.definitions import schema
from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.table import MICROSOFT
from dmlgraph.formats.onnx.tensors import Tensor, TensorList, type_name

MOST = 1 << 30  # a rank without a bound
_REST = "..."


class Shape(NamedTuple):
    """What the shape of an input must be.

    Attributes:
        least, most: the ranks.
        form: names for sizes, each the same in all inputs; `...` any sizes.  None if they are not checked.
    """

    least: int = 0
    most: int = MOST
    form: tuple[str, ...] | None = None


ANY = Shape()

# Operators: their inputs with their ranks, and their form; inputs that are not here take any.  A domain other than
# ONNX's is in front.
_SHAPES = """
Attention: Q 3-4, K 3-4, V 3-4, past_key 4, past_value 4
AveragePool LpPool MaxPool com.microsoft.QLinearAveragePool com.microsoft.QLinearGlobalAveragePool: X 3+
BatchNormalization: X 1+ [N C ...], scale 1 [C], B 1 [C], input_mean 1 [C], input_var 1 [C], mean 1 [C], var 1 [C]
Col2Im: input 3 [N CK L], image_shape 1 [D], block_shape 1 [D]
Compress: condition 1 [B]
Concat: inputs 1+
ConstantOfShape: input 1 [D]
Conv ConvTranspose com.microsoft.FusedConv: X 3+, W 3+, B 1
ConvInteger: x 3+, w 3+, x_zero_point 0-1, w_zero_point 0-1
DFT: input 2+, dft_length 0-1, axis 0-1
DeformConv: X 3+, W 3+, offset 3+, B 1, mask 3+
DepthToSpace SpaceToDepth: input 4
Det GlobalAveragePool GlobalLpPool GlobalMaxPool LRN com.microsoft.Trilu: X 2+
Expand Reshape: shape 1 [D]
EyeLike: input 2 [R C]
GRU RNN: X 3, W 3, R 3, B 2, sequence_lens 1, initial_h 3
Gather: data 1+
GatherElements GatherND ScatterND com.microsoft.GatherND: data 1+, indices 1+
Gemm com.microsoft.FusedGemm com.microsoft.QGemm: A 2, B 2, C 0-2
GridSample: X 3+, grid 3+
GroupNormalization: X 2+, scale 1, bias 1
InstanceNormalization: input 2+ [N C ...], scale 1 [C], B 1 [C]
LSTM: X 3, W 3, R 3, B 2, sequence_lens 1, initial_h 3, initial_c 3, P 2
LayerNormalization RMSNormalization TopK com.microsoft.Irfft com.microsoft.Rfft: X 1+
LinearAttention: query [N S Q], key [N S K], value [N S V]
MatMul MatMulInteger com.microsoft.FusedMatMul com.microsoft.TransposeMatMul: A 1+, B 1+
MaxUnpool: X 3+, I 3+, output_shape 1
NegativeLogLikelihoodLoss: input 2+ [N C ...], target 1+ [N ...], weight 1 [C]
OneHot: values 1
Pad: pads 1, axes 1
QLinearConv: x 3+, x_scale 0-1, x_zero_point 0-1, w 3+, w_scale 0-1, w_zero_point 0-1, y_scale 0-1, y_zero_point 0-1,
  B 1
QLinearMatMul: a 1+, b 1+
Resize: X 1+, roi [roi], scales 1 [scales], sizes 1 [sizes]
ReverseSequence: input 2+, sequence_lens 1 [B]
RoiAlign: X 4, rois 2, batch_indices 1
RotaryEmbedding: X 3-4, cos_cache 2-3 [... P D], sin_cache 2-3 [... P D], position_ids 2
STFT: signal 2-3, window 1
Scatter ScatterElements: data 1+, indices 1+, updates 1+
Slice: data 1+, starts 1 [A], ends 1 [A], axes 1 [A], steps 1 [A]
SoftmaxCrossEntropyLoss: scores 2+ [N C ...], labels 1+ [N ...], weights 1 [C]
Split: input 1+, split 1
SplitToSequence: split 0-1
TensorScatter: past_cache 3+, update 3+, write_indices 1
Tile: repeats 1 [D], tiles [D]
Trilu: input 2+
Upsample: X 1+, scales 1
com.microsoft.Attention: input 3, weights 2, bias 1, mask_index 1-4, past 5, attention_bias 4
com.microsoft.BiasAdd: X 3, bias 1, skip 3
com.microsoft.BiasGelu: B 1
com.microsoft.BiasSplitGelu: X 3, bias 1
com.microsoft.ConvTransposeWithDynamicPads: X 3+, W 3+, Pads 1, B 1
com.microsoft.CropAndResize: X 4, rois 2, batch_indices 1, crop_size 1
com.microsoft.DynamicQuantizeMatMul: A 1+, B 1+, b_scale 0-1, b_zero_point 0-1, bias 1
com.microsoft.EmbedLayerNormalization: input_ids 2, segment_ids 2, word_embedding 2, position_embedding 2,
  segment_embedding 2, gamma 1, beta 1, mask 2, position_ids 2
com.microsoft.FastGelu: bias 1
com.microsoft.GridSample: X 4, Grid 4
com.microsoft.GroupNorm: X 4, gamma 1, beta 1
com.microsoft.GroupQueryAttention: query 3, key 3, value 3, past_key 4, past_value 4, cos_cache 2, sin_cache 2,
  position_ids 2, attention_bias 4, head_sink 1, q_norm_weight 1, k_norm_weight 1
com.microsoft.MatMulIntegerToFloat: A 1+, B 1+, a_scale 0-1, b_scale 0-1, a_zero_point 0-1, b_zero_point 0-1, bias 1
com.microsoft.MatMulNBits: A 1+, bias 1
com.microsoft.MultiHeadAttention: query 3-5, key 3-5, value 3-4, bias 1, key_padding_mask 1-3, attention_bias 4,
  past_key 4, past_value 4
com.microsoft.NhwcMaxPool: x 3+
com.microsoft.QAttention: input 3, weight 2, bias 1, mask_index 1-4, past 5
com.microsoft.QLinearConv: x 3+, w 3+, B 1
com.microsoft.RotaryEmbedding: input 3-4, position_ids 1-2, cos_cache 2, sin_cache 2
com.microsoft.SkipGroupNorm: X 4, gamma 1, beta 1, bias 1
com.microsoft.SkipLayerNormalization: input 2+, skip 1+, gamma 1, beta 1, bias 1
com.microsoft.SkipSimplifiedLayerNormalization: input 2+, skip 1+, gamma 1, bias 1
ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare:
  axes [A]
"""
SHAPES = {
    operator: text
    for row in _SHAPES.strip().replace("\n  ", " ").splitlines()
    for operators, _, text in [row.partition(": ")]
    for operator in operators.split()
}


@functools.cache
def shapes(domain: str, operator: str) -> dict[str, Shape]:
    """The shapes of an operator's inputs, by name, where it does not take any."""
    text = SHAPES.get(f"{domain}.{operator}" if domain else operator)
    return dict(map(_shape_of, text.split(", "))) if text else {}


def _shape_of(text: str) -> tuple[str, Shape]:
    """Of `name`, then a rank such as `2`, `1-2` or `1+`, a form such as `[N C ...]`, or both."""
    found = re.fullmatch(r"(\w+)(?: (\d+)(?:-(\d+)|(\+))?)?(?: \[(.*)\])?", text)
    assert found is not None, text
    name, least, most, open_end, form = found.groups()
    ranks = (0, MOST) if least is None else (int(least), MOST if open_end else int(most or least))
    return name, Shape(*ranks, None if form is None else tuple(form.split()))


def check_forms(wanted: Sequence[Shape], inputs: Sequence[Tensor | None], names: Sequence[str]) -> None:
    """Checks the shapes of inputs, whose names are those of the schema.

    Raises:
        Refusal: an input has another form.
    """
    sizes: dict[str, tuple[int, str]] = {}  # by name: the size, and of which input
    for (_, _, form), tensor, name in zip(wanted, inputs, names, strict=False):
        if tensor is None or form is None:
            continue
        for size, number in _named(form, tensor.shape, name):
            first, where = sizes.setdefault(size, (number, name))
            if number != first:
                allowed = f"{_shown(form)}, {size} is {first} as in {where}"
                got = [*tensor.shape]
                raise Refusal("the input has another shape", code="sizes", field=name, got=got, allowed=allowed)


def _named(form: tuple[str, ...], shape: tuple[int, ...], name: str) -> list[tuple[str, int]]:
    """The sizes that have names."""
    is_open = _REST in form
    first = form.index(_REST) if is_open else len(form)
    front, back = form[:first], form[first + 1 :]
    rank = len(front) + len(back)
    if len(shape) < rank or (len(shape) > rank and not is_open):
        raise Refusal("the input has another rank", code="rank", field=name, got=[*shape], allowed=_shown(form))
    return [*zip(front, shape, strict=False), *zip(back, shape[len(shape) - len(back) :], strict=True)]


def _shown(form: tuple[str, ...]) -> str:
    return f"[{', '.join(form)}]"


_STRING = np.dtype(object)  # stands for strings, which NumPy has several types for
_NAMED = frozenset(onnx.TensorProto.DataType.keys())


@dataclasses.dataclass(frozen=True, slots=True)
class Formal:
    """An input or output of an operator.

    Attributes:
        name: its name.
        kind: the name of its type; those of one kind have the same type.
        types: the allowed ones; None if other things than tensors are.
        is_optional: whether it may be left out.
        is_same: whether all that it stands for, if it stands for several, have the same type.
        shape: what its shape must be.
    """

    name: str
    kind: str
    types: frozenset[np.dtype[Any]] | None
    is_optional: bool
    is_same: bool
    shape: Shape = ANY


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """What the schema of an operator says, in a form that is quick to read.

    Attributes:
        inputs: the last one may stand for several.
        counts: the least and the largest number of inputs, and of outputs.
        attributes: by name: the type, and whether it must be given.
    """

    inputs: tuple[Formal, ...]
    counts: tuple[tuple[int, int], tuple[int, int]]
    attributes: Mapping[str, tuple[ir.AttributeType, bool]]


# Written before ONNX had them, or instead: the operator and the opset whose schema they keep to.
_LATER = dict.fromkeys(("LayerNormalization", "SimplifiedLayerNormalization"), ("LayerNormalization", 17))


@functools.cache
def signature(domain: str, operator: str, opset: int) -> Signature | None:
    """The signature of an operator; None if ONNX does not know it, or no longer."""
    found = _microsoft().get(operator) if domain == MICROSOFT else _of_onnx(domain, operator, opset)
    if found is None:
        return None
    inputs = tuple(
        Formal(
            name,
            kind,
            _types(found["types"].get(kind, [kind])),
            option != "Single",
            option != "Variadic" or is_same,
            shapes(domain, operator).get(name, ANY),
        )
        for name, kind, option, is_same in found["inputs"]
    )
    attributes = {name: (ir.AttributeType[kind], required) for name, (kind, required) in found["attributes"].items()}
    (least, most), (fewest, all_outputs) = found["counts"]
    while least and found["inputs"][least - 1][2] == "Optional":
        least -= 1  # onnx-ir leaves out "" at the end
    return Signature(inputs, ((least, most), (fewest, all_outputs)), attributes)


def _of_onnx(domain: str, operator: str, opset: int) -> dict[str, Any] | None:
    """What a schema says, in the form of `_microsoft`."""
    known = schema(domain, operator, opset) or schema(domain, *_LATER.get(operator, (operator, opset)))
    if known is None or known.deprecated:
        return None
    return {
        "counts": [[known.min_input, known.max_input], [known.min_output, known.max_output]],
        "inputs": [[each.name, each.type_str, each.option.name, each.is_homogeneous] for each in known.inputs],
        "types": {each.type_param_str: each.allowed_type_strs for each in known.type_constraints},
        "attributes": {name: [each.type.name, each.required] for name, each in known.attributes.items()},
    }


@functools.cache
def _microsoft() -> Any:
    """ONNX Runtime's schemas, as tools/generate.py writes them."""
    file = resources.files("dmlgraph.formats.onnx").joinpath("microsoft_schemas.json")
    return json.loads(file.read_text(encoding="utf-8"))


def _types(names: Iterable[str]) -> frozenset[np.dtype[Any]] | None:
    """The types of `tensor(float)` and the like; None where one is not a tensor."""
    found = set()
    for name in names:
        inner = name.removeprefix("tensor(").removesuffix(")")
        if not name.startswith("tensor(") or inner.upper() not in _NAMED:
            return None
        number = onnx.TensorProto.DataType.Value(inner.upper())
        found.add(_STRING if inner == "string" else onnx.helper.tensor_dtype_to_np_dtype(number))
    return frozenset(found)


def check(known: Signature, node: Node, others: Collection[np.dtype[Any]] = ()) -> None:
    """Checks a node against the signature of its operator; `others` are types that are allowed everywhere.

    Raises:
        Refusal: the node breaks the schema.
    """
    inputs, outputs = node.inputs, len(node.outputs)
    for what, count, (least, most) in zip(("input", "output"), (len(inputs), outputs), known.counts, strict=True):
        if not least <= count <= most:
            allowed = f"{least}" if least == most else f"at least {least}" if count < least else f"at most {most}"
            raise Refusal(f"the node has {plural(count, what)}", code="count", allowed=allowed)
    _check_attributes(known, node.attributes)
    said = node.attributes.get("num_outputs")
    if said is not None and said.value != outputs:
        message = "differs from the number of outputs"
        raise Refusal(message, code="count", field=said.name, got=said.value, allowed=str(outputs))
    _check_inputs(known, inputs, others)
    if any(each.shape.form for each in known.inputs):
        check_forms([each.shape for each in known.inputs], inputs, [each.name for each in known.inputs])


def _check_attributes(known: Signature, given: Mapping[str, ir.Attr]) -> None:
    for name, attribute in given.items():
        expected = known.attributes.get(name)
        if expected is None:
            near = suggestion(name, known.attributes)
            allowed = listing(known.attributes) or "none"
            raise Refusal(
                "the operator has no such attribute", code="unknown-field", field=name, allowed=allowed, hint=near
            )
        if attribute.type is not expected[0]:
            got, allowed = (each.name.lower() for each in (attribute.type, expected[0]))
            raise Refusal("the attribute has another type", code="kind", field=name, got=got, allowed=allowed)
        texts = attribute.value if isinstance(attribute.value, (list, tuple)) else [attribute.value]
        if any(isinstance(each, bytes) for each in texts):
            raise Refusal("the attribute is not UTF-8 text", code="kind", field=name)
    for name, (_, is_required) in known.attributes.items():
        if is_required and name not in given:
            raise Refusal("an attribute is missing", code="missing", field=name)


def _check_inputs(known: Signature, inputs: Sequence[Tensor | None], others: Collection[np.dtype[Any]]) -> None:
    seen: dict[str, tuple[str, np.dtype[Any]]] = {}  # by kind: the first input of it, and its type
    for index, tensor in enumerate(inputs):
        formal = known.inputs[min(index, len(known.inputs) - 1)]
        field = formal.name if index < len(known.inputs) else f"{formal.name} {index}"
        if tensor is None:
            if not formal.is_optional:
                raise Refusal("an input is missing", code="missing", field=field)
            continue
        if isinstance(tensor, TensorList) and formal.types is not None:
            raise Refusal("a sequence of tensors is given", code="kind", field=field, allowed="a tensor")
        dtype = _STRING if tensor.is_text else tensor.dtype
        if formal.types is not None and dtype not in others:
            if dtype not in formal.types:
                allowed = listing(sorted(map(type_name, formal.types)))
                raise _other_type(field, dtype, allowed)
            first, same = seen.setdefault(formal.kind, (field, dtype)) if formal.is_same else (field, dtype)
            if dtype != same:
                raise _other_type(field, dtype, f"{type_name(same)}, as input {first}")
        _check_rank(formal, field, tensor)
    for formal in known.inputs[len(inputs) :]:
        if not formal.is_optional:
            raise Refusal("an input is missing", code="missing", field=formal.name)


def _other_type(field: str, dtype: np.dtype[Any], allowed: str) -> Refusal:
    return Refusal("the input has another type", code="dtype", field=field, got=type_name(dtype), allowed=allowed)


def _check_rank(formal: Formal, field: str, tensor: Tensor) -> None:
    least, most, _ = formal.shape
    if not least <= tensor.rank <= most:
        allowed = f"{least}" if least == most else f"{least} or more" if most == MOST else f"{least} to {most}"
        got = list(tensor.shape)
        raise Refusal("the input has another rank", code="rank", field=field, got=got, allowed=f"rank {allowed}")
