// The gates of recurrent networks.
#include "cpu/kernels/exponential.h"
#include "cpu/kernels/gates.h"
#include "cpu/kernels/level.h"
#include "cpu/kernels/segments.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace gates {
namespace {

struct Bounds {
    float lower, upper;
    DMLGRAPH_INLINE float clip(float x) const {
        const float above = x > lower ? x : lower;
        return above < upper ? above : upper;
    }
};

// (1 − z) ∘ h + z ∘ H
DMLGRAPH_INLINE float mixed(float z, float h, float state) { return (1.0f - z) * h + z * state; }

// Calls function(line, first) for each vector: compilers vectorise what it does.
template <class Function>
DMLGRAPH_INLINE void each_vector(const GateCall& call, const Function& function) {
    const std::int64_t rows = call.rows, step = call.step, count = call.count;
    for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t first = r * step; first < r * step + count; first += lanes) {
            function(first);
        }
    }
}

// A vector of numbers, between loops that compilers vectorise and tanh, which they do not.
struct Numbers {
    alignas(sizeof(Vector)) float of[lanes];
    DMLGRAPH_INLINE void become_tanh() { store(of, tanh(load(of))); }
};

void rnn(const GateCall& call) noexcept {
    const Bounds bounds{call.lower, call.upper};
    const float* const sums = call.in[0];
    float* const hidden = call.out[0];
    each_vector(call, [=](std::int64_t first) {
        Numbers numbers;
        DMLGRAPH_LOOP
        for (int i = 0; i < lanes; ++i) {
            numbers.of[i] = bounds.clip(sums[first + i]);
        }
        store(hidden + first, tanh(load(numbers.of)));
    });
}

void lstm(const GateCall& call) noexcept {
    const Bounds bounds{call.lower, call.upper};
    const float *const in = call.in[0], *const out = call.in[1], *const forget = call.in[2], *const other = call.in[3],
                *const cell = call.in[4];
    float *const new_cell = call.out[0], *const hidden = call.out[1];
    each_vector(call, [=](std::int64_t first) {
        Numbers numbers;
        DMLGRAPH_LOOP
        for (int i = 0; i < lanes; ++i) {
            numbers.of[i] = bounds.clip(other[first + i]);
        }
        numbers.become_tanh();
        DMLGRAPH_LOOP
        for (int i = 0; i < lanes; ++i) {
            const float kept = sigmoid(bounds.clip(forget[first + i])) * cell[first + i];
            numbers.of[i] = kept + sigmoid(bounds.clip(in[first + i])) * numbers.of[i];
            new_cell[first + i] = numbers.of[i];
        }
        numbers.become_tanh();
        DMLGRAPH_LOOP
        for (int i = 0; i < lanes; ++i) {
            hidden[first + i] = sigmoid(bounds.clip(out[first + i])) * numbers.of[i];
        }
    });
}

void gru_reset(const GateCall& call) noexcept {
    const float *const reset = call.in[0], *const state = call.in[1];
    float* const out = call.out[0];
    each_vector(call, [=](std::int64_t first) {
        DMLGRAPH_LOOP
        for (std::int64_t i = first; i < first + lanes; ++i) {
            out[i] = sigmoid(reset[i]) * state[i];
        }
    });
}

void gru(const GateCall& call) noexcept {
    const float *const update = call.in[0], *const other = call.in[1], *const state = call.in[2];
    float* const hidden = call.out[0];
    each_vector(call, [=](std::int64_t first) {
        Numbers numbers;
        store(numbers.of, tanh(load(other + first)));
        DMLGRAPH_LOOP
        for (int i = 0; i < lanes; ++i) {
            hidden[first + i] = mixed(sigmoid(update[first + i]), numbers.of[i], state[first + i]);
        }
    });
}

void gru_reset_after(const GateCall& call) noexcept {
    const float *const update = call.in[0], *const reset = call.in[1], *const other = call.in[2], *const state = call.in[3],
                *const product = call.in[4];
    float* const hidden = call.out[0];
    each_vector(call, [=](std::int64_t first) {
        Numbers numbers;
        DMLGRAPH_LOOP
        for (int i = 0; i < lanes; ++i) {
            numbers.of[i] = other[first + i] + product[first + i] * sigmoid(reset[first + i]);
        }
        numbers.become_tanh();
        DMLGRAPH_LOOP
        for (int i = 0; i < lanes; ++i) {
            hidden[first + i] = mixed(sigmoid(update[first + i]), numbers.of[i], state[first + i]);
        }
    });
}

}  // namespace
}  // namespace gates

constexpr GateKernels gates_kernels{gates::rnn, gates::lstm, gates::gru_reset, gates::gru, gates::gru_reset_after};

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
