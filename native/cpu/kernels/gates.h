// The gates of recurrent networks with the usual activations: sigmoid for f, tanh for g and h. All of a step in one pass, in
// registers.
#pragma once

#include <cstdint>

namespace dmlgraph::cpu {

// `rows` lines of `count` numbers, whole vectors; the lines of all arrays lie `step` floats apart. Results have the bits of
// the activations' kernels. RNN and LSTM clip the arguments of f and g to lower … upper, NaN to lower; GRU does not.
struct GateCall {
    const float* in[5];
    float* out[2];
    std::int64_t rows;
    std::int64_t step;
    std::int64_t count;
    float lower;
    float upper;
};

using GateKernel = void (*)(const GateCall& call) noexcept;

struct GateKernels {
    GateKernel rnn;              // the sum; gives the hidden state
    GateKernel lstm;             // the sums of i, o, F and c, and the cells; gives the cells and the hidden state
    GateKernel gru_reset;        // the sums of r, and the hidden state H; gives r ∘ H
    GateKernel gru;              // the sums of z and h, and H; gives the hidden state
    GateKernel gru_reset_after;  // the sums of z, r, and h without Rh · H; H; and Rh · H; gives the hidden state
};

}  // namespace dmlgraph::cpu
