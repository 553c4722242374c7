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
constexpr std::uint32_t extended_features = 7;  // leaf

const IntegerKernels& best_of_avx512() {
    constexpr std::uint32_t vnni_bit = 1u << 11;  // ecx
    return (cpuid(extended_features).ecx & vnni_bit) != 0 ? vnni::integer_products() : avx512::integer_products();
}

const IntegerKernels& best_of_avx2() {
#ifdef DMLGRAPH_AVX_VNNI
    constexpr std::uint32_t more = 1, vnni_bit = 1u << 4;  // subleaf; eax
    if ((cpuid(extended_features, more).eax & vnni_bit) != 0) {
        return avx_vnni::integer_products();
    }
#endif
    return avx2::integer_products();
}
#endif

ProductKernels make(Level level) {
    switch (level) {
#ifdef DMLGRAPH_X86_LEVELS
        case Level::avx512: return with(avx512::products(), best_of_avx512());
        case Level::avx2: return with(avx2::products(), best_of_avx2());
#endif
        default: return with(baseline::products(), baseline::integer_products());
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

const PairKernels* pair_kernels(Level level) noexcept {
#ifdef DMLGRAPH_X86_LEVELS
    static const PairKernels of_avx2{with(avx2::products(), avx2_pairs::integer_products()),
                                     with(avx2::products(), avx2_pairs::products_of_signed_columns())};
    static const PairKernels of_avx512{with(avx512::products(), avx512_pairs::integer_products()),
                                       with(avx512::products(), avx512_pairs::products_of_signed_columns())};
    return level == Level::avx2 ? &of_avx2 : level == Level::avx512 ? &of_avx512 : nullptr;
#else
    static_cast<void>(level);
    return nullptr;
#endif
}

const PairKernels* pair_kernels() noexcept {
    return product_kernels().integers.depths == most_depths_of_word ? nullptr : pair_kernels(chosen_level());
}

}  // namespace dmlgraph::cpu
