// The tables of reductions: every level has one.
#pragma once

#include <span>

#include "cpu/kernels/reduce.h"

namespace dmlgraph::cpu {

struct ReductionEntry {
    ReduceFunction function;
    DataType operand;
    DataType result;
    Reduction reduction;
};

using ReductionEntries = std::span<const ReductionEntry>;

namespace baseline {
ReductionEntries reductions();
}
namespace avx2 {
ReductionEntries reductions();
}
namespace avx512 {
ReductionEntries reductions();
}

}  // namespace dmlgraph::cpu
