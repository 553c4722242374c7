// What follows the products of a recurrent network's step: activations of the gates, and the next state, row by row.
//
// A row is a sequence of the batch. Its sums have a line for each gate.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/kernels/kernel.h"
#include "cpu/plan/plan.h"

namespace dmlgraph::cpu {

// The hidden units first, …, first + count − 1 of a row.
struct Units {
    std::int64_t first = 0;
    std::int64_t count = 0;
    bool all = true;  // of the row: then the lines of gates are one
};

// Where a row lies. Lines begin at hidden unit 0.
struct GateRow {
    float* sums = nullptr;          // of gate 0; overwritten
    std::int64_t line = 0;          // floats from gate to gate
    const float* hidden = nullptr;  // before the step
    const float* cell = nullptr;    // … of LSTM
    float* new_hidden = nullptr;
    float* new_cell = nullptr;
    const float* peephole = nullptr;  // of LSTM, if it has one: to input, output, forget, `line` floats apart
    float* other = nullptr;           // of GRU, see below; overwritten
    const float* other_bias = nullptr;  // … or null
};

class Gates {
public:
    // Activations f and, if the cell has them, g and h of a direction. Throws std::invalid_argument for instructions that do
    // not make a float32 of one.
    Gates(const InstructionSpec* activations, std::size_t count, std::optional<float> bound);

    void rnn(const GateRow& row, const Units& units) const;
    // Gates i, o, F and c.
    void lstm(const GateRow& row, const Units& units, bool couples_input_forget) const;
    // Gates z, r and h. First z and r are activated, and `other` becomes r ∘ H.
    void gru_reset(const GateRow& row, const Units& units) const;
    // … then the product with it is in the sums of h.
    void gru(const GateRow& row, const Units& units) const;
    // Both at once, where `other` is Rh · H: r is multiplied by it, and by its bias.
    void gru_reset_after(const GateRow& row, const Units& units) const;

private:
    void activate(std::size_t function, const GateRow& row, const Units& units, std::int64_t gate, std::int64_t gates) const;
    void activate(std::size_t function, float* x, std::int64_t count) const;
    void clip(float* x, std::int64_t count) const;
    void mix(const GateRow& row, const Units& units) const;

    std::vector<InstructionSpec> activations_;
    std::optional<float> bound_;
    float lower_ = 0;
    float upper_ = 0;
};

}  // namespace dmlgraph::cpu
