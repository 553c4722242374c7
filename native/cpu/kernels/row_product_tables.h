// The kernels of rows times panels, by vectors: every level has them.
#pragma once

#include <span>

#include "cpu/kernels/row_product.h"

namespace dmlgraph::cpu {

using RowKernels = std::span<const TileKernel, most_row_vectors>;

namespace baseline {
RowKernels row_kernels();
}
namespace avx2 {
RowKernels row_kernels();
}
namespace avx512 {
RowKernels row_kernels();
}

}  // namespace dmlgraph::cpu
