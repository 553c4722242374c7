// The kernels of a few rows times vectors: every level has them.
#pragma once

#include "cpu/kernels/row_product.h"

namespace dmlgraph::cpu {

namespace baseline {
const FewRowsKernels& few_rows_kernels();
}
namespace avx2 {
const FewRowsKernels& few_rows_kernels();
}
namespace avx512 {
const FewRowsKernels& few_rows_kernels();
}

}  // namespace dmlgraph::cpu
