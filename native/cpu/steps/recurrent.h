// Recurrent networks of one layer, RNN, GRU and LSTM: a state for each sequence, carried from one time step to the
// next.
//
// T is the number of time steps, B of sequences, D of directions, I of inputs per step, and H of hidden units. The
// tensors, in the order of DirectML's structs, are float32 or float16 of any strides; dimensions before the last four
// have size 1. Everything is computed in float32.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/plan/plan.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// Inputs: X {T, B, I}, W {D, gates · H, I}, R {D, gates · H, H}, and, if present, biases {D, 2 · gates · H}, the hidden
// state before the first step {D, B, H}, for LSTM the cells before it {D, B, H}, lengths {B} in uint32, and for LSTM
// peepholes {D, 3 · H}. Outputs: the hidden states of all steps {T, D, B, H}, the last one {D, B, H}, and for LSTM the
// last cells {D, B, H}.
struct RecurrentParameters {
    std::int64_t gates;                  // 1: RNN, 3: GRU, 4: LSTM
    std::vector<std::int64_t> backward;  // of each direction, whether it goes from the last step to the first
    std::vector<float>
        bound;  // arguments of f and g are clipped to ± this; NaN becomes the lower bound; empty: they are not
    bool couples_input_forget;  // LSTM
    bool resets_after_product;  // GRU: linear_before_reset
    std::vector<InstructionSpec>
        activations;  // of each direction f, and, if the cell has them, g and h, of one float32
};

std::unique_ptr<Step> make_step(const StepTensors& tensors, const RecurrentParameters& parameters);

}  // namespace dmlgraph::cpu
