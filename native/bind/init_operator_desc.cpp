// Operator descs: converts Python fields to the bytes of the C struct.
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>

#include "bind/init.h"
#include "bind/read_value.h"
#include "directml/desc_arena.h"
#include "directml/operator_desc.h"

namespace dmlgraph {
namespace {

using OperatorPointer = std::shared_ptr<OperatorDesc>;

TensorDesc read_tensor(const Source& source) {
    if (!py::isinstance<TensorDesc>(source.value)) {
        source.wrong_type("a TensorDesc");
    }
    return source.value.cast<const TensorDesc&>();
}

bool holds_operator(const Field& field) {
    if (const auto* one = std::get_if<std::shared_ptr<const OperatorDesc>>(&field.value)) {
        return *one != nullptr;
    }
    const auto* many = std::get_if<std::vector<std::shared_ptr<const OperatorDesc>>>(&field.value);
    return many && !many->empty();
}

// DirectML operators nest only one level deep; this also limits the recursion.
std::shared_ptr<const OperatorDesc> read_operator(const Source& source) {
    if (!py::isinstance<OperatorDesc>(source.value)) {
        source.wrong_type("an OperatorDesc");
    }
    auto op = source.value.cast<OperatorPointer>();
    if (std::ranges::any_of(op->fields, holds_operator)) {
        source.wrong_value("an operator that does not contain an operator");
    }
    return op;
}

std::uint32_t read_bool(const Source& source) {
    if (!PyBool_Check(source.value.ptr())) {
        source.wrong_type("True or False");
    }
    return source.value.ptr() == Py_True ? 1 : 0;
}

ScalarBytes read_scalar(const Source& source) {
    if (!PyBytes_Check(source.value.ptr())) {
        source.wrong_type("8 bytes");
    }
    ScalarBytes bytes;
    if (PyBytes_GET_SIZE(source.value.ptr()) != static_cast<Py_ssize_t>(bytes.size())) {
        source.wrong_value("8 bytes");
    }
    std::memcpy(bytes.data(), PyBytes_AS_STRING(source.value.ptr()), bytes.size());
    return bytes;
}

ScaleBias read_scale_bias(const Source& source) {
    const auto numbers = read_sequence(source, read_float);
    if (numbers.size() != 2) {
        source.wrong_value("(scale, bias)");
    }
    return {numbers[0], numbers[1]};
}

Size2D read_size_2d(const Source& source) {
    const auto numbers = read_sequence(source, read_integer<std::uint32_t>);
    if (numbers.size() != 2) {
        source.wrong_value("(width, height)");
    }
    return {numbers[0], numbers[1]};
}

template <auto read>
FieldValue value(const Source& source) {
    return read(source);
}

template <auto read>
FieldValue sequence(const Source& source) {
    return read_sequence(source, read);
}

// None means absent.
template <auto read>
FieldValue optional(const Source& source) {
    using T = decltype(read(source));
    if constexpr (std::is_same_v<T, std::shared_ptr<const OperatorDesc>>) {
        return source.value.is_none() ? T{} : read(source);
    } else {
        return source.value.is_none() ? std::optional<T>{} : std::optional<T>{read(source)};
    }
}

// Indexed by FieldKind.
constexpr std::array<FieldValue (*)(const Source&), field_kinds.size()> readers{
    optional<read_tensor>,
    sequence<read_tensor>,
    value<read_integer<std::uint32_t>>,
    value<read_integer<std::int32_t>>,
    value<read_float>,
    value<read_bool>,
    value<read_integer<std::uint64_t>>,
    value<read_integer<std::uint32_t>>,
    value<read_scalar>,
    sequence<read_integer<std::uint32_t>>,
    sequence<read_integer<std::int32_t>>,
    sequence<read_float>,
    optional<read_scale_bias>,
    value<read_size_2d>,
    optional<read_operator>,
    sequence<read_operator>,
};

FieldKind read_kind(const Source& source) {
    if (!PyUnicode_Check(source.value.ptr())) {
        source.wrong_type("the name of a kind");
    }
    const auto kind = find_field_kind(source.value.cast<std::string_view>());
    if (!kind) {
        std::string names;
        for (const FieldKindInfo& known : field_kinds) {
            names += (names.empty() ? "" : ", ") + std::string(known.name);
        }
        source.wrong_value("one of " + names);
    }
    return *kind;
}

Field read_field(const Source& source) {
    const auto index = source.element;
    if (!PyTuple_Check(source.value.ptr()) || PyTuple_GET_SIZE(source.value.ptr()) != 2) {
        Source{source.value, "kind, value", index}.wrong_type("a pair");
    }
    const FieldKind kind = read_kind({PyTuple_GET_ITEM(source.value.ptr(), 0), "kind", index});
    const Source given{PyTuple_GET_ITEM(source.value.ptr(), 1), info(kind).name, index};
    return {kind, readers[static_cast<std::size_t>(kind)](given)};
}

OperatorPointer make_operator(const py::object& type, const py::object& fields) {
    auto op = std::make_shared<OperatorDesc>();
    op->type = read_integer<std::uint32_t>({type, "type", {}});
    op->fields = read_sequence({fields, "fields", {}}, read_field);
    return op;
}

TensorDesc make_tensor(const py::object& data_type, const py::object& flags, const py::object& sizes,
                       const py::object& strides, const py::object& total_bytes, const py::object& alignment) {
    TensorDesc tensor;
    tensor.data_type = read_integer<std::uint32_t>({data_type, "data_type", {}});
    tensor.flags = read_integer<std::uint32_t>({flags, "flags", {}});
    tensor.sizes = read_sequence({sizes, "sizes", {}}, read_integer<std::uint32_t>);
    if (!strides.is_none()) {
        const Source source{strides, "strides", {}};
        tensor.strides = read_sequence(source, read_integer<std::uint32_t>);
        if (tensor.strides->size() != tensor.sizes.size()) {
            source.wrong_value("as many strides as sizes (" + std::to_string(tensor.sizes.size()) + ")");
        }
    }
    tensor.total_bytes = read_integer<std::uint64_t>({total_bytes, "total_bytes", {}});
    tensor.alignment = read_integer<std::uint32_t>({alignment, "alignment", {}});
    return tensor;
}

py::tuple as_tuple(const StructLayout& layout) { return py::make_tuple(layout.size, layout.alignment, layout.offsets); }

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

}  // namespace

void init_operator_desc(py::module_& module) {
    py::class_<TensorDesc>(module, "TensorDesc", "A DML_BUFFER_TENSOR_DESC; sizes and strides in elements.")
        .def(py::init(&make_tensor), py::arg("data_type"), py::arg("flags"), py::arg("sizes"), py::arg("strides"),
             py::arg("total_bytes"), py::arg("alignment") = 0)
        .def_readonly("data_type", &TensorDesc::data_type)
        .def_readonly("flags", &TensorDesc::flags)
        .def_readonly("sizes", &TensorDesc::sizes)
        .def_readonly("strides", &TensorDesc::strides)
        .def_readonly("total_bytes", &TensorDesc::total_bytes)
        .def_readonly("alignment", &TensorDesc::alignment);

    py::class_<DescArena>(module, "PackedDesc", "An operator as the bytes of its C struct, at a fixed address.")
        .def_property_readonly("type", [](const DescArena& self) { return std::uint32_t{self.desc().Type}; })
        .def_property_readonly(
            "address", [](const DescArena& self) { return address_of(self.desc().Desc); },
            "Address of the operator's struct.")
        .def_property_readonly("block_address", [](const DescArena& self) { return address_of(self.block().data()); })
        .def_property_readonly(
            "block",
            [](const DescArena& self) {
                return py::bytes(reinterpret_cast<const char*>(self.block().data()), self.block().size());
            },
            "A copy of the whole block: the struct and everything its pointers reach.");

    py::class_<OperatorDesc, OperatorPointer>(module, "OperatorDesc",
                                              "An operator's type and its fields in the order of its C struct.")
        .def(py::init(&make_operator), py::arg("type"), py::arg("fields"))
        .def_readonly("type", &OperatorDesc::type)
        .def(
            "layout", [](const OperatorDesc& self) { return as_tuple(struct_layout(self)); },
            "(size, alignment, offsets) of the C struct, in bytes.")
        .def("pack", [](const OperatorDesc& self) { return DescArena(self); });

    module.def(
        "struct_layout",
        [](const py::object& kinds) { return as_tuple(struct_layout(read_sequence({kinds, "kinds", {}}, read_kind))); },
        py::arg("kinds"), "(size, alignment, offsets) of a C struct with fields of these kinds, in bytes.");
}

}  // namespace dmlgraph
