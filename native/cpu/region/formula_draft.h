// How instructions become formulas: which ones join, what their operations are, and what stays in the processor's
// registers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/kernels/formula.h"
#include "cpu/region/region.h"

namespace dmlgraph::cpu {

// A formula while it is written.
struct FormulaDraft {
    std::vector<Reference> operands;
    std::vector<DataType> types;  // of the operands
    std::vector<FormulaOperation> operations;
    std::vector<double> constants;
    std::size_t kept = 0;  // how many values are in memory at most

    bool fits() const {
        return operands.size() <= most_formula_operands && operations.size() <= most_formula_operations &&
               kept <= most_formula_kept;
    }
};

// What an instruction does: an operation on two operands, or none on one; then others on the result.
struct FormulaMeaning {
    enum Types { numbers, comparisons, masks, conversions };
    struct Pair {
        FormulaCode code;
        FormulaCode swapped;  // with the operands the other way round
        bool takes_one() const { return code == FormulaCode::load; }
    };
    struct Operation {
        FormulaCode code = FormulaCode::load;  // that: there is none
        int immediate = -1;                    // that it takes; -1: the number, if any
        float number = 0;
    };
    Opcode opcode;
    Types types;
    Pair pair;
    std::array<Operation, 2> operations{};
};

// Null if no formula computes the opcode.
const FormulaMeaning* find_meaning(Opcode opcode);

// By instruction: the last one of its formula, whose result is the formula's.
using FormulaRoots = std::vector<std::optional<std::size_t>>;

constexpr std::uint8_t formula_source(FormulaSource from, std::size_t index) {
    return static_cast<std::uint8_t>(static_cast<std::size_t>(from) + index);
}

inline const Reference& operand_of(const Region& region, std::size_t instruction, int k) {
    return region.operand(region.instructions[instruction], k);
}

inline double immediate_of(const Region& region, std::size_t instruction, int k) {
    return region.immediate(region.instructions[instruction], k);
}

// Whether an element is the same along a row, of regions without rows everywhere.
bool is_repeated_in_rows(const Region& region, const Reference& reference);

// By instruction: the instructions that take it, one for each time.
std::vector<std::vector<std::size_t>> readers_of(const Region& region);

FormulaRoots choose_formulas(const Region& region);

// The formula of the instructions that have this root.
FormulaDraft write_formula(const Region& region, const FormulaRoots& roots, std::size_t root);

// Has what is taken most often in the registers that the kernel has besides.
void use_registers(FormulaDraft& draft, const std::vector<bool>& is_repeated);

}  // namespace dmlgraph::cpu
