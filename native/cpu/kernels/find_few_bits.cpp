// Finds the kernels of weights of few bits.
#include "cpu/kernels/chosen.h"
#include "cpu/kernels/few_bits_tables.h"

namespace dmlgraph::cpu {

const FewBitsKernels& few_bits_kernels() noexcept { return DMLGRAPH_OF_CHOSEN_LEVEL(few_bits_kernels); }

}  // namespace dmlgraph::cpu
