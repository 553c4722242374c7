// Finds the kernels of a few rows times vectors.
#include "cpu/kernels/chosen.h"
#include "cpu/kernels/row_product_tables.h"

namespace dmlgraph::cpu {

const FewRowsKernels& few_rows_kernels() noexcept { return DMLGRAPH_OF_CHOSEN_LEVEL(few_rows_kernels); }

}  // namespace dmlgraph::cpu
