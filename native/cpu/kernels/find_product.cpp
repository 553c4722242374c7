// Finds the kernels of products.
#include <array>

#include "cpu/kernels/product_tables.h"

#ifdef DMLGRAPH_X86_LEVELS
#include "cpu/compiler.h"
#endif

namespace dmlgraph::cpu {
namespace {

ProductKernels with(ProductKernels kernels, const IntegerKernels& integers) {
    kernels.integers = integers;
    return kernels;
}

#ifdef DMLGRAPH_X86_LEVELS
bool has_vnni() {
    constexpr std::uint32_t extended_features = 7, vnni = 1u << 11;  // leaf; ecx
    return (cpuid(extended_features).ecx & vnni) != 0;
}
#endif

ProductKernels make(Level level) {
    const IntegerKernels& integers = common_integer_kernels(level);
    switch (level) {
#ifdef DMLGRAPH_X86_LEVELS
        case Level::avx512: return with(avx512::products(), has_vnni() ? vnni::integer_products() : integers);
        case Level::avx2: return with(avx2::products(), integers);
#endif
        default: return with(baseline::products(), integers);
    }
}

}  // namespace

const IntegerKernels& common_integer_kernels(Level level) noexcept {
    switch (level) {
#ifdef DMLGRAPH_X86_LEVELS
        case Level::avx512: return avx512::integer_products();
        case Level::avx2: return avx2::integer_products();
#endif
        default: return baseline::integer_products();
    }
}

const ProductKernels& product_kernels(Level level) noexcept {
    static const std::array<ProductKernels, level_count> kernels{make(Level::baseline), make(Level::avx2), make(Level::avx512)};
    return kernels[static_cast<std::size_t>(level)];
}

const ProductKernels& product_kernels() noexcept { return product_kernels(chosen_level()); }

}  // namespace dmlgraph::cpu
