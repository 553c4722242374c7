// Which instruction-set levels this processor and its operating system run.
#include <array>
#include <cstdlib>

#include "cpu/compiler.h"
#include "cpu/kernels/kernel.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::array<std::string_view, level_count> level_names{"baseline", "avx2", "avx512"};

#ifdef DMLGRAPH_X86_LEVELS

constexpr bool all(std::uint64_t value, std::uint64_t bits) { return (value & bits) == bits; }

Level detect() {
    constexpr std::uint32_t features = 1, extended_features = 7;  // leaves
    constexpr std::uint32_t fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29;  // features, ecx
    constexpr std::uint32_t avx2 = 1u << 5;  // extended features, ebx
    constexpr std::uint32_t f = 1u << 16, dq = 1u << 17, bw = 1u << 30, vl = 1u << 31;
    constexpr std::uint64_t ymm = 0x6, zmm = 0xe6;
    if (!all(cpuid(features).ecx, fma | osxsave | avx | f16c) || !all(cpuid(extended_features).ebx, avx2) ||
        !all(saved_state(), ymm)) {
        return Level::baseline;
    }
    return all(cpuid(extended_features).ebx, f | dq | bw | vl) && all(saved_state(), zmm) ? Level::avx512 : Level::avx2;
}

#else

Level detect() { return Level::baseline; }

#endif

Level choose() {
    Level best = detect();
    if (const char* asked = std::getenv("DMLGRAPH_CPU_LEVEL")) {
        for (const Level level : levels()) {
            if (level_name(level) == asked) {
                best = level;
            }
        }
    }
    return best;
}

}  // namespace

std::string_view level_name(Level level) { return level_names[static_cast<std::size_t>(level)]; }

std::span<const Level> levels() {
    static constexpr std::array all_levels{Level::baseline, Level::avx2, Level::avx512};
    static const std::size_t runnable = static_cast<std::size_t>(detect()) + 1;
    return std::span(all_levels).first(runnable);
}

Level chosen_level() {
    static const Level level = choose();
    return level;
}

}  // namespace dmlgraph::cpu
