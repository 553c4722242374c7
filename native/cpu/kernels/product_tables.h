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
namespace avx2_pairs {  // of avx2: see PairKernels
const IntegerKernels& integer_products();
const IntegerKernels& products_of_signed_columns();
}
namespace avx512_pairs {  // the same of avx512
const IntegerKernels& integer_products();
const IntegerKernels& products_of_signed_columns();
}

}  // namespace dmlgraph::cpu
