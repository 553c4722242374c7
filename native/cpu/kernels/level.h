// Levels of instruction sets: the kernels of each, and which of them this processor runs.
//
// A level compiles all families in a namespace of its own, DMLGRAPH_LEVEL. A family defines the kernels that this table
// has under its name, as name##_kernels. Levels that differ in products of integers only share all others.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "cpu/kernels/kernel.h"

// clang-format off
// The families of element-wise kernels.
#define DMLGRAPH_FAMILIES(X) \
    X(arithmetic) X(integer) X(rounding) X(convert) X(select) X(compare) X(exponential) X(circular) X(activation) \
    X(half_functions) X(quantize) X(wide)

// The others.
#define DMLGRAPH_KERNELS(X) \
    X(AttentionKernels, attention) X(ChannelBlockKernels, channel_block) X(ContributionKernels, contributions) \
    X(ConvolutionKernels, convolution) X(FewBitsKernels, few_bits) X(FewRowsKernels, few_rows) X(FormulaKernel, formula) \
    X(GateFamily, gates) X(IntegerKernels, integers) X(InterleavingKernels, interleaving) X(PoolingFamily, pooling) \
    X(ReductionKernels, reductions) X(ResamplingKernels, resampling)
// clang-format on

namespace dmlgraph::cpu {

struct Entry {
    Opcode opcode;
    DataType operand;
    DataType result;
    Kernel kernel;
};

using Entries = std::span<const Entry>;

#define DMLGRAPH_FAMILY(name) +1
inline constexpr std::size_t family_count = DMLGRAPH_FAMILIES(DMLGRAPH_FAMILY);
#undef DMLGRAPH_FAMILY

struct ProductKernels;
struct PairKernels;
#define DMLGRAPH_KERNELS_OF(Type, name) struct Type;
DMLGRAPH_KERNELS(DMLGRAPH_KERNELS_OF)
#undef DMLGRAPH_KERNELS_OF

struct Level {
    std::string_view name;  // in levels()
    const Entries* families[family_count];
#define DMLGRAPH_KERNELS_OF(Type, name) const Type& name;
    DMLGRAPH_KERNELS(DMLGRAPH_KERNELS_OF)
#undef DMLGRAPH_KERNELS_OF
    // With the fastest products of integers of this level and processor; `integers` need no more than the families do.
    const ProductKernels* products;
    const PairKernels* pairs = nullptr;        // null: the level has none
    const Entries* half_arithmetic = nullptr;  // kernels in place of some of the families, or null
};

// The compiled levels that this processor can run, ascending. The first is what every processor has: SSE2 on x86-64,
// NEON on ARM64.
std::span<const Level> levels();

// The best of them, or the one that DMLGRAPH_CPU_LEVEL names; determined once.
const Level& chosen_level();

}  // namespace dmlgraph::cpu

#ifdef DMLGRAPH_LEVEL
namespace dmlgraph::cpu::DMLGRAPH_LEVEL {

extern const Level level;
#define DMLGRAPH_FAMILY(name) extern const Entries name##_kernels;
DMLGRAPH_FAMILIES(DMLGRAPH_FAMILY)
#undef DMLGRAPH_FAMILY
#define DMLGRAPH_KERNELS_OF(Type, name) extern const Type name##_kernels;
DMLGRAPH_KERNELS(DMLGRAPH_KERNELS_OF)
DMLGRAPH_KERNELS_OF(ProductKernels, product)
#undef DMLGRAPH_KERNELS_OF

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
#endif
