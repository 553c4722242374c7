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

struct Level;  // level.h

// Returns null if the level, by default the chosen one, does not have the kernel.
Kernel find_kernel(Opcode opcode, DataType operand, DataType result) noexcept;
Kernel find_kernel(Opcode opcode, DataType operand, DataType result, const Level& level) noexcept;

std::optional<Opcode> find_opcode(std::string_view name);
std::string_view opcode_name(Opcode opcode);
std::size_t operand_count(Opcode opcode);
std::size_t immediate_count(Opcode opcode);

}  // namespace dmlgraph::cpu
