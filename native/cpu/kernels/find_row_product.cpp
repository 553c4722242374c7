// Finds the kernels of rows times panels.
#include "cpu/kernels/chosen.h"
#include "cpu/kernels/row_product_tables.h"

namespace dmlgraph::cpu {

TileKernel row_kernel(int vectors) noexcept {
    return DMLGRAPH_OF_CHOSEN_LEVEL(row_kernels)[static_cast<std::size_t>(vectors - 1)];
}

}  // namespace dmlgraph::cpu
