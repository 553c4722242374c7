// Finds the kernels of a few rows times vectors.
#include "cpu/kernels/chosen.h"
#include "cpu/kernels/row_product_tables.h"

namespace dmlgraph::cpu {

const RowsKernels& rows_kernels() noexcept { return DMLGRAPH_OF_CHOSEN_LEVEL(rows_kernels); }

}  // namespace dmlgraph::cpu
