// The kernels of convolutions: every level has them.
#pragma once

#include "cpu/kernels/convolution.h"

namespace dmlgraph::cpu {

namespace baseline {
const ConvolutionKernels& convolutions();
}
namespace avx2 {
const ConvolutionKernels& convolutions();
}
namespace avx512 {
const ConvolutionKernels& convolutions();
}

}  // namespace dmlgraph::cpu
