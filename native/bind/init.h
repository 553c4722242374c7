#pragma once

#include <pybind11/pybind11.h>

namespace dmlgraph {

void init_cpu(pybind11::module_& module);
void init_cpu_graph(pybind11::module_& module);
void init_cpu_kernels(pybind11::module_& module);
void init_cpu_steps(pybind11::module_& module);
void init_directml(pybind11::module_& module);
void init_gil(pybind11::module_& module);
void init_operator_desc(pybind11::module_& module);

}  // namespace dmlgraph
