// Reads a graph for the CPU executor from the tuples that dmlgraph.devices.cpu.plan produces.
#pragma once

#include <pybind11/pybind11.h>

#include "cpu/plan/plan.h"

namespace dmlgraph::cpu {

// Throws Python exceptions.
GraphSpec read_graph(const pybind11::sequence& inputs, const pybind11::sequence& nodes,
                     const pybind11::sequence& outputs);

}  // namespace dmlgraph::cpu
