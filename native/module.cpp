// The extension module dmlgraph._native: one init function per topic, each in its own file.
#include "bind/init.h"

PYBIND11_MODULE(_native, module) {
    module.doc() = "Native parts of dmlgraph.";
    dmlgraph::init_gil(module);
    dmlgraph::init_operator_desc(module);
    dmlgraph::init_directml(module);
    dmlgraph::init_cpu_steps(module);
    dmlgraph::init_cpu_graph(module);
    dmlgraph::init_cpu(module);
    dmlgraph::init_cpu_kernels(module);
}
