// Reads Python values into the types of an operator's fields; errors say what was expected.
#pragma once

#include <pybind11/pybind11.h>

#include <cmath>
#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dmlgraph {

namespace py = pybind11;

// A Python value and its place, for the message if it is wrong.
struct Source {
    py::handle value;
    std::string_view name;                 // of the parameter, or of the field's kind
    std::optional<std::size_t> field;      // index of the field
    std::optional<std::size_t> element{};  // index in the field's sequence

    std::string where() const {
        std::string text =
            field ? "field " + std::to_string(*field) + " (" + std::string(name) + ")" : std::string(name);
        return element ? text + ", element " + std::to_string(*element) : text;
    }

    [[noreturn]] void wrong_type(const std::string& expected) const { throw py::type_error(message(expected)); }
    [[noreturn]] void wrong_value(const std::string& expected) const { throw py::value_error(message(expected)); }

private:
    std::string message(const std::string& expected) const {
        constexpr std::size_t longest = 80;
        py::str given = py::repr(value);
        if (py::len(given) > longest) {
            given = py::str(given[py::slice(0, longest, 1)]) + py::str("...");
        }
        return where() + ": expected " + expected + ", got " + given.cast<std::string>();
    }
};

// An integer in the range of T; a bool is not accepted.
template <std::integral T>
T read_integer(const Source& source) {
    const auto expected = [] {
        return "an integer from " + std::to_string(std::numeric_limits<T>::min()) + " to " +
               std::to_string(std::numeric_limits<T>::max());
    };
    if (PyBool_Check(source.value.ptr()) || !PyIndex_Check(source.value.ptr())) {
        source.wrong_type(expected());
    }
    const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(source.value.ptr()));
    if (!number) {
        throw py::error_already_set();
    }
    using Wide = std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>;
    Wide wide;
    if constexpr (std::is_signed_v<T>) {
        wide = PyLong_AsLongLong(number.ptr());
    } else {
        wide = PyLong_AsUnsignedLongLong(number.ptr());
    }
    if (PyErr_Occurred()) {
        PyErr_Clear();
        source.wrong_value(expected());
    }
    if (wide < std::numeric_limits<T>::min() || wide > std::numeric_limits<T>::max()) {
        source.wrong_value(expected());
    }
    return static_cast<T>(wide);
}

// A number rounded to float; a finite number must not become infinite.
inline float read_float(const Source& source) {
    if (PyBool_Check(source.value.ptr())) {
        source.wrong_type("a number");
    }
    const double number = PyFloat_AsDouble(source.value.ptr());
    if (PyErr_Occurred()) {
        PyErr_Clear();
        source.wrong_type("a number");
    }
    const auto rounded = static_cast<float>(number);
    if (std::isinf(rounded) && !std::isinf(number)) {
        source.wrong_value("a number in the range of float32");
    }
    return rounded;
}

// Applies `read` to every element of a sequence.
template <class Read>
auto read_sequence(const Source& source, Read read) {
    if (PyUnicode_Check(source.value.ptr()) || PyBytes_Check(source.value.ptr())) {
        source.wrong_type("a sequence");
    }
    const auto sequence = py::reinterpret_steal<py::object>(PySequence_Fast(source.value.ptr(), ""));
    if (!sequence) {
        PyErr_Clear();
        source.wrong_type("a sequence");
    }
    std::vector<decltype(read(source))> result;
    const auto count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(sequence.ptr()));
    result.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        PyObject* element = PySequence_Fast_GET_ITEM(sequence.ptr(), static_cast<Py_ssize_t>(i));
        result.push_back(read(Source{element, source.name, source.field, i}));
    }
    return result;
}

}  // namespace dmlgraph
