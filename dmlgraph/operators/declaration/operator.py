"""Operator: the base of the classes that declare DirectML's operators.

A class declares its struct's fields in order; from them follow the C struct, the YAML fields, the Python
function's signature and the help.  In addition a class may define:

- `infer`: the outputs' descriptions from the inputs' descriptions and the attributes;
- `constraints`: rules beyond those of the data file (`same` tensors, data types and ranks by level);
- `adapt`: how input descriptions are adapted to each other before inference (broadcasting);
- `evaluate`: the meaning, in NumPy;
- traits: what is true of its function, see dmlgraph.operators.declaration.traits.

An instance is complete, legal and never changes: its constructor validates every field that is given (`descriptor`),
infers those that are left out (`completion`) and checks the constraints.  Its tensors are `TensorDesc`s; the graph
knows which values flow in and out.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dmlgraph.base.errors import OperatorError, Problem
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType, TensorDesc, broadcast_sizes
from dmlgraph.operators.catalog.registry import function_name
from dmlgraph.operators.declaration.bindings import Binding, bindings, by_field
from dmlgraph.operators.declaration.completion import completed
from dmlgraph.operators.declaration.constraints import require
from dmlgraph.operators.declaration.descriptor import described
from dmlgraph.operators.declaration.enumeration import Enumeration
from dmlgraph.operators.declaration.fields import Kind, Missing, Role
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.declaration.struct import (
    FieldMember,
    Member,
    in_struct_order,
    members_of,
    struct_values,
    take_fields,
)
from dmlgraph.operators.declaration.support import OperatorSupport, level_problem, support
from dmlgraph.operators.declaration.traits import Traits

if TYPE_CHECKING:
    from dmlgraph import _native

Array = np.ndarray[Any, Any]


class Operator(Traits, metaclass=type):  # noqa: UP050  # else its classes are not hashable for mypy
    """One DirectML operator with all its fields: the Python form of a DML_OPERATOR_DESC."""

    dml: ClassVar[str]  # the name without DML_OPERATOR_
    name: ClassVar[str]  # in Python and YAML: without ELEMENT_WISE_, lower case
    own_fields: ClassVar[Mapping[str, FieldMember]] = {}  # those that the class's own body declares
    fields: ClassVar[Mapping[str, FieldMember]]  # its members that are not counts, by field
    members: ClassVar[tuple[Member, ...]]
    input_fields: ClassVar[tuple[str, ...]]
    output_fields: ClassVar[tuple[str, ...]]
    input_arrays: ClassVar[Mapping[str, bool]]  # input field → whether it is an array of inputs
    output_arrays: ClassVar[Mapping[str, bool]]  # output field → whether it is an array of outputs
    attribute_fields: ClassVar[tuple[str, ...]]
    activation_fields: ClassVar[tuple[str, ...]]  # each of them one fused activation
    members_to_complete: ClassVar[tuple[FieldMember, ...]]  # see dmlgraph.operators.declaration.completion
    scalars: ClassVar[Mapping[str, str]]  # scalar → the field with its data type, which is the output's
    plain_fields: ClassVar[tuple[str, ...]]  # the inputs and attributes that are as they are given, or absent
    family: ClassVar[str]
    is_view: ClassVar[bool] = False  # no operator of DirectML, see dmlgraph.operators.view
    broadcasts: ClassVar[bool] = False  # element-wise: input sizes are broadcast together
    takes_owned: ClassVar[bool] = True  # whether inputs may be DML_TENSOR_FLAG_OWNED_BY_DML
    output_keywords: ClassVar[tuple[str, ...]] = ()  # members of the (first) output that functions take directly
    aliases: ClassVar[tuple[str, ...]] = ()  # other names of the operator
    example: ClassVar[str] = ""  # the fields of a node; see dmlgraph.operators.catalog.examples
    # The outputs' values from the inputs' values: arrays with the descriptions' sizes and NumPy types.  Inputs come in
    # binding order: absent optional tensors as None, tensor arrays element by element.
    evaluate: ClassVar[Callable[..., tuple[Array, ...]]]

    def __init_subclass__(cls, dml: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.own_fields = take_fields(cls)
        if dml is None:  # a family's base, not an operator
            return
        cls.dml = dml
        cls.name = dml.removeprefix("ELEMENT_WISE_").lower()
        cls.family = cls.__module__.rpartition(".")[2]
        bases = [each for each in reversed(cls.__mro__) if issubclass(each, Operator)]
        cls.fields = in_struct_order(base.own_fields for base in bases)
        members = cls.fields.values()
        cls.members = tuple(members_of(members))
        cls.input_arrays = {m.field: m.count is not None for m in members if m.role is Role.INPUT}
        cls.output_arrays = {m.field: m.count is not None for m in members if m.role is Role.OUTPUT}
        cls.input_fields, cls.output_fields = tuple(cls.input_arrays), tuple(cls.output_arrays)
        cls.attribute_fields = tuple(m.field for m in members if m.role is None)
        cls.activation_fields = tuple(m.field for m in members if m.kind is Kind.OPERATOR)
        cls.members_to_complete = tuple(m for m in members if m.entries or m.axes or m.rank_of)
        cls.scalars = {m.field: m.typed_by for m in members if m.typed_by}
        completed = (m.field for m in cls.members_to_complete)
        inferred = {*cls.output_fields, *completed, *cls.scalars, *cls.scalars.values()}
        cls.plain_fields = tuple(m.field for m in members if m.field not in inferred)

    def __init__(self, /, **data: Any) -> None:
        """All fields by name.  Outputs may be left out or given in part (`{"strides": …}`).

        Raises:
            OperatorError: every problem found, each with its field.
        """
        self.__dict__.update(completed(type(self), described(type(self), data)))
        require(self._unequal_tensors(), self._overlapping_outputs(), self._owned_inputs(), self.constraints())

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Self:
        """An operator with these fields as they are: not checked, and not completed."""
        made = cls.__new__(cls)
        made.__dict__.update(fields)
        return made

    def replace(self, **changes: Any) -> Self:
        """The operator with other fields; they are not checked."""
        return self.of_fields(self.__dict__ | changes) if changes else self

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"{self.name}.{name} cannot be changed: g.set changes a node")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"{self.name}.{name} cannot be changed: g.set changes a node")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{field}={value!r}' for field, value in self.__dict__.items())})"

    @classmethod
    def field_problems(cls, /, **data: Any) -> Sequence[Problem]:
        """The problems of the separate fields, if they do not make an operator together."""
        try:
            described(cls, data)
        except OperatorError as error:
            return error.problems
        return ()

    # Methods that a class may define.  Those with `given`, which is what was given of the operator, are called before
    # it is complete: `self` has the fields that are known so far.

    def entries_of(self, given: Given) -> tuple[str, int | None]:
        """The tensor to whose dimensions the fields with one entry per dimension belong, and its rank if present."""
        return self.input_fields[0], self.input_rank

    def fill_in(self, given: Given) -> Mapping[str, Any]:
        """Attributes that may be left out and depend on the inputs, by field."""
        return {}

    def derive(self, given: Given) -> Mapping[str, Any]:
        """Attributes that may be left out and depend on the outputs, by field."""
        return {}

    def infer(self, given: Given) -> Outcome:
        """The outputs' descriptions, by field, from the inputs, the attributes and the requests.

        Here there is one, which is like the first input.
        """
        return {self.output_fields[0]: getattr(self, self.input_fields[0]).like()}

    def constraints(self) -> Iterator[Problem]:
        """The broken rules of this operator."""
        return iter(())

    def level_constraints(self, level: FeatureLevel) -> Iterator[Problem]:
        """The broken rules that apply only below some feature level, at `level`."""
        return iter(())

    @classmethod
    def adapt(cls, inputs: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
        """The input descriptions adapted to each other; here by NumPy's broadcasting if `broadcasts`."""
        return broadcast_inputs(inputs) if cls.broadcasts else inputs

    def apply(self, *arrays: Array) -> Array:
        """The function of arrays in the type of its computation; element-wise operators and activations have it."""
        raise NotImplementedError

    def apply_fused(self, x: Array, dtype: DataType) -> Array:
        """The function, fused into an operator with this output type, of the result before it is stored."""
        return self.apply(x)

    # What follows from the declaration.

    @classmethod
    def support(cls) -> OperatorSupport:
        return support(cls.dml)

    @classmethod
    def enumeration(cls, field: str) -> type[Enumeration]:
        """The enumeration of an enum field."""
        annotation = cls.fields[field].annotation
        if isinstance(annotation, type) and issubclass(annotation, Enumeration):
            return annotation
        raise TypeError(f"{cls.name}.{field} is not an enumeration")

    @classmethod
    def function_name(cls) -> str:
        """The name in Python; see `dmlgraph.operators.catalog.registry`."""
        return function_name(cls.name)

    @classmethod
    def is_source(cls) -> bool:
        """Whether it needs no input tensors: such operators are methods of Graph."""
        return not any(cls.fields[field].required for field in cls.input_fields)

    @property
    def input_rank(self) -> int | None:
        """The number of dimensions of the first input; None if there is no input."""
        first = getattr(self, self.input_fields[0]) if self.input_fields else None
        if isinstance(first, tuple):
            first = first[0] if first else None
        return None if first is None else first.rank

    def bindings(self, role: Role) -> list[Binding]:
        """The inputs, or the outputs, in the order in which DirectML binds them."""
        return bindings(self.__dict__, self.input_fields if role is Role.INPUT else self.output_fields)

    def by_field(self, role: Role, values: Mapping[int, Any]) -> dict[str, Any]:
        """Values by port of the inputs, or of the outputs → by field, as in `bindings.by_field`."""
        return by_field(self.bindings(role), values)

    def with_inputs(self, changes: Mapping[int, TensorDesc]) -> Self:
        """The operator with other descriptions at these input ports; they are not checked."""
        return self.replace(**self.by_field(Role.INPUT, {**dict(enumerate(self.input_descs)), **changes}))

    @property
    def input_descs(self) -> tuple[TensorDesc | None, ...]:
        """The input descriptions in binding order: those of `bindings`, in a fraction of the time."""
        return self._descs(self.input_fields)

    @property
    def output_descs(self) -> tuple[TensorDesc | None, ...]:
        """The output descriptions in binding order."""
        return self._descs(self.output_fields)

    @property
    def first_output(self) -> TensorDesc:
        """The first output's description.

        Raises:
            LookupError: it is left out.
        """
        first = self.output_descs[0]
        if first is None:
            raise LookupError(f"{self.name} is without its first output")
        return first

    def _descs(self, fields: Iterable[str]) -> tuple[TensorDesc | None, ...]:
        values: list[TensorDesc | None] = []
        for name in fields:
            value = getattr(self, name)
            if isinstance(value, tuple):
                values.extend(value)
            else:
                values.append(value)
        return tuple(values)

    @property
    def tensors(self) -> dict[str, Any]:
        """Every tensor field's value by field name."""
        return {name: getattr(self, name) for name in self.input_fields + self.output_fields}

    @property
    def attributes(self) -> dict[str, Any]:
        """Every field that is not a tensor, by name."""
        return {name: getattr(self, name) for name in self.attribute_fields}

    def struct_values(self) -> Iterator[tuple[Member, Any]]:
        """The members of the C struct in order with their values; a count's value is its array's length."""
        return struct_values(self.members, self.__dict__)

    def native(self, buffers: Mapping[int, int] | None = None) -> _native.OperatorDesc:
        """The operator in the form from which the native module makes the C struct.

        Args:
            buffers: the bytes of inputs' buffers, by port, if they are larger than what is read.
        """
        from dmlgraph.operators.declaration.native import (
            operator_desc,  # only devices that run natively need the module
        )

        return operator_desc(self, buffers)

    def level_problems(self, level: FeatureLevel) -> list[Problem]:
        """Why the operator is not legal at `level`: each problem says from which level what is legal."""
        problems: list[Problem] = []
        reported: set[tuple[str, Problem]] = set()  # by field, because its tensors share the problem
        for binding, tensor in self._present():
            field, path = binding.field, binding.path
            found = level_problem(type(self), level, field, tensor.dtype, tensor.rank, self._function)
            if found is None:
                continue
            if found.field is None:  # the operator itself: reported once
                return [found]
            if (field, found) not in reported:
                problems.append(found.within(path))
            what = "DataType" if found.field == "dtype" else "DimensionCount"
            reported |= {(each, found) for each in (field, *_alike(type(self), field, what))}
        return problems + list(self.level_constraints(level))

    @property
    def _function(self) -> str | None:
        """The name that distinguishes REDUCE's rows."""
        return None

    def _present(self) -> list[tuple[Binding, TensorDesc]]:
        """The inputs and then the outputs that are known and present, with their descriptions."""
        known = [field for field in self.input_fields + self.output_fields if field in self.__dict__]
        bound = bindings(self.__dict__, known)
        return [(binding, binding.desc) for binding in bound if binding.desc is not None]

    def _unequal_tensors(self) -> Iterator[Problem]:
        present = self._present()
        for fields, properties in _same_rules(type(self)):
            tensors = [(binding, desc) for binding, desc in present if binding.field in fields]
            for binding, desc in tensors[1:]:
                first_binding, first = tensors[0]
                unequal = next(
                    (what for what in properties if _PROPERTIES[what](desc) != _PROPERTIES[what](first)), None
                )
                if unequal is not None:
                    # One that lacks a dimension, such as that of the batch, is the wrong one.
                    wrong, right = (binding, desc), (first_binding, first)
                    if unequal == "DimensionCount" and first.rank < desc.rank and binding.field in self.input_fields:
                        wrong, right = right, wrong
                    yield Problem(
                        f"must have the same {_WORDS[unequal]} as '{right[0].path}'",
                        code=_CODES[unequal],
                        field=wrong[0].path,
                        got=str(wrong[1]),
                        allowed=str(right[1]),
                        hint=_REMEDIES.get(unequal),
                    )
                    break  # other differences, for example of an inferred output, mostly follow from this

    def _owned_inputs(self) -> Iterator[Problem]:
        for path, desc in ((each.path, each.desc) for each in self.bindings(Role.INPUT)):
            if desc is not None and desc.owned and not self.takes_owned:
                yield Problem(
                    "cannot be owned by DirectML here", code="owned", field=f"{path}.owned", got=True, allowed="false"
                )

    def wants(self, given: Given, field: str) -> bool:
        """Whether an optional output is requested, or else present by its declaration."""
        wanted: bool | None = given[field].wanted
        return self.fields[field].missing is Missing.THERE if wanted is None else wanted

    def _overlapping_outputs(self) -> Iterator[Problem]:
        for path, desc in ((each.path, each.desc) for each in self.bindings(Role.OUTPUT)):
            if desc is not None and desc.strides is not None and desc.overlaps_itself:
                yield Problem(
                    "the strides make elements of the output share memory",
                    code="shared-memory",
                    field=f"{path}.strides",
                    got=list(desc.strides),
                    allowed="strides that give every element its own address",
                )


def broadcast_inputs(inputs: dict[str, Any]) -> dict[str, Any]:
    """All input descriptions, broadcast as in NumPy to the same sizes, by zero strides."""
    present = [desc for desc in inputs.values() if desc is not None]
    if not present:
        return inputs
    sizes = broadcast_sizes(*(desc.sizes for desc in present))
    return {name: desc and desc.broadcast_to(sizes) for name, desc in inputs.items()}


_PROPERTIES = {
    "DataType": lambda desc: desc.dtype,
    "DimensionCount": lambda desc: desc.rank,
    "Sizes": lambda desc: desc.sizes,
}
_WORDS = {"DataType": "dtype", "DimensionCount": "number of dimensions", "Sizes": "sizes"}
_REMEDIES = {"DataType": "cast one of them", "DimensionCount": "expand_dims adds dimensions of size 1"}
_CODES = {"DataType": "dtype", "DimensionCount": "rank", "Sizes": "sizes"}


@functools.cache
def _same_rules(cls: type[Operator]) -> tuple[tuple[frozenset[str], tuple[str, ...]], ...]:
    """The data file's `same` rules with fields in place of struct members."""
    fields = {member.name: member.field for member in cls.fields.values()}
    return tuple(
        (frozenset(fields[tensor] for tensor in tensors), properties) for tensors, properties in cls.support().same
    )


def same_dtype_fields(cls: type[Operator], field: str) -> list[str]:
    """The fields whose data type must be that of `field`."""
    return _alike(cls, field, "DataType")


def _alike(cls: type[Operator], field: str, what: str) -> list[str]:
    """The fields that must have the same property `what` as `field`."""
    groups = (fields for fields, properties in _same_rules(cls) if what in properties and field in fields)
    return sorted(set().union(*groups))
