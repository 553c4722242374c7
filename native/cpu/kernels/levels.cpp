// Which levels this processor and its operating system run: the only place that asks them.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

#include "cpu/compiler.h"
#include "cpu/kernels/level.h"
#include "cpu/kernels/product.h"

#if defined(DMLGRAPH_ARM_LEVELS)
#if defined(__linux__)
#include <sys/auxv.h>
#elif defined(_WIN32)
#include <windows.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif
#endif

namespace dmlgraph::cpu {

// What the levels define, and others for integers only.
#define DMLGRAPH_INTEGERS_OF(space) \
    namespace space {               \
    extern const IntegerKernels integers_kernels, signed_columns_kernels; \
    }
namespace baseline {
extern const Level level;
}
#ifdef DMLGRAPH_X86_LEVELS
namespace avx2 {
extern const Level level;
}
namespace avx512 {
extern const Level level;
}
DMLGRAPH_INTEGERS_OF(avx2_pairs)    // see PairKernels
DMLGRAPH_INTEGERS_OF(avx512_pairs)  // …
DMLGRAPH_INTEGERS_OF(avx_vnni)  // of avx2, for processors that multiply and add four 8-bit integers in one instruction
DMLGRAPH_INTEGERS_OF(vnni)      // the same of avx512
#endif
#ifdef DMLGRAPH_ARM_LEVELS
DMLGRAPH_INTEGERS_OF(dotprod)  // which multiply and add four 8-bit integers in one instruction, …
DMLGRAPH_INTEGERS_OF(i8mm)     // … and eight of two rows and two columns
namespace fp16 {
extern const Entries half_arithmetic_kernels;
}
#endif

namespace {

// Of instruction sets, with what the operating system saves of their registers; a bit each.
using Features = std::uint32_t;

#ifdef DMLGRAPH_X86_LEVELS

constexpr Features avx2_bit = 1, avx512_bit = 2, avx_vnni_bit = 4, avx512_vnni_bit = 8;

constexpr bool all(std::uint64_t value, std::uint64_t bits) { return (value & bits) == bits; }

Features detect() {
    constexpr std::uint32_t features = 1, extended_features = 7, more = 1;  // leaves, and a subleaf
    constexpr std::uint32_t fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29;  // features, ecx
    constexpr std::uint32_t avx2 = 1u << 5, f = 1u << 16, dq = 1u << 17, bw = 1u << 30,
                            vl = 1u << 31;           // extended features, ebx
    constexpr std::uint32_t avx512_vnni = 1u << 11;  // …, ecx
    constexpr std::uint32_t avx_vnni = 1u << 4;      // more of them, eax
    constexpr std::uint64_t ymm = 0x6, zmm = 0xe6;
    const CpuidRegisters extended = cpuid(extended_features);
    if (!all(cpuid(features).ecx, fma | osxsave | avx | f16c) || !all(extended.ebx, avx2) || !all(saved_state(), ymm)) {
        return 0;
    }
    Features found = avx2_bit;
    found |= all(cpuid(extended_features, more).eax, avx_vnni) ? avx_vnni_bit : 0;
    if (all(extended.ebx, f | dq | bw | vl) && all(saved_state(), zmm)) {
        found |= avx512_bit | (all(extended.ecx, avx512_vnni) ? avx512_vnni_bit : 0);
    }
    return found;
}

#elif defined(DMLGRAPH_ARM_LEVELS)

constexpr Features dotprod_bit = 1, i8mm_bit = 2, fp16_bit = 4;

// Systems tell of instructions; only they can ask the processor. Constants that older headers lack have numbers here.
Features detect() {
#if defined(__linux__)
    constexpr unsigned long dotprod = 1ul << 20, fp16 = 1ul << 10;  // of AT_HWCAP
    constexpr unsigned long more = 26, i8mm = 1ul << 13;            // AT_HWCAP2
    const unsigned long found = getauxval(AT_HWCAP);
    const bool has_dotprod = (found & dotprod) != 0, has_fp16 = (found & fp16) != 0;
    const bool has_i8mm = (getauxval(more) & i8mm) != 0;
#elif defined(_WIN32)
    constexpr DWORD dotprod = 43, i8mm = 66, fp16 = 67;  // PF_ARM_V82_…_INSTRUCTIONS_AVAILABLE
    const auto has = [](DWORD feature) { return IsProcessorFeaturePresent(feature) != 0; };
    const bool has_dotprod = has(dotprod), has_i8mm = has(i8mm), has_fp16 = has(fp16);
#elif defined(__APPLE__)
    const auto has = [](const char* name) {  // macOS 11 has no such names
        int value = 0;
        std::size_t bytes = sizeof value;
        return sysctlbyname(name, &value, &bytes, nullptr, 0) == 0 && value != 0;
    };
    const bool has_dotprod = has("hw.optional.arm.FEAT_DotProd"), has_i8mm = has("hw.optional.arm.FEAT_I8MM"),
               has_fp16 = has("hw.optional.arm.FEAT_FP16");
#else
    constexpr bool has_dotprod = false, has_i8mm = false, has_fp16 = false;
#endif
    return (has_dotprod ? dotprod_bit : 0) | (has_i8mm ? i8mm_bit : 0) | (has_fp16 ? fp16_bit : 0);
}

#else

Features detect() { return 0; }

#endif

// A level, what it needs, the kernels that it has, and what else there is: faster products of integers, which may need
// more, those of pairs, and arithmetic of float16.
struct Row {
    std::string_view name;
    Features needs;
    const Level& kernels;
    Features faster_needs = 0;
    const IntegerKernels* faster = nullptr;
    const IntegerKernels* small_rows = nullptr;
    const IntegerKernels* small_columns = nullptr;
    const Entries* half_arithmetic = nullptr;
};

// Ascending.
constexpr Row rows[]{
    {"baseline", 0, baseline::level},
#ifdef DMLGRAPH_X86_LEVELS
#ifdef DMLGRAPH_AVX_VNNI
    {"avx2", avx2_bit, avx2::level, avx_vnni_bit, &avx_vnni::integers_kernels, &avx2_pairs::integers_kernels,
     &avx2_pairs::signed_columns_kernels},
#else
    {"avx2", avx2_bit, avx2::level, 0, nullptr, &avx2_pairs::integers_kernels, &avx2_pairs::signed_columns_kernels},
#endif
    {"avx512", avx512_bit, avx512::level, avx512_vnni_bit, &vnni::integers_kernels, &avx512_pairs::integers_kernels,
     &avx512_pairs::signed_columns_kernels},
#endif
#ifdef DMLGRAPH_ARM_LEVELS
    {"dotprod", dotprod_bit | fp16_bit, baseline::level, dotprod_bit, &dotprod::integers_kernels, nullptr, nullptr,
     &fp16::half_arithmetic_kernels},
    {"i8mm", dotprod_bit | fp16_bit | i8mm_bit, baseline::level, i8mm_bit, &i8mm::integers_kernels, nullptr, nullptr,
     &fp16::half_arithmetic_kernels},
#endif
};

ProductKernels with(ProductKernels kernels, const IntegerKernels& integers) {
    kernels.integers = integers;
    return kernels;
}

// What the rows' levels have on this processor.
struct Runnable {
    std::array<ProductKernels, std::size(rows)> products;
    std::array<std::optional<PairKernels>, std::size(rows)> pairs;
    std::vector<Level> levels;

    Runnable() {
        const Features found = detect();
        for (std::size_t i = 0; i < std::size(rows); ++i) {
            const Row& row = rows[i];
            if ((found & row.needs) != row.needs) {
                break;
            }
            const bool is_faster = row.faster != nullptr && (found & row.faster_needs) != 0;
            products[i] = with(*row.kernels.products, is_faster ? *row.faster : row.kernels.integers);
            if (row.small_rows != nullptr) {
                pairs[i] = PairKernels{with(*row.kernels.products, *row.small_rows),
                                       with(*row.kernels.products, *row.small_columns)};
            }
            Level& level = levels.emplace_back(row.kernels);
            level.name = row.name;
            level.products = &products[i];
            level.pairs = pairs[i] ? &*pairs[i] : nullptr;
            level.half_arithmetic = row.half_arithmetic;
        }
    }
};

}  // namespace

std::span<const Level> levels() {
    static const Runnable runnable;
    return runnable.levels;
}

const Level& chosen_level() {
    static const Level& level = []() -> const Level& {
        const char* const asked = std::getenv("DMLGRAPH_CPU_LEVEL");
        for (const Level& each : levels()) {
            if (asked != nullptr && each.name == asked) {
                return each;
            }
        }
        return levels().back();
    }();
    return level;
}

}  // namespace dmlgraph::cpu
