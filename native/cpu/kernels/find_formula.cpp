// Finds the kernel of formulas.
#include "cpu/kernels/chosen.h"
#include "cpu/kernels/formula_tables.h"

namespace dmlgraph::cpu {

FormulaKernel formula_kernel() noexcept { return DMLGRAPH_OF_CHOSEN_LEVEL(formula); }

}  // namespace dmlgraph::cpu
