// The tables of kernels: every family of every level has one.
#pragma once

#include <span>

#include "cpu/kernels/kernel.h"

namespace dmlgraph::cpu {

struct Entry {
    Opcode opcode;
    DataType operand;
    DataType result;
    Kernel kernel;
};

using Entries = std::span<const Entry>;

#define DMLGRAPH_FAMILIES(X)                                                                                   \
    X(arithmetic) X(affine) X(integer) X(rounding) X(convert) X(select) X(compare) X(exponential) X(circular) X(activation) \
    X(half_functions) X(quantize) X(wide)

#define DMLGRAPH_FAMILY(name) Entries name##_kernels();
namespace baseline {
DMLGRAPH_FAMILIES(DMLGRAPH_FAMILY)
}
namespace avx2 {
DMLGRAPH_FAMILIES(DMLGRAPH_FAMILY)
}
namespace avx512 {
DMLGRAPH_FAMILIES(DMLGRAPH_FAMILY)
}
#undef DMLGRAPH_FAMILY

}  // namespace dmlgraph::cpu
