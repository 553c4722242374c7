// Which instructions join to formulas.
#include <algorithm>
#include <cmath>

#include "cpu/region/formula_draft.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::size_t least_members = 3;  // two take as long as separate instructions, at every level
constexpr std::size_t most_members = 16;  // few enough for what is kept, and operations, nearly always

bool is_of(const RegionInstruction& each, DataType operand, DataType result) {
    return each.operand == operand && each.result == result;
}

bool are_numbers(DataType type) { return type == DataType::float32 || type == DataType::float16; }

class Members {
public:
    explicit Members(const Region& region)
        : region_(region), readers_(readers_of(region)), is_read_outside_(readers_.size(), false), roots_(readers_.size()),
          sizes_(readers_.size(), 0), operands_(readers_.size(), 1) {
        for (const RegionStore& store : region.stores) {
            if (!store.source.load) {
                is_read_outside_[index_of(store.source)] = true;
            }
        }
        for (std::size_t i = 0; i < readers_.size(); ++i) {
            varying_.push_back(dimensions(i));
        }
    }

    // From the last instruction on: one belongs to the formula of those that take it, if they are of a single one; else it
    // begins its own, unless its result is a mask.
    FormulaRoots choose() {
        for (std::size_t i = readers_.size(); i-- > 0;) {
            if (!is_cheap(i)) {
                continue;
            }
            if (joins(i)) {
                roots_[i] = roots_[readers_[i][0]];
            } else if (are_numbers(region_.instructions[i].result)) {
                roots_[i] = i;
            }
            if (roots_[i]) {
                ++sizes_[*roots_[i]];
                operands_[*roots_[i]] += more_operands(i);
            }
        }
        for (std::size_t i = 0; i < readers_.size(); ++i) {
            if (roots_[i] && sizes_[*roots_[i]] < least_members) {
                roots_[i].reset();
            }
        }
        return std::move(roots_);
    }

private:
    // The dimensions along which elements differ, as bits.
    std::uint32_t dimensions(const Reference& reference) const {
        if (!reference.load) {
            return varying_[index_of(reference)];
        }
        std::uint32_t result = 0;
        for (int d = 0; d < region_.rank; ++d) {
            const bool differs = region_.loads[index_of(reference)].strides[d] != 0 && region_.sizes[d] > 1;
            result |= differs ? 1u << d : 0u;
        }
        return result;
    }

    std::uint32_t dimensions(std::size_t i) const {
        const RegionInstruction& each = region_.instructions[i];
        std::uint32_t result = each.counts ? ~0u : 0u;
        for (int k = 0; k < each.operand_count; ++k) {
            result |= dimensions(operand_of(region_, i, k));
        }
        const std::uint32_t kept = (1u << std::max(region_.kept, 0)) - 1u;
        return each.reduction != nullptr ? result & kept : result;
    }

    // Whether a formula can compute it, and does so faster. What is narrow is a few elements at a time: much less than a batch.
    bool is_cheap(std::size_t i) const {
        const RegionInstruction& each = region_.instructions[i];
        if (each.reduction != nullptr || each.narrow) {
            return false;
        }
        const bool on_numbers = are_numbers(each.operand) && each.result == each.operand;
        const auto bounds = [&](int first, int count) {  // a bound that is NaN is ignored
            return on_numbers && (immediate_of(region_, i, first) == immediate_of(region_, i, first)) && (count == 1 || immediate_of(region_, i, first + 1) == immediate_of(region_, i, first + 1));
        };
        switch (each.opcode) {
            case Opcode::ADD:
            case Opcode::SUBTRACT:
            case Opcode::MULTIPLY:
            case Opcode::MAX:
            case Opcode::MIN:
            case Opcode::MEAN:
            case Opcode::DIFFERENCE_SQUARE:
            case Opcode::ABS:
            case Opcode::NEGATE:
            case Opcode::SQRT:
            case Opcode::RECIP:
            case Opcode::RELU:
            case Opcode::SCALE_BIAS:
            case Opcode::IF:
            case Opcode::AFFINE:
            case Opcode::AFFINE_ABOVE:
            case Opcode::AFFINE_BETWEEN: return on_numbers;
            case Opcode::DIVIDE: return on_numbers && !is_repeated_in_rows(region_, operand_of(region_, i, 1));  // there are faster ones
            // Rounded once: only if it is a sum or a product.
            case Opcode::LINEAR: return is_of(each, DataType::float32, DataType::float32) && (is_product(region_, i) || immediate_of(region_, i, 0) == 1.0);
            case Opcode::THRESHOLD: return bounds(0, 1);
            case Opcode::CLIP: return bounds(0, 2);
            case Opcode::LESS:
            case Opcode::LESS_OR_EQUAL:
            case Opcode::EQUAL: return are_numbers(each.operand);
            case Opcode::LOGICAL_AND:
            case Opcode::LOGICAL_OR:
            case Opcode::LOGICAL_XOR:
            case Opcode::LOGICAL_NOT: return each.operand == DataType::uint8;
            case Opcode::CONVERT: return are_numbers(each.result) && (are_numbers(each.operand) || each.operand == DataType::uint8);
            default: return false;
        }
    }

    std::size_t more_operands(std::size_t i) const { return static_cast<std::size_t>(region_.instructions[i].operand_count - 1); }

    // Whether it joins those that take it. What is the same in several rows is computed once for them, and so stays outside.
    bool joins(std::size_t i) const {
        const std::vector<std::size_t>& readers = readers_[i];
        if (is_read_outside_[i] || readers.empty() || !roots_[readers[0]]) {
            return false;
        }
        const std::size_t root = *roots_[readers[0]];
        const auto fits = [&](std::size_t each) { return roots_[each] == root && varying_[each] == varying_[i]; };
        return std::ranges::all_of(readers, fits) && sizes_[root] < most_members &&
               operands_[root] + more_operands(i) <= most_formula_operands;
    }

    const Region& region_;
    std::vector<std::vector<std::size_t>> readers_;
    std::vector<bool> is_read_outside_;     // by instruction: whether it is stored
    std::vector<std::uint32_t> varying_;    // by instruction: dimensions
    FormulaRoots roots_;
    std::vector<std::size_t> sizes_;        // by root: of the formula
    std::vector<std::size_t> operands_;     // by root: how many the formula has at most
};

}  // namespace

bool is_repeated_in_rows(const Region& region, const Reference& reference) {
    if (!reference.load) {
        return region.instructions[index_of(reference)].narrow;
    }
    const Sizes& strides = region.loads[index_of(reference)].strides;
    return std::all_of(strides.begin() + std::max(region.kept, 0), strides.begin() + region.rank, [](std::int64_t each) { return each == 0; });
}

bool is_product(const Region& region, std::size_t instruction) {
    const double added = immediate_of(region, instruction, 1);
    return added == 0.0 && std::signbit(added);
}

std::vector<std::vector<std::size_t>> readers_of(const Region& region) {
    std::vector<std::vector<std::size_t>> result(region.instructions.size());
    for (std::size_t i = 0; i < result.size(); ++i) {
        for (int k = 0; k < region.instructions[i].operand_count; ++k) {
            if (const Reference& taken = operand_of(region, i, k); !taken.load) {
                result[index_of(taken)].push_back(i);
            }
        }
    }
    return result;
}

FormulaRoots choose_formulas(const Region& region) { return Members(region).choose(); }

}  // namespace dmlgraph::cpu
