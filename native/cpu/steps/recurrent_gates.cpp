#include "cpu/steps/recurrent_gates.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace dmlgraph::cpu {
namespace {

constexpr float one = 1.0f;

// Element-wise operations of lines; the result may be where an operand is. The kernels are found once.
struct Arithmetic {
    Kernel add = kernel(Opcode::ADD), subtract = kernel(Opcode::SUBTRACT), multiply = kernel(Opcode::MULTIPLY);
    Kernel greater = kernel(Opcode::MAX), lesser = kernel(Opcode::MIN);

    static Kernel kernel(Opcode opcode) { return find_kernel(opcode, DataType::float32, DataType::float32); }
};

const Arithmetic& arithmetic() {
    static const Arithmetic found;
    return found;
}

void apply(Kernel kernel, float* out, const Operand& a, const Operand& b, std::int64_t count) {
    const std::array<Operand, 2> operands{a, b};
    kernel({out, operands.data(), static_cast<std::size_t>(count), nullptr, 0});
}

Operand line(const float* x) { return {x, false}; }
Operand number(const float& x) { return {&x, true}; }

void add(float* out, const float* a, const float* b, std::int64_t count) {
    apply(arithmetic().add, out, line(a), line(b), count);
}
void multiply(float* out, const float* a, const float* b, std::int64_t count) {
    apply(arithmetic().multiply, out, line(a), line(b), count);
}
// 1 − x
void complement(float* out, const float* x, std::int64_t count) {
    apply(arithmetic().subtract, out, number(one), line(x), count);
}

}  // namespace

Gates::Gates(const InstructionSpec* activations, std::size_t count, std::optional<float> bound)
    : activations_(activations, activations + count), bound_(bound), lower_(-bound.value_or(0)), upper_(bound.value_or(0)) {
    for (const InstructionSpec& each : activations_) {
        if (each.kernel == nullptr || each.operands != std::vector<std::int16_t>{0} || each.operand != DataType::float32 ||
            each.result != DataType::float32) {
            throw std::invalid_argument("the activations of a recurrent network are not functions of one float32");
        }
    }
}

void Gates::activate(std::size_t function, float* x, std::int64_t count) const {
    const InstructionSpec& instruction = activations_[function];
    const Operand operand = line(x);
    instruction.kernel({x, &operand, static_cast<std::size_t>(count), instruction.immediates.data(), 0});
}

void Gates::clip(float* x, std::int64_t count) const {
    if (bound_) {
        apply(arithmetic().greater, x, line(x), number(lower_), count);  // of NaN and a number the number
        apply(arithmetic().lesser, x, line(x), number(upper_), count);
    }
}

// Some neighbouring gates.
void Gates::activate(std::size_t function, const GateRow& row, const Units& units, std::int64_t gate, std::int64_t gates) const {
    const auto at_once = [&](float* x, std::int64_t count) {
        clip(x, count);
        activate(function, x, count);
    };
    float* const first = row.sums + gate * row.line + units.first;
    if (units.all) {
        return at_once(first, (gates - 1) * row.line + units.count);
    }
    for (std::int64_t g = 0; g < gates; ++g) {
        at_once(first + g * row.line, units.count);
    }
}

void Gates::rnn(const GateRow& row, const Units& units) const {
    activate(0, row, units, 0, 1);
    std::copy_n(row.sums + units.first, units.count, row.new_hidden + units.first);
}

void Gates::lstm(const GateRow& row, const Units& units, bool couples_input_forget) const {
    const std::int64_t count = units.count;
    const auto gate = [&](std::int64_t g) { return row.sums + g * row.line + units.first; };
    float *const i = gate(0), *const o = gate(1), *const forget = gate(2), *const c = gate(3);
    const float* const cell = row.cell + units.first;
    float *const new_cell = row.new_cell + units.first, *const result = row.new_hidden + units.first;
    const auto look = [&](std::int64_t peephole, const float* cells, float* sums) {  // `result` is free until the end
        multiply(result, row.peephole + peephole * row.line + units.first, cells, count);
        add(sums, sums, result, count);
    };
    if (row.peephole == nullptr) {
        activate(0, row, units, 0, couples_input_forget ? 2 : 3);
    } else {
        look(0, cell, i);
        activate(0, row, units, 0, 1);
        if (!couples_input_forget) {
            look(2, cell, forget);
            activate(0, row, units, 2, 1);
        }
    }
    if (couples_input_forget) {
        complement(forget, i, count);
    }
    activate(1, row, units, 3, 1);
    multiply(new_cell, forget, cell, count);
    multiply(c, i, c, count);
    add(new_cell, new_cell, c, count);
    if (row.peephole != nullptr) {
        look(1, new_cell, o);
        activate(0, row, units, 1, 1);
    }
    std::copy_n(new_cell, count, result);
    activate(2, result, count);
    multiply(result, o, result, count);
}

void Gates::gru_reset(const GateRow& row, const Units& units) const {
    activate(0, row, units, 0, 2);
    multiply(row.other + units.first, row.sums + row.line + units.first, row.hidden + units.first, units.count);
}

void Gates::gru(const GateRow& row, const Units& units) const {
    activate(1, row, units, 2, 1);
    mix(row, units);
}

void Gates::gru_reset_after(const GateRow& row, const Units& units) const {
    activate(0, row, units, 0, 2);
    float *const other = row.other + units.first, *const sums = row.sums + 2 * row.line + units.first;
    if (row.other_bias != nullptr) {
        add(other, other, row.other_bias + units.first, units.count);
    }
    multiply(other, other, row.sums + row.line + units.first, units.count);
    add(sums, sums, other, units.count);
    gru(row, units);
}

// (1 − z) ∘ h + z ∘ H
void Gates::mix(const GateRow& row, const Units& units) const {
    float *const z = row.sums + units.first, *const h = z + 2 * row.line, *const result = row.new_hidden + units.first;
    complement(result, z, units.count);
    multiply(result, result, h, units.count);
    multiply(z, z, row.hidden + units.first, units.count);
    add(result, result, z, units.count);
}

}  // namespace dmlgraph::cpu
