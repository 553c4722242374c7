"""Operators as C++: their structs, the tensors that these point to, and the table of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dmlgraph.base.report import Report
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.compiler.desc import ConstantDescNode, GraphDesc, OperatorDescNode
from dmlgraph.devices.directml.buffer_bytes import buffer_bytes
from dmlgraph.formats.cpp.text import comment, data, floating, integer, quoted
from dmlgraph.formats.dxdispatch.names import enumeration_name
from dmlgraph.operators.declaration.enumeration import Enumeration
from dmlgraph.operators.declaration.fields import Kind, Role, ScaleBias
from dmlgraph.operators.declaration.fused import FusedActivation
from dmlgraph.operators.declaration.operator import Operator


class Tensors:
    """The tensors of a graph: each is declared once, by a name that says what it is."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def name(self, desc: TensorDesc, buffer_bytes: int = 0) -> str:
        """The name of a DML_TENSOR_DESC; `buffer_bytes`: the size of its buffer if that is larger."""
        total = max(desc.total_bytes, buffer_bytes)
        name = f"{desc.dtype}_{'x'.join(map(str, desc.sizes))}"
        if desc.strides is not None:
            name += f"_strides_{'x'.join(map(str, desc.strides))}"
        if total != desc.total_bytes:
            name += f"_in_{total}"
        if desc.owned:
            name += "_owned"
        if name not in self._texts:
            self._texts[name] = _tensor(name, desc, total)
        return name

    def __str__(self) -> str:
        return "\n".join(self._texts.values())


def _tensor(name: str, desc: TensorDesc, total: int) -> str:
    parts = [f"constexpr UINT {name}_sizes[] = {{{_numbers(desc.sizes)}}};\n"]
    strides = "nullptr"
    if desc.strides is not None:
        strides = f"{name}_strides"
        parts.append(f"constexpr UINT {strides}[] = {{{_numbers(desc.strides)}}};\n")
    flags = "DML_TENSOR_FLAG_OWNED_BY_DML" if desc.owned else "DML_TENSOR_FLAG_NONE"
    parts += [
        f"constexpr DML_BUFFER_TENSOR_DESC {name}_buffer = {{{data_type(desc.dtype)}, {flags}, {desc.rank}, ",
        f"{name}_sizes, {strides}, {total}, 0}};\n",
        f"constexpr DML_TENSOR_DESC {name} = {{DML_TENSOR_TYPE_BUFFER, &{name}_buffer}};\n",
    ]
    return "".join(parts)


def data_type(dtype: DataType) -> str:
    return f"DML_TENSOR_DATA_TYPE_{dtype.name}"


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


class Nodes:
    """The nodes of a graph as C++.

    Attributes:
        texts: what declares each node.
        table: a `Node` for each.
        tensors: what the nodes point to.
    """

    def __init__(self, graph: GraphDesc, origins: Mapping[str, tuple[str, ...]]) -> None:
        self.tensors = Tensors()
        self.texts: list[str] = []
        self.table: list[str] = []
        for index, (node, buffers) in enumerate(zip(graph.nodes, buffer_bytes(graph), strict=True)):
            made_of = [each for each in origins.get(node.name, ()) if each != node.name]
            title = f"// {index}: {comment(node.name)}"
            title += f", made of {comment(', '.join(made_of))}" if made_of else ""
            if isinstance(node, ConstantDescNode):
                self._add_constant(index, node, title)
            else:
                self._add_operator(index, node, buffers, title)

    def _add_constant(self, index: int, node: ConstantDescNode, title: str) -> None:
        self.texts.append(f"{title}\n// {node.desc}\nconstexpr BYTE n{index}[] = {{{data(node.data)}}};\n")
        self.table.append(f"    {{DML_OPERATOR_INVALID, n{index}, sizeof n{index}, {quoted(node.name)}}},")

    def _add_operator(self, index: int, node: OperatorDescNode, buffers: Mapping[int, int], title: str) -> None:
        with Report(node=node.name):
            names = _names(node.operator, buffers, self.tensors)
            struct = _Struct(f"n{index}", self.tensors).text(node.operator, names)
        self.texts.append(f"{title}\n{struct}")
        dml = node.operator.dml
        self.table.append(f"    {{DML_OPERATOR_{dml}, &n{index}, sizeof n{index}, {quoted(node.name)}}},")


def _names(operator: Operator, buffers: Mapping[int, int], tensors: Tensors) -> dict[str, Any]:
    """The names of the operator's input tensors, by field."""
    ports = enumerate(operator.input_descs)
    names = {port: None if desc is None else tensors.name(desc, buffers.get(port, 0)) for port, desc in ports}
    return operator.by_field(Role.INPUT, names)


class _Struct:
    """Writes an operator's struct, and before it what its pointers reach; their names begin with `name`."""

    def __init__(self, name: str, tensors: Tensors) -> None:
        self.name, self.tensors = name, tensors
        self.before: list[str] = []

    def text(self, operator: Operator | FusedActivation, inputs: Mapping[str, Any]) -> str:
        """The declarations; `inputs` are the names of input tensors, by field."""
        members = []
        for member, value in operator.struct_values():
            with Report(field=member.name):
                if value is None:
                    written = "nullptr"
                elif member.field is not None and member.field in inputs:
                    written = self._named(member.name, member.kind, inputs[member.field])
                else:
                    written = _FORMS[member.kind](self, f"{self.name}_{member.name}", value)
            members.append(f"    {written},  // {member.name}")
        dml = operator.dml if isinstance(operator, Operator) else operator.operator.dml
        declared = f"constexpr DML_{dml}_OPERATOR_DESC {self.name} = {{"
        return "\n".join([*self.before, declared, *members, "};", ""])

    def _named(self, member: str, kind: Kind, names: Any) -> str:
        return f"&{names}" if kind is Kind.TENSOR else self.array("DML_TENSOR_DESC", f"{self.name}_{member}", names)

    def array(self, of: str, name: str, values: Sequence[Any]) -> str:
        """Declares an array; an empty one is a null pointer."""
        if not values:
            return "nullptr"
        self.before.append(f"constexpr {of} {name}[] = {{{', '.join(map(str, values))}}};")
        return name

    def tensor(self, _: str, desc: TensorDesc) -> str:
        return f"&{self.tensors.name(desc)}"

    def tensor_array(self, name: str, descs: Sequence[TensorDesc]) -> str:
        return self.array("DML_TENSOR_DESC", name, [self.tensors.name(desc) for desc in descs])

    def scalar(self, _: str, value: Scalar) -> str:
        return f"{{{{{data(value.union)}}}}} /* {value} */"

    def scale_bias(self, name: str, value: ScaleBias) -> str:
        self.before.append(f"constexpr DML_SCALE_BIAS {name} = {{{floating(value.scale)}, {floating(value.bias)}}};")
        return f"&{name}"

    def operator(self, name: str, value: FusedActivation) -> str:
        self.before += [
            *_activation(name, value, self.tensors),
            f"constexpr DML_OPERATOR_DESC {name} = {_desc(name, value)};",
        ]
        return f"&{name}"

    def operator_array(self, name: str, values: Sequence[FusedActivation]) -> str:
        for index, value in enumerate(values):
            self.before += _activation(f"{name}_{index}", value, self.tensors)
        return self.array(
            "DML_OPERATOR_DESC", name, [_desc(f"{name}_{index}", each) for index, each in enumerate(values)]
        )


def _activation(name: str, value: FusedActivation, tensors: Tensors) -> Iterator[str]:
    """The declarations of a fused activation's struct."""
    yield _Struct(f"{name}_desc", tensors).text(value, {}).rstrip("\n")


def _desc(name: str, value: FusedActivation) -> str:
    return f"{{DML_OPERATOR_{value.operator.dml}, &{name}_desc}}"


def _enumerator(value: Enumeration) -> str:
    return f"{enumeration_name(type(value))}_{value.name}"


_Form = Callable[[_Struct, str, Any], str]


def _plain(write: Callable[[Any], str]) -> _Form:
    """The form of values that point to nothing."""
    return lambda _struct, _name, value: write(value)


def _array(of: str, write: Callable[[Any], str]) -> _Form:
    """The form of arrays of numbers."""
    return lambda struct, name, values: struct.array(of, name, [write(each) for each in values])


_FORMS: dict[Kind, _Form] = {
    Kind.TENSOR: _Struct.tensor,
    Kind.TENSORS: _Struct.tensor_array,
    Kind.UINT: _plain(str),
    Kind.INT: _plain(integer),
    Kind.FLOAT: _plain(floating),
    Kind.BOOL: _plain(lambda value: "TRUE" if value else "FALSE"),
    Kind.ENUM: _plain(_enumerator),
    Kind.DATA_TYPE: _plain(data_type),
    Kind.SCALAR: _Struct.scalar,
    Kind.UINTS: _array("UINT", str),
    Kind.INTS: _array("INT", integer),
    Kind.FLOATS: _array("FLOAT", floating),
    Kind.SCALE_BIAS: _Struct.scale_bias,
    Kind.SIZE_2D: _plain(lambda pair: f"{{{pair[0]}, {pair[1]}}}"),
    Kind.OPERATOR: _Struct.operator,
    Kind.OPERATORS: _Struct.operator_array,
}
