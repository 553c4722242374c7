// Finds kernels by what they compute.
#include <algorithm>
#include <array>

#include "cpu/kernels/interleave.h"
#include "cpu/kernels/level.h"
#include "cpu/kernels/product.h"
#include "cpu/kernels/reduce.h"

namespace dmlgraph::cpu {
namespace {

struct Opinfo {
    std::string_view name;
    std::uint8_t operands;
    std::uint8_t immediates;
};

constexpr std::array<Opinfo, opcode_count> infos{{
#define DMLGRAPH_OPCODE(name, operands, immediates) {#name, operands, immediates},
    DMLGRAPH_OPCODES(DMLGRAPH_OPCODE)
#undef DMLGRAPH_OPCODE
}};

const Opinfo& info(Opcode opcode) { return infos[static_cast<std::size_t>(opcode)]; }

#define DMLGRAPH_REDUCTION(name) std::string_view(#name),
constexpr std::array reductions{DMLGRAPH_REDUCTIONS(DMLGRAPH_REDUCTION)};
#undef DMLGRAPH_REDUCTION

const InterleavingEntry* find_channels(int channels, int item) {
    const auto& all = chosen_level().interleaving.channels;
    const auto found = std::ranges::find_if(
        all, [&](const InterleavingEntry& each) { return each.channels == channels && each.item == item; });
    return found == all.end() ? nullptr : &*found;
}

}  // namespace

Kernel find_kernel(Opcode opcode, DataType operand, DataType result, const Level& level) noexcept {
    const auto find = [&](const Entries& entries) -> Kernel {
        const auto found = std::ranges::find_if(entries, [&](const Entry& entry) {
            return entry.opcode == opcode && entry.operand == operand && entry.result == result;
        });
        return found == entries.end() ? nullptr : found->kernel;
    };
    Kernel kernel = level.half_arithmetic == nullptr ? nullptr : find(*level.half_arithmetic);
    for (std::size_t i = 0; kernel == nullptr && i < family_count; ++i) {
        kernel = find(*level.families[i]);
    }
    return kernel;
}

Kernel find_kernel(Opcode opcode, DataType operand, DataType result) noexcept {
    return find_kernel(opcode, operand, result, chosen_level());
}

std::optional<Opcode> find_opcode(std::string_view name) {
    const auto found = std::ranges::find(infos, name, &Opinfo::name);
    return found == infos.end() ? std::nullopt : std::optional(static_cast<Opcode>(found - infos.begin()));
}

std::string_view opcode_name(Opcode opcode) { return info(opcode).name; }

std::size_t operand_count(Opcode opcode) { return info(opcode).operands; }

std::size_t immediate_count(Opcode opcode) { return info(opcode).immediates; }

const Reduction* find_reduction(std::string_view name, DataType operand, DataType result) noexcept {
    const auto function = static_cast<ReduceFunction>(std::ranges::find(reductions, name) - reductions.begin());
    for (const ReductionEntry& entry : chosen_level().reductions.entries) {
        if (entry.function == function && entry.operand == operand && entry.result == result) {
            return &entry.reduction;
        }
    }
    return nullptr;
}

const PairKernels* useful_pairs(const Level& level) noexcept {
    return level.products->integers.depths == most_depths_of_word ? nullptr : level.pairs;
}

Interleaving find_split(int channels, int item) noexcept {
    const InterleavingEntry* const found = find_channels(channels, item);
    return found == nullptr ? nullptr : found->split;
}

Interleaving find_merge(int channels, int item) noexcept {
    const InterleavingEntry* const found = find_channels(channels, item);
    return found == nullptr ? nullptr : found->merge;
}

Transposition find_transposition(int item) noexcept {
    for (const TranspositionEntry& entry : chosen_level().interleaving.rectangles) {
        if (entry.item == item) {
            return entry.transposition;
        }
    }
    return nullptr;
}

}  // namespace dmlgraph::cpu
