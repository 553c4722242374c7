// What a formula takes several times stays in registers of the processor, if it has many.
#include <algorithm>
#include <functional>
#include <span>

#include "cpu/kernels/level.h"
#include "cpu/region/formula_draft.h"

namespace dmlgraph::cpu {
namespace {

// Operations begin … end − 1, in which a source is taken or kept, and how many accesses to memory it saves to have it
// in a register.
struct Stay {
    std::size_t begin, end;
    std::uint8_t source;
    int gain;
    int in = -1;  // the register

    bool meets(const Stay& other) const { return other.begin < end && begin < other.end; }
};

// Those of one source: what is kept begins anew each time. What SELECT takes is in memory.
void find_stays(std::span<const FormulaOperation> operations, std::uint8_t source, std::vector<Stay>& result) {
    std::optional<Stay> now;
    const auto end = [&] {
        if (now && now->gain > 0) {
            result.push_back(*now);
        }
        now.reset();
    };
    for (std::size_t i = 0; i < operations.size(); ++i) {
        const auto& [code, first, second] = operations[i];
        if (code == FormulaCode::keep && first == source) {
            end();
            now = Stay{i, i + 1, source, 2};
        } else if (takes_pair(code) && first == source) {
            now = now ? now : Stay{i, i, source, -1};
            now->end = i + 1;
            ++now->gain;
        } else if (now && source >= static_cast<std::uint8_t>(FormulaSource::kept) && code == FormulaCode::select &&
                   (first == source || second == source)) {
            now->gain = -static_cast<int>(most_formula_operations);
        }
    }
    end();
}

// The most useful ones first.
std::vector<Stay> find_stays(const FormulaDraft& draft, const std::vector<bool>& is_repeated) {
    std::vector<Stay> result;
    for (std::size_t k = 0; k < draft.operands.size(); ++k) {
        if (draft.types[k] == DataType::float32 && !is_repeated[k]) {
            find_stays(draft.operations, formula_source(FormulaSource::operand, k), result);
        }
    }
    for (std::size_t k = 0; k < draft.kept; ++k) {
        find_stays(draft.operations, formula_source(FormulaSource::kept, k), result);
    }
    std::ranges::stable_sort(result, std::greater{}, &Stay::gain);
    return result;
}

void assign(std::vector<Stay>& stays) {
    for (std::size_t s = 0; s < stays.size(); ++s) {
        const auto before = std::span(stays).first(s);
        for (int in = 0; in < chosen_level().formula.registers && stays[s].in < 0; ++in) {
            if (std::ranges::none_of(before,
                                     [&](const Stay& other) { return other.in == in && other.meets(stays[s]); })) {
                stays[s].in = in;
            }
        }
    }
}

// Adds an operation whose source stays in a register.
void add(std::vector<FormulaOperation>& operations, FormulaOperation operation, const Stay& stay, bool begins) {
    const FormulaOperation keep{stay.in == 0 ? FormulaCode::keep_near : FormulaCode::keep_next, 0, 0};
    if (operation.code == FormulaCode::keep) {
        operations.push_back(keep);
    } else if (begins && operation.code == FormulaCode::load) {
        operations.insert(operations.end(), {operation, keep});
    } else {
        if (begins) {
            operations.push_back(
                {stay.in == 0 ? FormulaCode::fetch_near : FormulaCode::fetch_next, operation.first, 0});
        }
        operation.first = formula_source(FormulaSource::near, static_cast<std::size_t>(stay.in));
        operations.push_back(operation);
    }
}

}  // namespace

void use_registers(FormulaDraft& draft, const std::vector<bool>& is_repeated) {
    std::vector<Stay> stays = find_stays(draft, is_repeated);
    assign(stays);
    std::vector<FormulaOperation> operations;
    for (std::size_t i = 0; i < draft.operations.size(); ++i) {
        const FormulaOperation& each = draft.operations[i];
        const auto stay = std::ranges::find_if(stays, [&](const Stay& one) {
            return one.in >= 0 && one.source == each.first && one.begin <= i && i < one.end &&
                   (each.code == FormulaCode::keep || takes_pair(each.code));
        });
        if (stay == stays.end()) {
            operations.push_back(each);
        } else {
            add(operations, each, *stay, i == stay->begin);
        }
    }
    draft.operations = std::move(operations);
}

}  // namespace dmlgraph::cpu
