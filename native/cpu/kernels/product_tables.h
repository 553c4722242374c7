// The kernels of products: every level has them.
#pragma once

#include "cpu/kernels/product.h"

namespace dmlgraph::cpu {

namespace baseline {
const ProductKernels& products();
const IntegerKernels& integer_products();
}
namespace avx2 {
const ProductKernels& products();
const IntegerKernels& integer_products();
}
namespace avx512 {
const ProductKernels& products();
const IntegerKernels& integer_products();
}
namespace vnni {  // of avx512, for processors that multiply and add four 8-bit integers in one instruction
const IntegerKernels& integer_products();
}
namespace avx_vnni {  // the same of avx2
const IntegerKernels& integer_products();
}

}  // namespace dmlgraph::cpu
