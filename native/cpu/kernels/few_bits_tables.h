// The kernels of weights of few bits: every level has them.
#pragma once

#include "cpu/kernels/few_bits.h"

namespace dmlgraph::cpu {

namespace baseline {
const FewBitsKernels& few_bits_kernels();
}
namespace avx2 {
const FewBitsKernels& few_bits_kernels();
}
namespace avx512 {
const FewBitsKernels& few_bits_kernels();
}

}  // namespace dmlgraph::cpu
