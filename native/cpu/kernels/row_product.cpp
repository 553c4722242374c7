// A row times a panel.
#include "cpu/kernels/row_product_tables.h"
#include "cpu/kernels/tile.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace row_product {
namespace {

constexpr TileKernel kernels[most_row_vectors] = {
    tile<Singles, 1, 1>, tile<Singles, 1, 2>, tile<Singles, 1, 3>, tile<Singles, 1, 4>,
    tile<Singles, 1, 5>, tile<Singles, 1, 6>, tile<Singles, 1, 7>, tile<Singles, 1, 8>,
};

}  // namespace
}  // namespace row_product

RowKernels row_kernels() { return RowKernels(row_product::kernels); }

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
