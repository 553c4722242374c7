#include "cpu/steps/recurrent_gates.h"
#include "cpu/kernels/level.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace dmlgraph::cpu {
namespace {

constexpr float one = 1.0f;
constexpr std::int64_t most_of_line = 1024;  // numbers of a line that several operations meet: they stay in the first cache

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

// Calls function(lines) for short parts of lines.
template <class Function>
void each_part(const GateLines& lines, const Function& function) {
    for (std::int64_t r = 0; r < lines.rows; ++r) {
        for (std::int64_t first = 0; first < lines.count; first += most_of_line) {
            function(lines.part(r, first, std::min(most_of_line, lines.count - first)));
        }
    }
}

// Sigmoid for f, tanh for g and h.
bool are_usual(const std::vector<InstructionSpec>& activations) {
    for (std::size_t i = 0; i < activations.size(); ++i) {
        const Opcode opcode = i == 0 && activations.size() > 1 ? Opcode::SIGMOID : Opcode::TANH;
        if (activations[i].kernel != Arithmetic::kernel(opcode)) {
            return false;
        }
    }
    return true;
}

}  // namespace

GateLines GateLines::part(std::int64_t row, std::int64_t first, std::int64_t some) const {
    GateLines result = *this;
    const std::int64_t offset = row * step + first;
    result.sums += offset;
    result.hidden += offset;
    result.cell += cell == nullptr ? 0 : offset;
    result.new_hidden += offset;
    result.new_cell += new_cell == nullptr ? 0 : offset;
    result.peephole += peephole == nullptr ? 0 : offset;
    result.rows = 1;
    result.count = some;
    return result;
}

Gates::Gates(const InstructionSpec* activations, std::size_t count, std::optional<float> bound)
    : activations_(activations, activations + count), usual_(are_usual(activations_)), bound_(bound), lower_(-bound.value_or(0)),
      upper_(bound.value_or(0)) {
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

void Gates::rnn(const GateLines& lines) const {
    if (usual(true)) {
        GateCall fused = call(lines);
        fused.in[0] = lines.sums, fused.out[0] = lines.new_hidden;
        return chosen_level().gates.rnn(fused);
    }
    each_part(lines, [&](const GateLines& part) {
        std::copy_n(part.sums, part.count, part.new_hidden);
        clip(part.new_hidden, part.count);
        activate(0, part.new_hidden, part.count);
    });
}

void Gates::lstm(const GateLines& lines, bool couples_input_forget) const {
    if (usual(true) && lines.peephole == nullptr && !couples_input_forget) {
        GateCall fused = call(lines);
        for (std::int64_t g = 0; g < 4; ++g) {
            fused.in[g] = lines.gate(g);
        }
        fused.in[4] = lines.cell, fused.out[0] = lines.new_cell, fused.out[1] = lines.new_hidden;
        return chosen_level().gates.lstm(fused);
    }
    each_part(lines, [&](const GateLines& part) { any_lstm(part, couples_input_forget); });
}

void Gates::any_lstm(const GateLines& lines, bool couples_input_forget) const {
    const std::int64_t count = lines.count;
    float *const i = lines.gate(0), *const o = lines.gate(1), *const forget = lines.gate(2), *const c = lines.gate(3);
    float* const result = lines.new_hidden;  // free until the end
    const auto sigma = [&](std::size_t function, float* sums) {
        clip(sums, count);
        activate(function, sums, count);
    };
    const auto look = [&](std::int64_t peephole, const float* cells, float* sums) {
        if (lines.peephole != nullptr) {
            multiply(result, lines.peephole + peephole * lines.plane, cells, count);
            add(sums, sums, result, count);
        }
    };
    look(0, lines.cell, i);
    sigma(0, i);
    if (couples_input_forget) {
        complement(forget, i, count);
    } else {
        look(2, lines.cell, forget);
        sigma(0, forget);
    }
    sigma(1, c);
    multiply(lines.new_cell, forget, lines.cell, count);
    multiply(c, i, c, count);
    add(lines.new_cell, lines.new_cell, c, count);
    look(1, lines.new_cell, o);
    sigma(0, o);
    std::copy_n(lines.new_cell, count, result);
    activate(2, result, count);
    multiply(result, o, result, count);
}

void Gates::gru_reset(const GateLines& lines) const {
    if (usual(false)) {
        GateCall fused = call(lines);
        fused.in[0] = lines.gate(1), fused.in[1] = lines.hidden, fused.out[0] = lines.gate(3);
        return chosen_level().gates.gru_reset(fused);
    }
    each_part(lines, [&](const GateLines& part) {
        clip(part.gate(1), part.count);
        activate(0, part.gate(1), part.count);
        multiply(part.gate(3), part.gate(1), part.hidden, part.count);
    });
}

void Gates::gru(const GateLines& lines) const {
    if (usual(false)) {
        GateCall fused = call(lines);
        fused.in[0] = lines.gate(0), fused.in[1] = lines.gate(2), fused.in[2] = lines.hidden, fused.out[0] = lines.new_hidden;
        return chosen_level().gates.gru(fused);
    }
    each_part(lines, [&](const GateLines& part) { mix(part); });
}

void Gates::gru_reset_after(const GateLines& lines) const {
    if (usual(false)) {
        GateCall fused = call(lines);
        for (std::int64_t g = 0; g < 3; ++g) {
            fused.in[g] = lines.gate(g);
        }
        fused.in[3] = lines.hidden, fused.in[4] = lines.gate(3), fused.out[0] = lines.new_hidden;
        return chosen_level().gates.gru_reset_after(fused);
    }
    each_part(lines, [&](const GateLines& part) {
        clip(part.gate(1), part.count);
        activate(0, part.gate(1), part.count);
        multiply(part.gate(3), part.gate(3), part.gate(1), part.count);
        add(part.gate(2), part.gate(2), part.gate(3), part.count);
        mix(part);
    });
}

// (1 − z) ∘ h + z ∘ H of the sums of z and h.
void Gates::mix(const GateLines& lines) const {
    const std::int64_t count = lines.count;
    float *const z = lines.gate(0), *const h = lines.gate(2), *const result = lines.new_hidden;
    clip(z, count);
    activate(0, z, count);
    clip(h, count);
    activate(1, h, count);
    complement(result, z, count);
    multiply(result, result, h, count);
    multiply(z, z, lines.hidden, count);
    add(result, result, z, count);
}

}  // namespace dmlgraph::cpu
