// Finds the kernels of the gates of recurrent networks.
#include "cpu/kernels/chosen.h"
#include "cpu/kernels/gates_tables.h"

namespace dmlgraph::cpu {

const GateKernels& gate_kernels() noexcept { return DMLGRAPH_OF_CHOSEN_LEVEL(gate_kernels); }

}  // namespace dmlgraph::cpu
