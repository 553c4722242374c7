// Kernels: plain loops over packed elements, one for each opcode and pair of types, at every instruction-set level.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "cpu/kernels/opcodes.h"
#include "cpu/tensor/data_type.h"

namespace dmlgraph::cpu {

union Immediate {
    double f;
    std::int64_t i;
    std::uint64_t u;
};

// `count` packed elements, or one element that is repeated.
struct Operand {
    const void* data;
    bool scalar;
};

struct Call {
    void* out;
    const Operand* in;
    std::size_t count;
    const Immediate* immediates;
    std::uint64_t first;  // the row-major index of the first element, from which SEQUENCE counts
};

// Pointers are aligned to their elements. `out` overlaps no input, but may be equal to an input whose elements have the
// size of the result's.
using Kernel = void (*)(const Call&) noexcept;

enum class Level : std::uint8_t {
    baseline,  // what every processor has: SSE2 on x86-64, NEON on arm64
    avx2,      // with FMA and F16C
    avx512,    // F, BW, DQ and VL
};

inline constexpr std::size_t level_count = 3;

std::string_view level_name(Level level);

// The compiled levels that this processor can run, ascending.
std::span<const Level> levels();

// The best of them, or the level that DMLGRAPH_CPU_LEVEL names if that is lower; determined once.
Level chosen_level();

// Null if there is no kernel.
Kernel find_kernel(Opcode opcode, DataType operand, DataType result) noexcept;
Kernel find_kernel(Opcode opcode, DataType operand, DataType result, Level level) noexcept;

std::optional<Opcode> find_opcode(std::string_view name);
std::string_view opcode_name(Opcode opcode);
std::size_t operand_count(Opcode opcode);
std::size_t immediate_count(Opcode opcode);

}  // namespace dmlgraph::cpu
