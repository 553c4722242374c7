// The gates of recurrent networks: activations of sums, and the next state. All of a step in one pass, in registers.
#pragma once

#include <cstdint>

#include "cpu/compiler.h"
#include "cpu/kernels/kernel.h"

namespace dmlgraph::cpu {

// Lines of some hidden units, `step` floats apart in every plane. Their `count` is whole vectors.
struct GateLines {
    float* sums = nullptr;          // of gate 0, then of the others
    std::int64_t plane = 0;         // floats from gate to gate
    const float* hidden = nullptr;  // before the step
    const float* cell = nullptr;    // … of LSTM
    float* new_hidden = nullptr;
    float* new_cell = nullptr;
    const float* peephole = nullptr;  // of LSTM, if it has one: to input, output, forget, a plane apart
    std::int64_t rows = 1;
    std::int64_t step = 0;
    std::int64_t count = 0;

    DMLGRAPH_INLINE float* gate(std::int64_t index) const { return sums + index * plane; }
};

// A function of one float32: a kernel and what it takes.
struct Activation {
    Kernel kernel;
    const Immediate* immediates;
};

// Arguments of f and g are clipped to lower … upper, NaN to lower, if it `clips`.
struct GateCall {
    const GateLines& lines;
    const Activation* activations;  // f and, if the cell has them, g and h
    bool clips;
    float lower;
    float upper;
    bool couples_input_forget;  // LSTM: the gate F is 1 − i
};

using GateKernel = void (*)(const GateCall& call) noexcept;

struct GateKernels {
    GateKernel rnn;
    GateKernel lstm;             // gates i, o, F and c
    GateKernel gru_reset;        // gates z, r and h: the plane behind them becomes r ∘ H, …
    GateKernel gru;              // … then the product with it is in the sums of h
    GateKernel gru_reset_after;  // both, where that plane is Rh · H with its bias, and r is multiplied by it
};

// With the usual activations, sigmoid for f and tanh for g, h and RNN's f; and with any. Results have the bits of the
// activations' kernels.
struct GateFamily {
    GateKernels usual;
    GateKernels any;
};

}  // namespace dmlgraph::cpu
