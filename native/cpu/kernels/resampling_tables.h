// The kernels of resampling: every level has them.
#pragma once

#include "cpu/kernels/resampling.h"

namespace dmlgraph::cpu {

namespace baseline {
const ResamplingKernels& resampling_table();
}
namespace avx2 {
const ResamplingKernels& resampling_table();
}
namespace avx512 {
const ResamplingKernels& resampling_table();
}

}  // namespace dmlgraph::cpu
