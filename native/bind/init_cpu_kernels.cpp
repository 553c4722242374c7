// Single kernels of the CPU executor, for tests: dmlgraph._native.cpu_kernels.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bind/init.h"
#include "cpu/kernels/level.h"

namespace dmlgraph {
namespace {

namespace py = pybind11;

const cpu::Level& read_level(std::string_view name) {
    for (const cpu::Level& level : cpu::levels()) {
        if (level.name == name) {
            return level;
        }
    }
    throw py::value_error("this machine does not have the instruction-set level " + std::string(name));
}

cpu::Opcode read_opcode(std::string_view name) {
    if (const auto opcode = cpu::find_opcode(name)) {
        return *opcode;
    }
    throw py::value_error("not an opcode: " + std::string(name));
}

cpu::DataType read_data_type(int value) {
    if (value <= 0 || value >= static_cast<int>(cpu::data_type_count)) {
        throw py::value_error("not a DML_TENSOR_DATA_TYPE: " + std::to_string(value));
    }
    return static_cast<cpu::DataType>(value);
}

cpu::Immediate read_immediate(const py::object& value) {
    if (py::isinstance<py::float_>(value)) {
        return {.f = value.cast<double>()};
    }
    if (value < py::int_(0)) {
        return {.i = value.cast<std::int64_t>()};
    }
    return {.u = value.cast<std::uint64_t>()};
}

std::vector<std::string_view> level_names() {
    std::vector<std::string_view> names;
    std::ranges::transform(cpu::levels(), std::back_inserter(names), &cpu::Level::name);
    return names;
}

py::dict opcodes() {
    py::dict counts;
    for (std::size_t k = 0; k < cpu::opcode_count; ++k) {
        const auto opcode = static_cast<cpu::Opcode>(k);
        counts[py::str(cpu::opcode_name(opcode))] =
            py::make_tuple(cpu::operand_count(opcode), cpu::immediate_count(opcode));
    }
    return counts;
}

bool has_kernel(std::string_view opcode, int operand, int result, std::string_view level) {
    return cpu::find_kernel(read_opcode(opcode), read_data_type(operand), read_data_type(result), read_level(level));
}

bool is_packed(const py::array& array) { return (array.flags() & py::array::c_style) != 0; }

void apply(std::string_view opcode_name, int operand, int result, const std::vector<py::array>& operands, py::array out,
           const std::vector<py::object>& immediates, std::string_view level, std::uint64_t first) {
    const cpu::Opcode opcode = read_opcode(opcode_name);
    const cpu::Kernel kernel =
        cpu::find_kernel(opcode, read_data_type(operand), read_data_type(result), read_level(level));
    if (!kernel) {
        throw py::value_error("the kernel does not exist");
    }
    if (operands.size() != cpu::operand_count(opcode) || immediates.size() != cpu::immediate_count(opcode)) {
        throw py::value_error("wrong number of operands or immediates");
    }
    const auto count = static_cast<std::size_t>(out.size());
    const auto fits = [&](const py::array& array) {
        return is_packed(array) && (array.ndim() == 0 || array.size() == out.size());
    };
    if (!is_packed(out) || static_cast<std::size_t>(out.itemsize()) != cpu::item_size(read_data_type(result)) ||
        !std::ranges::all_of(operands, fits)) {
        throw py::value_error("arrays must be packed, as long as out, and have the right item size");
    }
    std::vector<cpu::Operand> in;
    in.reserve(operands.size());
    for (const py::array& array : operands) {
        in.push_back({array.data(), array.ndim() == 0});
    }
    std::vector<cpu::Immediate> values;
    std::ranges::transform(immediates, std::back_inserter(values), read_immediate);
    if (count > 0) {
        kernel({out.mutable_data(), in.data(), count, values.data(), first});
    }
}

}  // namespace

void init_cpu_kernels(py::module_& module) {
    auto kernels = module.def_submodule("cpu_kernels", "Single kernels of the CPU executor, for tests.");
    kernels.def("levels", level_names, "The instruction-set levels of this machine, ascending.");
    kernels.def("opcodes", opcodes, "Numbers of operands and immediates by opcode.");
    kernels.def("has_kernel", has_kernel, py::arg("opcode"), py::arg("operand"), py::arg("result"), py::arg("level"),
                "Whether there is a kernel for these DML_TENSOR_DATA_TYPEs.");
    kernels.def("apply", apply, py::arg("opcode"), py::arg("operand"), py::arg("result"), py::arg("operands"),
                py::arg("out"), py::arg("immediates") = std::vector<py::object>{}, py::arg("level") = "baseline",
                py::arg("first") = 0,
                "Runs a kernel over packed arrays; an array without dimensions is one value for all elements.");
}

}  // namespace dmlgraph
