// Python's values as those of the CPU executor: dmlgraph.base.tensor's DataType and TensorDesc, and immediates.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "bind/gil.h"
#include "cpu/kernels/kernel.h"
#include "cpu/tensor/layout.h"

namespace dmlgraph::cpu {

// The classes, found once: they live as long as Python.
struct TensorTypes {
    std::array<PyObject*, data_type_count> data_types{};  // the members of DataType
    PyTypeObject* tensor_desc = nullptr;
};

// A static initialiser would not do: it would wait for the interpreter lock while threads that hold the lock wait for
// the initialiser.
inline const TensorTypes& tensor_types() {
    static TensorTypes found;
    if (found.tensor_desc == nullptr) {
        TensorTypes types;
        const py::object data_type = imported("dmlgraph.base.tensor", "DataType");
        for (std::size_t value = 1; value < types.data_types.size(); ++value) {
            types.data_types[value] = call_python(data_type, py::int_(value)).ptr();
        }
        types.tensor_desc =
            reinterpret_cast<PyTypeObject*>(imported("dmlgraph.base.tensor", "TensorDesc").release().ptr());
        found = types;
    }
    return found;
}

}  // namespace dmlgraph::cpu

namespace pybind11::detail {

template <>
struct type_caster<dmlgraph::cpu::DataType> {
    PYBIND11_TYPE_CASTER(dmlgraph::cpu::DataType, const_name("DataType"));

    bool load(handle source, bool) {
        const auto& members = dmlgraph::cpu::tensor_types().data_types;
        const auto found = std::find(members.begin() + 1, members.end(), source.ptr());
        value = static_cast<dmlgraph::cpu::DataType>(found - members.begin());
        return found != members.end();
    }
};

// A 4-bit tensor is the bytes of its buffer.
template <>
struct type_caster<dmlgraph::cpu::TensorDesc> {
    PYBIND11_TYPE_CASTER(dmlgraph::cpu::TensorDesc, const_name("TensorDesc"));

    bool load(handle source, bool) {
        using namespace dmlgraph::cpu;
        if (Py_TYPE(source.ptr()) != tensor_types().tensor_desc) {
            return false;
        }
        const tuple sizes = source.attr("sizes");
        const object strides = source.attr("strides");
        if (sizes.size() > max_rank) {
            throw value_error("more than 8 dimensions");
        }
        value.type = source.attr("dtype").cast<DataType>();
        value.rank = static_cast<std::uint8_t>(sizes.size());
        read(sizes, value.sizes);
        if (strides.is_none()) {
            std::int64_t unit = 1;
            for (int d = value.rank - 1; d >= 0; --d) {
                value.strides[d] = unit;
                unit *= value.sizes[d];
            }
        } else {
            read(strides, value.strides);
            value.packed = is_packed(value);
        }
        if (item_size(value.type) == 0) {
            const auto bytes = static_cast<std::int64_t>(value.total_bytes());
            value = {};
            value.type = DataType::uint8;
            value.rank = 1;
            value.sizes[0] = bytes;
            value.strides[0] = 1;
        }
        return true;
    }

private:
    void read(const tuple& numbers, dmlgraph::cpu::Sizes& into) const {
        for (std::size_t d = 0; d < value.rank; ++d) {
            into[d] = numbers[d].cast<std::int64_t>();
        }
    }
};

// A float, or an integer in two's complement.
template <>
struct type_caster<dmlgraph::cpu::Immediate> {
    PYBIND11_TYPE_CASTER(dmlgraph::cpu::Immediate, const_name("float"));

    bool load(handle source, bool) {
        if (PyFloat_Check(source.ptr())) {
            value.f = PyFloat_AS_DOUBLE(source.ptr());
        } else if (PyLong_Check(source.ptr())) {
            value.u = PyLong_AsUnsignedLongLongMask(source.ptr());
        } else {
            return false;
        }
        return true;
    }
};

}  // namespace pybind11::detail
