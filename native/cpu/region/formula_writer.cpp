// The operations of a formula, in the order that keeps most of what they take in the processor's registers.
#include <algorithm>
#include <bit>

#include "cpu/region/formula_draft.h"

namespace dmlgraph::cpu {
namespace {

class Writer {
public:
    Writer(const Region& region, const FormulaRoots& roots, std::size_t root)
        : region_(region), roots_(roots), root_(root), kept_(root + 1), uses_(root + 1, 0) {
        const auto readers = readers_of(region);
        for (std::size_t i = 0; i < root; ++i) {
            uses_[i] = roots[i] == root ? readers[i].size() : 0;
        }
    }

    FormulaDraft write() {
        compute(root_);
        const bool is_half = region_.instructions[root_].result == DataType::float16;
        if (is_half && draft_.operations.back().code == FormulaCode::round) {
            draft_.operations.pop_back();
        }
        emit(is_half ? FormulaCode::finish_halves : FormulaCode::finish);
        draft_.kept = is_taken_.size();
        return std::move(draft_);
    }

private:
    bool is_inside(const Reference& reference) const { return !reference.load && roots_[index_of(reference)] == root_; }

    std::uint8_t operand_source(const Reference& reference) {
        const auto same = [&](const Reference& each) {
            return each.load == reference.load && each.index == reference.index;
        };
        const auto found = std::ranges::find_if(draft_.operands, same);
        const auto at = static_cast<std::size_t>(found - draft_.operands.begin());
        if (found == draft_.operands.end()) {
            draft_.operands.push_back(reference);
            draft_.types.push_back(region_.type(reference));
        }
        return formula_source(FormulaSource::operand, at);
    }

    std::uint8_t constant_source(double number) {
        draft_.constants.push_back(number);
        return formula_source(FormulaSource::constant, draft_.constants.size() - 1);
    }

    void emit(FormulaCode code, std::uint8_t first = 0, std::uint8_t second = 0) {
        const bool is_there = code == FormulaCode::load && !draft_.operations.empty() &&
                              draft_.operations.back().code == FormulaCode::keep &&
                              draft_.operations.back().first == first;
        if (!is_there) {
            draft_.operations.push_back({code, first, second});
        }
    }

    std::uint8_t keep() {
        const auto found = std::ranges::find(is_taken_, false);
        const auto at = static_cast<std::size_t>(found - is_taken_.begin());
        if (found == is_taken_.end()) {
            is_taken_.push_back(true);
        } else {
            *found = true;
        }
        emit(FormulaCode::keep, formula_source(FormulaSource::kept, at));
        return formula_source(FormulaSource::kept, at);
    }

    // An operand in memory as what an operation takes, once.
    struct Prepared {
        std::uint8_t source;
        std::optional<std::size_t> instruction;  // whose result it is
        bool is_own = false;                     // whether it was kept for this operation alone
    };

    bool is_ready(const Reference& reference) const {
        return is_inside(reference) ? kept_[index_of(reference)].has_value()
                                    : region_.type(reference) == DataType::float32;
    }

    Prepared prepare(const Reference& reference, bool as_mask) {
        if (!is_inside(reference)) {
            if (is_ready(reference)) {
                return {operand_source(reference), std::nullopt};
            }
            evaluate(reference, as_mask);
            return {keep(), std::nullopt, true};
        }
        const std::size_t i = index_of(reference);
        if (!kept_[i]) {
            compute(i);
            kept_[i] = keep() - static_cast<std::size_t>(FormulaSource::kept);
        }
        return {formula_source(FormulaSource::kept, *kept_[i]), i};
    }

    void release(const Prepared& used) {
        if (used.is_own) {
            is_taken_[used.source - static_cast<std::size_t>(FormulaSource::kept)] = false;
        } else if (used.instruction) {
            use(*used.instruction);
        }
    }

    void use(std::size_t instruction) {
        if (--uses_[instruction] == 0 && kept_[instruction]) {
            is_taken_[*kept_[instruction]] = false;
        }
    }

    // Brings a value into the registers.
    void evaluate(const Reference& reference, bool as_mask = false) {
        if (!is_inside(reference)) {
            const DataType type = region_.type(reference);
            const FormulaCode code = type == DataType::float32   ? FormulaCode::load
                                     : type == DataType::float16 ? FormulaCode::load_halves
                                     : as_mask                   ? FormulaCode::load_mask
                                                                 : FormulaCode::load_bytes;
            return emit(code, operand_source(reference));
        }
        const std::size_t i = index_of(reference);
        if (kept_[i]) {
            emit(FormulaCode::load, formula_source(FormulaSource::kept, *kept_[i]));
        } else {
            compute(i);
            if (uses_[i] > 1) {
                kept_[i] = keep() - static_cast<std::size_t>(FormulaSource::kept);
            }
        }
        use(i);
    }

    void pair(FormulaCode code, FormulaCode swapped, const Reference& a, const Reference& b, bool as_mask = false) {
        if (!is_ready(b) && is_ready(a)) {
            const Prepared left = prepare(a, as_mask);
            evaluate(b, as_mask);
            emit(swapped, left.source);
            return release(left);
        }
        const Prepared right = prepare(b, as_mask);
        evaluate(a, as_mask);
        emit(code, right.source);
        release(right);
    }

    // The result of an instruction of the formula, in the registers.
    void compute(std::size_t i) {
        const RegionInstruction& each = region_.instructions[i];
        bool rounds = each.result == DataType::float16;
        switch (each.opcode) {
            case Opcode::IF:
                select(i);
                rounds = false;
                break;
            case Opcode::SEQUENCE: count(i); break;
            case Opcode::CONVERT:
                convert(i);
                rounds = rounds && each.operand == DataType::float32;
                break;
            default: take_operands(i);
        }
        go_on(i);
        if (rounds) {
            emit(FormulaCode::round);
        }
    }

    void select(std::size_t i) {
        const Prepared a = prepare(operand(i, 1), false), b = prepare(operand(i, 2), false);
        evaluate(operand(i, 0), true);
        emit(FormulaCode::select, a.source, b.source);
        release(a);
        release(b);
    }

    void convert(std::size_t i) {
        evaluate(operand(i, 0));
        if (region_.instructions[i].operand == DataType::uint8 && is_inside(operand(i, 0))) {
            emit(FormulaCode::one);
        }
    }

    void count(std::size_t i) {
        const auto number = [&](std::size_t k) {
            const Immediate& bits =
                region_.immediates[static_cast<std::size_t>(region_.instructions[i].first_immediate) + k];
            return std::bit_cast<float>(static_cast<std::uint32_t>(bits.u));
        };
        const std::uint8_t start = constant_source(number(0)), delta = constant_source(number(1));
        emit(FormulaCode::count, start, delta);
    }

    void take_operands(std::size_t i) {
        const bool are_masks = region_.instructions[i].operand == DataType::uint8;
        const FormulaMeaning::Pair& codes = find_meaning(region_.instructions[i].opcode)->pair;
        const Reference& a = operand(i, 0);
        if (codes.takes_one()) {
            evaluate(a, are_masks);
        } else if (const Reference& b = operand(i, 1);
                   codes.code != FormulaCode::multiply || a.load != b.load || a.index != b.index) {
            pair(codes.code, codes.swapped, a, b, are_masks);
        } else {
            if (is_inside(a)) {
                use(index_of(a));
            }
            evaluate(a);
            emit(FormulaCode::square);
        }
    }

    // What an instruction does with its operand, or with the sum, product or difference of two.
    void go_on(std::size_t i) {
        for (const auto& [code, taken, number] : find_meaning(region_.instructions[i].opcode)->operations) {
            if (code != FormulaCode::load) {
                takes_pair(code)
                    ? emit(code, constant_source(taken < 0 ? number : static_cast<float>(immediate(i, taken))))
                    : emit(code);
            }
        }
    }

    const Reference& operand(std::size_t i, int k) const { return operand_of(region_, i, k); }
    double immediate(std::size_t i, int k) const { return immediate_of(region_, i, k); }

    const Region& region_;
    const FormulaRoots& roots_;
    std::size_t root_;
    FormulaDraft draft_;
    std::vector<bool> is_taken_;                    // by place of what is kept
    std::vector<std::optional<std::size_t>> kept_;  // by instruction
    std::vector<std::size_t> uses_;                 // by instruction: how often it is still taken
};

}  // namespace

FormulaDraft write_formula(const Region& region, const FormulaRoots& roots, std::size_t root) {
    return Writer(region, roots, root).write();
}

}  // namespace dmlgraph::cpu
