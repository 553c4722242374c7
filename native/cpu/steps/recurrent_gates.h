// What follows the products of a recurrent network's step: activations of the gates, and the next state.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/kernels/gates.h"
#include "cpu/kernels/kernel.h"
#include "cpu/plan/plan.h"

namespace dmlgraph::cpu {

// Lines of some hidden units, `step` floats apart in every plane. Their `count` is whole vectors.
struct GateLines {
    float* sums = nullptr;  // of gate 0, then of the others; overwritten
    std::int64_t plane = 0;  // floats from gate to gate
    const float* hidden = nullptr;  // before the step
    const float* cell = nullptr;    // … of LSTM
    float* new_hidden = nullptr;
    float* new_cell = nullptr;
    const float* peephole = nullptr;  // of LSTM, if it has one: to input, output, forget, a plane apart
    std::int64_t rows = 1;
    std::int64_t step = 0;
    std::int64_t count = 0;

    float* gate(std::int64_t index) const { return sums + index * plane; }
    // `some` numbers of a row, from `first` on.
    GateLines part(std::int64_t row, std::int64_t first, std::int64_t some) const;
};

class Gates {
public:
    // Activations f and, if the cell has them, g and h of a direction. Throws std::invalid_argument for instructions that do
    // not make a float32 of one.
    Gates(const InstructionSpec* activations, std::size_t count, std::optional<float> bound);

    void rnn(const GateLines& lines) const;
    // Gates i, o, F and c.
    void lstm(const GateLines& lines, bool couples_input_forget) const;
    // Gates z, r and h. First the plane behind them becomes r ∘ H.
    void gru_reset(const GateLines& lines) const;
    // … then the product with it is in the sums of h.
    void gru(const GateLines& lines) const;
    // Both at once, where the plane behind the gates is Rh · H with its bias, and r is multiplied by it.
    void gru_reset_after(const GateLines& lines) const;

private:
    bool usual(bool clips) const { return usual_ && bound_.has_value() == clips; }
    GateCall call(const GateLines& lines) const { return {{}, {}, lines.rows, lines.step, lines.count, lower_, upper_}; }
    void activate(std::size_t function, float* x, std::int64_t count) const;
    void clip(float* x, std::int64_t count) const;
    void any_lstm(const GateLines& lines, bool couples_input_forget) const;
    void mix(const GateLines& lines) const;

    std::vector<InstructionSpec> activations_;
    bool usual_;  // whether kernels know them
    std::optional<float> bound_;
    float lower_ = 0;
    float upper_ = 0;
};

}  // namespace dmlgraph::cpu
