"""DirectML's own spelling of enumerations, operators and members."""

from __future__ import annotations

import pytest
from support.problems import raises

from dmlgraph.base.errors import OperatorError
from dmlgraph.base.tensor import DataType
from dmlgraph.formats.dxdispatch.names import data_type, enumeration_name, member_path, operator_class, operator_type
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.declaration.enumeration import Enumeration


@pytest.mark.parametrize("enumeration", Enumeration.__subclasses__(), ids=lambda each: each.__name__)
def test_an_enumeration_has_its_c_name(enumeration: type[Enumeration]):
    assert enumeration_name(enumeration) == (enumeration.__doc__ or "").strip()


def test_every_operator_is_found_by_its_type_with_and_without_the_prefix():
    for operator in REGISTRY.values():
        assert operator_class(f"DML_OPERATOR_{operator.dml}") is operator
        assert operator_class(operator.dml) is operator
        assert operator_class(operator_type(operator)) is operator


def test_the_runner_knows_scatter_elements_by_its_older_name():
    assert operator_type(REGISTRY["scatter_elements"]) == "DML_OPERATOR_SCATTER"
    assert operator_type(REGISTRY["gemm"]) == "DML_OPERATOR_GEMM"


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("gemm", "did you mean 'GEMM'?"),
        ("DML_OPERATOR_GEM", "did you mean 'GEMM'?"),
        ("DML_OPERATOR_DML_OPERATOR_GEMM", "such as"),
        (3, "such as DML_OPERATOR_GEMM"),
    ],
)
def test_what_is_no_operator_is_refused(value: object, hint: str):
    with raises(OperatorError, "unknown-operator") as caught:
        operator_class(value)
    assert (caught.value.hint or "").startswith(hint)


def test_data_types_have_two_names():
    assert data_type("FLOAT16") is data_type("DML_TENSOR_DATA_TYPE_FLOAT16") is DataType.FLOAT16
    with raises(OperatorError, "unknown-name", got="float16", hint="did you mean 'FLOAT16'?"):
        data_type("float16")


def test_fields_have_the_names_of_members():
    assert member_path(REGISTRY["join"], "inputs.1.sizes.0") == "InputTensors.1.Sizes.0"
    assert member_path(REGISTRY["roi_align"], "roi.dtype") == "ROITensor.DataType"
    assert member_path(REGISTRY["identity"], "scale_bias.bias") == "ScaleBias.Bias"
