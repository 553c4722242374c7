"""Every operator class, compared with the DirectML reference data: names, struct, defaults, support, packed bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native.test_operator_desc import Reader, Tensor, kind_of

import dmlgraph as dg
from dmlgraph import _native
from dmlgraph.compiler.desc import OperatorDescNode
from dmlgraph.operators import REGISTRY, Operator, find
from dmlgraph.operators.catalog.examples import example
from dmlgraph.operators.catalog.registry import class_name
from dmlgraph.operators.declaration.fields import Kind, Role
from dmlgraph.operators.declaration.struct import FieldMember, Member
from dmlgraph.operators.declaration.support import support

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "tests" / "reference"
OPERATORS = {name: each for name, each in REGISTRY.items() if not each.is_view}
every_class = pytest.mark.parametrize("cls", OPERATORS.values(), ids=list(OPERATORS))

# Where the reference is wrong: the real library accepts no other type there, …
MEASURED_TYPES = {
    ("ADAM_OPTIMIZER", "TrainingStepTensor"): {"UINT32"},
    ("MULTIHEAD_ATTENTION1", "PastSequenceLengthsTensor"): {"INT32"},  # as ONNX Runtime passes it
}
# … and the pages' own examples have tensors of different dimension counts.
WITHOUT_AGREEMENT = ("FOLD", "UNFOLD")

# DirectMLX's defaults that are not constants: the class computes them if they are left out.
WORKED_OUT = ("per dim", "per-spatial-dim", "all axes", "input rank")
FOLLOWING = ("group_count",)  # DirectMLX has a fixed default, but the tensors determine it

# Fields that DirectMLX requires but that may be left out here: as the same field of other operators, …
LIKE_SIBLINGS = {
    *("strides", "dilations", "start_padding", "end_padding", "input_window_strides", "scales"),
    *("input_pixel_offsets", "output_pixel_offsets", "axes", "axis_direction", "rounding_direction", "direction"),
    *("has_exclusive_sum", "has_exclusive_product", "include_padding", "mask_type"),
    *("use_clip_threshold", "couple_input_forget", "linear_before_reset", "batch_dimension_count"),
}
# … because they have no effect unless another field says so, …
WITHOUT_EFFECT = {"padding_value", "clip_threshold", "mask_filter_value"}
# … or because the tensors determine them.
COUNTED = {
    *("head_count", "query_head_count", "key_value_head_count"),
    *("index_dimensions", "input_dimension_count", "indices_dimension_count"),
}
OUR_DEFAULTS = LIKE_SIBLINGS | WITHOUT_EFFECT | COUNTED
STILL_ASKED_FOR = {"mean_variance_normalization1": {"axes"}, "mean_variance_normalization2": {"axes"}}


@pytest.fixture(scope="module")
def reference_enums() -> dict[str, dict[str, int]]:
    """Every enumeration of DirectML: member names without the enumeration's, and values."""
    path = REFERENCE / "directml_enums.json"
    return {
        enum["name"]: {member["name"].removeprefix(f"{enum['name']}_"): member["value"] for member in enum["members"]}
        for enum in json.loads(path.read_text(encoding="utf-8"))["enums"]
    }


@pytest.fixture
def facts(cls: type[Operator], reference_operators: dict[str, Any]) -> dict[str, Any]:
    """The reference data of the class's operator."""
    entry: dict[str, Any] = reference_operators[cls.dml]
    return entry


def pairs(cls: type[Operator], facts: dict[str, Any]) -> list[tuple[Member, dict[str, Any]]]:
    return list(zip(cls.members, facts["fields"], strict=True))


# Names.


@pytest.mark.parametrize(
    ("name", "class_name", "function"),
    [
        ("multiply", "Multiply", "multiply"),
        ("if", "If", "if_"),
        ("activation_softmax1", "ActivationSoftmax1", "activation_softmax1"),
        ("fill_value_sequence", "FillValueSequence", "fill_value_sequence"),
    ],
)
def test_names_follow_one_rule(name: str, class_name: str, function: str) -> None:
    assert REGISTRY[name].__name__ == class_name
    assert REGISTRY[name].function_name() == function


@every_class
def test_name(cls: type[Operator], facts: dict[str, Any]) -> None:
    assert cls.__name__ == class_name(facts["name"].removeprefix("ELEMENT_WISE_"))
    assert cls.name == facts["name"].removeprefix("ELEMENT_WISE_").lower()
    assert find(cls.name) is find(facts["name"].lower()) is cls
    place = dg.Graph if cls.is_source() else dg
    assert getattr(place, cls.function_name()).__name__ == cls.function_name()


@every_class
def test_value_and_level(cls: type[Operator], facts: dict[str, Any]) -> None:
    assert cls.support().value == facts["enum_value"]
    assert str(cls.support().introduced) == facts["introduced_feature_level"].replace("_", ".")


# The struct.


@every_class
def test_members(cls: type[Operator], facts: dict[str, Any]) -> None:
    assert [member.name for member in cls.members] == [field["name"] for field in facts["fields"]]
    for member, field in pairs(cls, facts):
        assert member.kind.form.native == kind_of(field), member.name
        roles = {"input": Role.INPUT, "output": Role.OUTPUT}
        assert member.role is roles.get(field["kind"].split("_")[0]), member.name
        assert member.count == field["array_length_field"], member.name
    counts = {member.name for member in cls.members if member.counts}
    assert counts == {field["array_length_field"] for field in facts["fields"]} - {None}


@every_class
def test_members_have_the_names_of_their_fields(cls: type[Operator], facts: dict[str, Any]) -> None:
    for member, field in pairs(cls, facts):
        if member.field is not None:
            letters = member.field.replace("_", "")
            name = field["name"]
            if "Tensor" in field["name"] and member.role:
                name = name.replace("Tensor", "")
            assert letters == name.lower()


@every_class
def test_layout(cls: type[Operator], facts: dict[str, Any]) -> None:
    size, alignment, offsets = _native.struct_layout([member.kind.form.native for member in cls.members])
    assert (size, alignment) == (facts["struct_size"], facts["struct_align"])
    assert offsets == [field["offset"] for field in facts["fields"]]


@every_class
def test_optional_members(cls: type[Operator], facts: dict[str, Any]) -> None:
    for member, field in pairs(cls, facts):
        pointer = field["kind"] in ("input_tensor", "output_tensor", "scale_bias", "fused_operator_desc")
        if pointer:
            assert member.optional == field["optional"], member.name


@every_class
def test_defaults_are_directmlxs(
    cls: type[Operator], facts: dict[str, Any], reference_enums: dict[str, dict[str, int]]
) -> None:
    for member, field in pairs(cls, facts):
        if member.field is None or member.role is Role.OUTPUT or not field["has_directmlx_default"]:
            continue
        assert isinstance(member, FieldMember)
        told = field["default"]
        assert not member.required, member.name
        if (
            member.field in FOLLOWING
            or told is None
            or (isinstance(told, str) and any(words in told for words in WORKED_OUT))
        ):
            assert member.default is None, member.name
        elif member.kind is Kind.ENUM:
            assert member.default.value == reference_enums[field["enum"]][told.removeprefix(f"{field['enum']}_")]
        elif member.kind is Kind.BOOL:
            assert member.default == (str(told).lower() == "true"), member.name
        elif member.kind is Kind.FLOAT:
            assert np.float32(member.default) == np.float32(told), member.name
        else:
            assert member.default == told, member.name


@every_class
def test_what_directmlx_asks_for_is_asked_for_unless_it_has_a_default_of_ours(
    cls: type[Operator], facts: dict[str, Any]
) -> None:
    ours = OUR_DEFAULTS - STILL_ASKED_FOR.get(cls.name, set())
    for member, field in pairs(cls, facts):
        if member.field and member.role is not Role.OUTPUT and not field["optional"]:
            worked_out = member.kind is Kind.DATA_TYPE  # of a scalar: the output's
            required = not field["has_directmlx_default"] and not worked_out and member.field not in ours
            assert cls.fields[member.field].required == required, member.name


@every_class
def test_enumerations(cls: type[Operator], facts: dict[str, Any], reference_enums: dict[str, dict[str, int]]) -> None:
    for member, field in pairs(cls, facts):
        if member.kind is Kind.ENUM and member.field:
            members = {each.name: each.value for each in cls.enumeration(member.field)}
            assert members == reference_enums[field["enum"]]
            assert [name.lower() for name in members] == cls.enumeration(member.field).names()


# Legal tensors.


@every_class
def test_support_by_level(cls: type[Operator], facts: dict[str, Any]) -> None:
    tables = {dg.FeatureLevel.parse(key.replace("_", ".")): rows for key, rows in facts["tensor_support"].items()}
    tensors = {member.name for member in cls.members if member.role}
    assert {row["tensor"] for rows in tables.values() for row in rows} <= tensors
    for level in dg.FeatureLevel:
        at = max((each for each in tables if each <= level), default=None)
        if at is None:
            assert all(cls.support().rows(tensor, level) is None for tensor in tensors)
            continue
        for row in tables[at]:
            for function in row.get("functions", [None]):
                found = cls.support().rows(row["tensor"], level, function and function.lower())
                assert found is not None
                assert [found.least_rank, found.greatest_rank] == row["dims"]
                taken = MEASURED_TYPES.get((cls.dml, row["tensor"]), set(row["types"]))
                assert {dtype.name for dtype in found.dtypes} == taken


@every_class
def test_tensors_that_must_agree(cls: type[Operator], facts: dict[str, Any]) -> None:
    rules = [
        (
            tuple(
                each
                for each in rule["tensors"]
                if "DataType" not in rule["same"] or (cls.dml, each) not in MEASURED_TYPES
            ),
            tuple(rule["same"]),
        )
        for rule in facts["same_constraints"]
    ]
    assert list(cls.support().same) == ([] if cls.dml in WITHOUT_AGREEMENT else rules)


@every_class
def test_fusion(cls: type[Operator], facts: dict[str, Any]) -> None:
    assert cls.support().fusable_into == frozenset(facts.get("fusable_into") or ())
    since = facts.get("fusable_since") if facts.get("fusable_into") else None
    assert cls.support().fusable_since == (since and dg.FeatureLevel.parse(since.replace("_", ".")))
    hosts = {field["name"] for field in facts["fields"] if field["kind"] == "fused_operator_desc"}
    assert {member.name for member in cls.members if member.kind is Kind.OPERATOR} == hosts


# The data file.


def test_data_covers_all_177_operators(reference_operators: dict[str, Any]) -> None:
    assert len(reference_operators) == 177
    for name, facts in reference_operators.items():
        assert support(name).value == facts["enum_value"]


# The packed bytes.


def instances(cls: type[Operator]) -> list[Operator]:
    """The operator of its example, and variants with and without optional members, and with strides."""
    graph = dg.loads(example(cls))
    operators = [node.operator for node in graph.lower(fuse=False).nodes if isinstance(node, OperatorDescNode)]
    plain = next(operator for operator in operators if isinstance(operator, cls))
    changes: dict[str, Any] = {}
    for member in cls.members:
        if member.kind is Kind.SCALE_BIAS:
            changes[str(member.field)] = {"scale": 2.5, "bias": -0.75}
        elif member.kind is Kind.OPERATOR:
            changes[str(member.field)] = {"op": "activation_relu"}
        elif member.role is Role.INPUT and member.kind is Kind.TENSOR and getattr(plain, str(member.field)) is not None:
            desc = getattr(plain, str(member.field))
            strides = [2 * stride for stride in desc.packed_strides]
            changes[str(member.field)] = desc.like(strides=strides, owned=cls.takes_owned)
    fields = {name: getattr(plain, name) for name in cls.fields}
    fields |= {name: list(value) for name, value in fields.items() if isinstance(value, tuple)}
    return [plain, cls(**fields | changes)]


def expected_tensor(desc: dg.TensorDesc | None) -> Tensor | None:
    if desc is None:
        return None
    strides = None if desc.strides is None else list(desc.strides)
    return Tensor(desc.dtype.value, int(desc.owned), list(desc.sizes), strides, desc.total_bytes, 0)


class StructReader:
    """Reads an operator's struct by the offsets of the reference data, following its pointers."""

    def __init__(self, packed: _native.PackedDesc, reference: dict[str, Any], enums: dict[str, dict[str, int]]) -> None:
        self.reader, self.reference, self.enums = Reader(packed), reference, enums

    def check(self, operator: type[Operator], values: dict[str, Any], address: int) -> None:
        """The struct of an operator with these fields; those of tensors that a fused activation lacks are left out."""
        facts = self.reference[operator.dml]
        for member, field in pairs(operator, facts):
            at = address + field["offset"]
            if member.counts:
                assert self.number("=I", at) == len(values.get(member.counts) or ()), member.name
            else:
                self.check_field(field, values.get(str(member.field)), at)

    def check_field(self, field: dict[str, Any], value: Any, at: int) -> None:
        kind = kind_of(field)
        scalars = {"u32": "=I", "i32": "=i", "f32": "=f", "bool": "=I"}
        if kind in scalars:
            assert self.number(scalars[kind], at) == value, field["name"]
        elif kind == "enum":
            assert self.number("=I", at) == self.enums[field["c_type"]][value.name], field["name"]
        elif kind == "scalar":
            number = self.reader.read("=8s", at)[0][: value.dtype.bits // 8]
            assert number == np.array(value.value, value.dtype.numpy).tobytes(), field["name"]
        elif kind == "size_2d":
            assert self.reader.read("=2I", at) == tuple(value), field["name"]
        else:
            self.check_pointer(kind, value, self.number("=Q", at))

    def check_pointer(self, kind: str, value: Any, pointer: int) -> None:
        if value is None or value == ():
            assert pointer == 0
        elif kind == "tensor":
            assert self.reader.tensor(pointer) == expected_tensor(value)
        elif kind == "tensors":
            assert [self.reader.tensor(pointer + 16 * i) for i in range(len(value))] == list(
                map(expected_tensor, value)
            )
        elif kind == "scale_bias":
            assert self.reader.read("=2f", pointer) == (value.scale, value.bias)
        elif kind in ("operator", "operators"):
            for index, each in enumerate(value if kind == "operators" else [value]):
                type_, nested = self.reader.pair(pointer + 16 * index)
                assert type_ == self.reference[each.operator.dml]["enum_value"]
                self.check(each.operator, each.attributes, nested)
        else:
            code = {"u32s": "I", "i32s": "i", "f32s": "f"}[kind]
            assert self.reader.array(code, pointer, len(value)) == list(value)

    def number(self, layout: str, address: int) -> Any:
        return self.reader.read(layout, address)[0]


@every_class
def test_packed_bytes_read_back(
    cls: type[Operator], reference_operators: dict[str, Any], reference_enums: dict[str, dict[str, int]]
) -> None:
    for operator in instances(cls):
        packed = operator.native().pack()
        assert packed.type == reference_operators[cls.dml]["enum_value"]
        facts = reference_operators[cls.dml]
        assert operator.native().layout()[:2] == (facts["struct_size"], facts["struct_align"])
        StructReader(packed, reference_operators, reference_enums).check(cls, vars(operator), packed.address)


@every_class
def test_binding_indices(cls: type[Operator], facts: dict[str, Any]) -> None:
    operator = instances(cls)[0]
    for role, descs in ((Role.INPUT, operator.input_descs), (Role.OUTPUT, operator.output_descs)):
        of_role = [(member, field) for member, field in pairs(cls, facts) if member.role is role]
        for member, field in of_role:
            value, index = getattr(operator, str(member.field)), field["binding_index"]
            if isinstance(index, int):
                assert descs[index] is value, member.name
            else:  # 0..InputCount-1
                first = int(index.partition("..")[0])
                assert descs[first : first + len(value)] == value, member.name
        if all(member.kind is Kind.TENSOR for member, _ in of_role):
            count = facts["input_binding_count" if role is Role.INPUT else "output_binding_count"]
            assert len(descs) == count
