// Which instructions join to formulas.
#include <algorithm>
#include <cmath>

#include "cpu/region/formula_draft.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::size_t least_members = 2;
constexpr std::size_t most_members = 16;  // few enough for what is kept, and operations, nearly always

bool are_numbers(DataType type) { return type == DataType::float32 || type == DataType::float16; }

class Members {
public:
    explicit Members(const Region& region)
        : region_(region),
          readers_(readers_of(region)),
          is_read_outside_(readers_.size(), false),
          roots_(readers_.size()),
          sizes_(readers_.size(), 0),
          operands_(readers_.size(), 1) {
        for (const RegionStore& store : region.stores) {
            if (!store.source.load) {
                is_read_outside_[index_of(store.source)] = true;
            }
        }
        for (std::size_t i = 0; i < readers_.size(); ++i) {
            varying_.push_back(dimensions(i));
        }
    }

    // From the last instruction on: one belongs to the formula of those that take it, if they are of a single one; else
    // it begins its own, unless its result is a mask.
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

    std::uint32_t all_dimensions() const {
        std::uint32_t result = 0;
        for (int d = 0; d < region_.rank; ++d) {
            result |= region_.sizes[d] > 1 ? 1u << d : 0u;
        }
        return result;
    }

    std::uint32_t dimensions(std::size_t i) const {
        const RegionInstruction& each = region_.instructions[i];
        std::uint32_t result = each.counts ? all_dimensions() : 0u;
        for (int k = 0; k < each.operand_count; ++k) {
            result |= dimensions(operand_of(region_, i, k));
        }
        const std::uint32_t kept = (1u << std::max(region_.kept, 0)) - 1u;
        return each.reduction != nullptr ? result & kept : result;
    }

    // Whether a formula can compute it, and does so faster. What is narrow is a few elements at a time: much less than
    // a batch.
    bool is_cheap(std::size_t i) const {
        const RegionInstruction& each = region_.instructions[i];
        if (each.reduction != nullptr || each.narrow) {
            return false;
        }
        const FormulaMeaning* const meaning = find_meaning(each.opcode);
        return meaning != nullptr && has_types(each, meaning->types) && !takes_nan(i, *meaning) && is_as_exact(i);
    }

    static bool has_types(const RegionInstruction& each, FormulaMeaning::Types types) {
        switch (types) {
            case FormulaMeaning::numbers: return are_numbers(each.operand) && each.result == each.operand;
            case FormulaMeaning::comparisons: return are_numbers(each.operand);
            case FormulaMeaning::masks: return each.operand == DataType::uint8;
            default: return are_numbers(each.result) && (are_numbers(each.operand) || each.operand == DataType::uint8);
        }
    }

    // A bound that is NaN is ignored.
    bool takes_nan(std::size_t i, const FormulaMeaning& meaning) const {
        return std::ranges::any_of(meaning.operations, [&](const FormulaMeaning::Operation& each) {
            return each.immediate >= 0 && std::isnan(immediate_of(region_, i, each.immediate));
        });
    }

    // LINEAR is rounded once: it must be a sum or a product. A sequence of float16 is rounded at every step.
    bool is_as_exact(std::size_t i) const {
        const RegionInstruction& each = region_.instructions[i];
        if (each.opcode == Opcode::LINEAR) {
            const double added = immediate_of(region_, i, 1);
            return each.operand == DataType::float32 &&
                   (immediate_of(region_, i, 0) == 1.0 || (added == 0.0 && std::signbit(added)));
        }
        return each.opcode != Opcode::SEQUENCE || each.operand == DataType::float32;
    }

    std::size_t more_operands(std::size_t i) const {
        return static_cast<std::size_t>(region_.instructions[i].operand_count - 1);
    }

    // Whether it joins those that take it. What is the same in several rows is computed once for them, and so stays
    // outside.
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
    std::vector<bool> is_read_outside_;   // by instruction: whether it is stored
    std::vector<std::uint32_t> varying_;  // by instruction: dimensions
    FormulaRoots roots_;
    std::vector<std::size_t> sizes_;     // by root: of the formula
    std::vector<std::size_t> operands_;  // by root: how many the formula has at most
};

}  // namespace

bool is_repeated_in_rows(const Region& region, const Reference& reference) {
    if (!reference.load) {
        return region.instructions[index_of(reference)].narrow;
    }
    const Sizes& strides = region.loads[index_of(reference)].strides;
    return std::all_of(strides.begin() + std::max(region.kept, 0), strides.begin() + region.rank,
                       [](std::int64_t each) { return each == 0; });
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
