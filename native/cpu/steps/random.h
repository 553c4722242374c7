// Random bits by Philox 4x32-10, of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
#pragma once

#include <cstdint>
#include <memory>

#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// The input is the state: a counter of 128 bits, its lowest word first, and a key of 64. Each count gives four words.
struct RandomParameters {
    std::int64_t count;  // of words
    bool is_state;       // whether the output is the state behind them, not the words
};

std::unique_ptr<Step> make_step(const StepTensors& tensors, const RandomParameters& parameters);

}  // namespace dmlgraph::cpu
