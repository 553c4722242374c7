// The kernels of products: every level has them.
#pragma once

#include "cpu/kernels/product.h"

namespace dmlgraph::cpu {

namespace baseline {
const ProductKernels& products();
}
namespace avx2 {
const ProductKernels& products();
}
namespace avx512 {
const ProductKernels& products();
}

}  // namespace dmlgraph::cpu
