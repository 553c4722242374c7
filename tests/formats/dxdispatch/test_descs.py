"""Operator descs: every kind of member, both ways to write them, and mistakes."""

from __future__ import annotations

import math

import pytest
from support.problems import expect

from dmlgraph.base.errors import OperatorError
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.formats.dxdispatch.descs import read_operator, read_tensor
from dmlgraph.formats.dxdispatch.text import parse

X = '{"DataType": "FLOAT32", "Sizes": [1, 1, 2, 3]}'
PLAIN = TensorDesc(dtype="float32", sizes=[1, 1, 2, 3])


def operator(kind: str, members: str) -> dict[str, object]:
    """The attributes of an operator with one input and one output."""
    text = f'{{"type": "{kind}", "desc": {{"InputTensor": {X}, "OutputTensor": {X}, {members}}}}}'
    return dict(read_operator(parse(text, "f")).attributes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (X, PLAIN),
        ('{"DataType": "DML_TENSOR_DATA_TYPE_INT8", "Sizes": [3]}', TensorDesc(dtype="int8", sizes=[3])),
        (f'{{"Type": "DML_TENSOR_TYPE_BUFFER", "Desc": {X}}}', PLAIN),
        (
            '{"Type": "BUFFER", "DataType": "FLOAT32", "Flags": "DML_TENSOR_FLAG_NONE", "DimensionCount": 4, '
            '"Sizes": [1, 1, 2, 3], "Strides": [6, 6, 3, 1], "TotalTensorSizeInBytes": 24, '
            '"GuaranteedBaseOffsetAlignment": 0}',
            TensorDesc(dtype="float32", sizes=[1, 1, 2, 3], strides=[6, 6, 3, 1]),
        ),
        ('{"DataType": "FLOAT32", "Sizes": [1, 1, 2, 3], "Strides": []}', PLAIN),
        (
            '{"DataType": "UINT8", "Sizes": [2], "Flags": ["NONE", "OWNED_BY_DML"], "TotalTensorSizeInBytes": 256}',
            TensorDesc(dtype="uint8", sizes=[2], owned=True),
        ),
    ],
)
def test_a_tensor_desc_has_defaults(text: str, expected: TensorDesc):
    assert read_tensor(parse(text, "f")) == expected


@pytest.mark.parametrize(
    ("text", "code", "field", "got"),
    [
        ("[3]", "kind", None, [3]),
        ("{}", "missing", "DataType", None),
        (
            '{"DataType": "FLOAT", "Sizes": [1]}',
            "unknown-name",
            "DataType",
            "FLOAT",
        ),
        ('{"DataType": "INT8", "Sizes": []}', "rank", "Sizes", []),
        ('{"DataType": "INT8", "Sizes": [2, 0]}', "sizes", "Sizes.1", 0),
        ('{"DataType": "INT8", "Sizes": [2], "Strides": [1, 1]}', "strides", "Strides", [1, 1]),
        ('{"DataType": "INT8", "Sizes": [2], "Stride": [1]}', "unknown-field", "Stride", None),
        (
            '{"DataType": "INT8", "Sizes": [2], "DimensionCount": 4}',
            "count",
            "DimensionCount",
            4,
        ),
        (
            '{"DataType": "INT8", "Sizes": [5], "TotalTensorSizeInBytes": 4}',
            "sizes",
            "TotalTensorSizeInBytes",
            4,
        ),
        (
            '{"DataType": "INT8", "Sizes": [5], "Flags": "OWNED"}',
            "unknown-name",
            "Flags",
            "OWNED",
        ),
        ('{"Type": "TEXTURE", "Desc": {}}', "unknown-name", "Type", "TEXTURE"),
    ],
)
def test_a_wrong_tensor_desc_is_refused(text: str, code: str, field: str | None, got: object):
    with pytest.raises(OperatorError) as caught:
        read_tensor(parse(text, "f"))
    expect(caught.value, code, field=field, got=got)


def test_a_desc_may_stand_beside_its_type():
    text = (
        f'{{"Type": "ACTIVATION_ELU", "executionFlags": ["NONE"], "InputTensor": {X}, "OutputTensor": {X}, "Alpha": 2}}'
    )
    found = read_operator(parse(text, "f"))
    assert (found.operator.name, found.attributes, found.prefix) == ("activation_elu", {"alpha": 2}, "")
    assert found.inputs == {"input": PLAIN}
    assert found.outputs == {"output": PLAIN}


def test_a_desc_with_a_type_of_its_own_stands_in_desc():
    state = '{"DataType": "UINT32", "Sizes": [1, 1, 1, 6]}'
    text = (
        f'{{"Type": "DML_OPERATOR_RANDOM_GENERATOR", "Desc": {{"InputStateTensor": {state}, "OutputTensor": {state}, '
        '"Type": "DML_RANDOM_GENERATOR_TYPE_PHILOX_4X32_10"}}'
    )
    found = read_operator(parse(text, "f"))
    assert found.attributes == {"type": "philox_4x32_10"}
    assert found.outputs["output_state"] is None


@pytest.mark.parametrize(
    ("kind", "members", "expected"),
    [
        ("ACTIVATION_LINEAR", '"Alpha": "inf", "Beta": "NaN"', {"alpha": math.inf, "beta": math.nan}),
        ("ELEMENT_WISE_ABS", '"ScaleBias": {"Scale": 2, "Bias": -1.5}', {"scale_bias": {"scale": 2, "bias": -1.5}}),
        ("ELEMENT_WISE_ABS", '"ScaleBias": null', {}),
        (
            "REDUCE",
            '"Function": "DML_REDUCE_FUNCTION_SUM", "AxisCount": 1, "Axes": [3]',
            {"function": "sum", "axes": [3]},
        ),
        ("REDUCE", '"Function": "L2", "Axes": [3]', {"function": "l2", "axes": [3]}),
        (
            "UPSAMPLE_2D",
            '"ScaleSize": {"Width": 2, "Height": 3}, "InterpolationMode": "LINEAR"',
            {"scale_size": [2, 3], "interpolation_mode": "linear"},
        ),
        (
            "CUMULATIVE_SUMMATION",
            '"Axis": 3, "AxisDirection": "INCREASING", "HasExclusiveSum": false',
            {"axis": 3, "axis_direction": "increasing", "has_exclusive_sum": False},
        ),
        (
            "ELEMENT_WISE_CLIP1",
            '"MinMaxDataType": "FLOAT16", "Min": {"UInt16": 15360}, "Max": 4',
            {"min_max_data_type": DataType.FLOAT16, "min": {"bits": 15360}, "max": 4},
        ),
        (
            "ELEMENT_WISE_CLIP1",
            '"MinMaxDataType": "FLOAT32", "Min": {"Float32": "-inf"}, "Max": {"Float32": 2.5}',
            {"min_max_data_type": DataType.FLOAT32, "min": -math.inf, "max": 2.5},
        ),
        (
            "ELEMENT_WISE_CLIP1",
            '"MinMaxDataType": "UINT32", "Min": {"UInt32": 1}, "Max": 7',
            {"min_max_data_type": DataType.UINT32, "min": 1, "max": 7},
        ),
        (
            "RESAMPLE",
            '"InterpolationMode": "LINEAR", "ScaleCount": 4, "Scales": [1, 1, 2, "inf"]',
            {"interpolation_mode": "linear", "scales": [1, 1, 2, math.inf]},
        ),
    ],
)
def test_members_become_fields(kind: str, members: str, expected: dict[str, object]):
    assert repr(operator(kind, members)) == repr(expected)  # a NaN is not equal to itself


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        ('{"Type": "DML_OPERATOR_ACTIVATION_ELU", "Desc": {"Alpha": 0.5}}', {"op": "activation_elu", "alpha": 0.5}),
        ('{"Type": "ACTIVATION_ELU", "Alpha": 0.5}', {"op": "activation_elu", "alpha": 0.5}),
        ('{"Type": "ACTIVATION_RELU"}', {"op": "activation_relu"}),
    ],
)
def test_a_fused_activation_has_no_tensors(activation: str, expected: dict[str, object]):
    text = (
        f'{{"type": "ELEMENT_WISE_ADD1", "desc": {{"ATensor": {X}, "BTensor": {X}, "OutputTensor": {X}, '
        f'"FusedActivation": {activation}}}}}'
    )
    assert read_operator(parse(text, "f")).attributes == {"fused_activation": expected}


@pytest.mark.parametrize(
    ("kind", "members", "message"),
    [
        (
            "ACTIVATION_ELU",
            '"Beta": 1',
            "field 'desc.Beta': is not known here; allowed: InputTensor, OutputTensor, Alpha",
        ),
        (
            "ACTIVATION_ELU",
            '"Alpa": 1',
            "field 'desc.Alpa': is not known here; allowed: InputTensor, OutputTensor, Alpha (did",
        ),
        (
            "REDUCE",
            '"Function": "SUMM", "Axes": [1]',
            "field 'desc.Function': is not an enumerator of DML_REDUCE_FUNCTION",
        ),
        (
            "REDUCE",
            '"Function": "sum", "Axes": [1]',
            "field 'desc.Function': is not an enumerator of DML_REDUCE_FUNCTION",
        ),
        (
            "REDUCE",
            '"Function": "SUM", "AxisCount": 2, "Axes": [1]',
            "field 'desc.AxisCount': must be the length of Axes",
        ),
        ("ELEMENT_WISE_ABS", '"ScaleBias": {"Scale": 2}', "field 'desc.ScaleBias.Bias': must be given"),
        (
            "ELEMENT_WISE_CLIP1",
            '"MinMaxDataType": "FLOAT32", "Min": {"Int32": 1}, "Max": 1',
            "field 'desc.Min': a float32 is in another member of the union; got {'Int32': 1}",
        ),
        ("RESAMPLE", '"InterpolationMode": "LINEAR", "Scales": 2', "field 'desc.Scales': must be a list; got 2"),
    ],
)
def test_a_wrong_member_is_refused(kind: str, members: str, message: str):
    with pytest.raises(OperatorError) as caught:
        operator(kind, members)
    assert str(caught.value).splitlines()[0].startswith(message)


@pytest.mark.parametrize(
    ("text", "code", "field", "got"),
    [
        ("3", "kind", None, 3),
        ("{}", "missing", "type", None),
        (
            '{"type": "DML_OPERATOR_GEM"}',
            "unknown-operator",
            "type",
            "DML_OPERATOR_GEM",
        ),
        ('{"type": "GEMM", "desc": []}', "kind", "desc", []),
        ('{"type": "ACTIVATION_RELU", "desc": {}}', "missing", "desc.InputTensor", None),
    ],
)
def test_a_wrong_dispatchable_is_refused(text: str, code: str, field: str | None, got: object):
    with pytest.raises(OperatorError) as caught:
        read_operator(parse(text, "f"))
    expect(caught.value, code, field=field, got=got)
