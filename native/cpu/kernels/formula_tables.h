// The kernels of formulas: every level has one.
#pragma once

#include "cpu/kernels/formula.h"

namespace dmlgraph::cpu {

namespace baseline {
FormulaKernel formula();
}
namespace avx2 {
FormulaKernel formula();
}
namespace avx512 {
FormulaKernel formula();
}

}  // namespace dmlgraph::cpu
