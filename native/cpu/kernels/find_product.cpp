// Finds the kernels of products.
#include "cpu/kernels/product_tables.h"

namespace dmlgraph::cpu {

const ProductKernels& product_kernels(Level level) noexcept {
    switch (level) {
#ifdef DMLGRAPH_X86_LEVELS
        case Level::avx512: return avx512::products();
        case Level::avx2: return avx2::products();
#endif
        default: return baseline::products();
    }
}

const ProductKernels& product_kernels() noexcept { return product_kernels(chosen_level()); }

}  // namespace dmlgraph::cpu
