// The kernels of pooling: every level has them.
#pragma once

#include "cpu/kernels/pooling.h"

namespace dmlgraph::cpu {

#define DMLGRAPH_POOLING                                      \
    const PoolingKernels* maximum_kernels(DataType type);     \
    const PoolingKernels& sum_kernels();                      \
    const PoolingKernels& wide_sum_kernels();                 \
    NumbersKernel numbers_kernel(DataType type);              \
    const GradientKernels* gradient_kernels(DataType type);   \
    MagnitudeKernel magnitude_kernel();
namespace baseline {
DMLGRAPH_POOLING
}
namespace avx2 {
DMLGRAPH_POOLING
}
namespace avx512 {
DMLGRAPH_POOLING
}
#undef DMLGRAPH_POOLING

}  // namespace dmlgraph::cpu
