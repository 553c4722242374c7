// The kernels of the gates of recurrent networks: every level has them.
#pragma once

#include "cpu/kernels/gates.h"

namespace dmlgraph::cpu {

namespace baseline {
const GateKernels& gate_kernels();
}
namespace avx2 {
const GateKernels& gate_kernels();
}
namespace avx512 {
const GateKernels& gate_kernels();
}

}  // namespace dmlgraph::cpu
