// The gates of recurrent networks.
#include "cpu/kernels/gates.h"
#include "cpu/kernels/level.h"
#include "cpu/kernels/segments.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace gates {
namespace {

struct Usual {
    explicit Usual(const GateCall&) {}
    DMLGRAPH_INLINE Vector f(Vector x) const { return sigmoid(x); }
    DMLGRAPH_INLINE Vector g(Vector x) const { return tanh(x); }
    DMLGRAPH_INLINE Vector h(Vector x) const { return tanh(x); }
    DMLGRAPH_INLINE Vector of_rnn(Vector x) const { return tanh(x); }
};

class Any {
public:
    explicit Any(const GateCall& call) : activations_(call.activations) {}
    Vector f(Vector x) const { return apply(0, x); }
    Vector g(Vector x) const { return apply(1, x); }
    Vector h(Vector x) const { return apply(2, x); }
    Vector of_rnn(Vector x) const { return apply(0, x); }

private:
    Vector apply(int function, Vector x) const {
        float numbers[lanes];
        store(numbers, x);
        const Operand operand{numbers, false};
        activations_[function].kernel({numbers, &operand, lanes, activations_[function].immediates, 0});
        return load(numbers);
    }

    const Activation* activations_;
};

// Reads the lines of a call, a vector from a place on at a time.
struct Lines {
    const GateLines& given;

    DMLGRAPH_INLINE explicit Lines(const GateCall& call)
        : given(call.lines), clips_(call.clips), lower_(repeated(call.lower)), upper_(repeated(call.upper)) {}

    template <class Function>
    DMLGRAPH_INLINE void each_vector(const Function& function) const {
        const std::int64_t rows = given.rows, step = given.step, count = given.count;
        for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t at = r * step; at < r * step + count; at += lanes) {
                function(at);
            }
        }
    }
    DMLGRAPH_INLINE Vector sums_of(std::int64_t index, std::int64_t at) const { return load(given.gate(index) + at); }
    // … to which a peephole's weights times the cells are added.
    DMLGRAPH_INLINE Vector sums_of(std::int64_t index, std::int64_t at, std::int64_t weights, Vector cells) const {
        const Vector sums = sums_of(index, at);
        return given.peephole == nullptr ? sums
                                         : sum(sums, times(load(given.peephole + weights * given.plane + at), cells));
    }
    DMLGRAPH_INLINE Vector clipped(Vector x) const { return clips_ ? lesser(greater(x, lower_), upper_) : x; }

private:
    bool clips_;
    Vector lower_, upper_;
};

template <class Functions>
void rnn(const GateCall& call) noexcept {
    const Functions functions(call);
    const Lines lines(call);
    lines.each_vector([&](std::int64_t at) {
        store(lines.given.new_hidden + at, functions.of_rnn(lines.clipped(lines.sums_of(0, at))));
    });
}

template <class Functions>
void lstm(const GateCall& call) noexcept {
    const Functions functions(call);
    const Lines lines(call);
    const bool couples = call.couples_input_forget;
    lines.each_vector([&](std::int64_t at) {
        const Vector cell = load(lines.given.cell + at);
        const Vector in = functions.f(lines.clipped(lines.sums_of(0, at, 0, cell)));
        const Vector forget =
            couples ? difference(repeated(1.0f), in) : functions.f(lines.clipped(lines.sums_of(2, at, 2, cell)));
        const Vector other = functions.g(lines.clipped(lines.sums_of(3, at)));
        const Vector now = sum(times(forget, cell), times(in, other));
        store(lines.given.new_cell + at, now);
        const Vector out = functions.f(lines.clipped(lines.sums_of(1, at, 1, now)));
        store(lines.given.new_hidden + at, times(out, functions.h(now)));
    });
}

template <class Functions>
void gru_reset(const GateCall& call) noexcept {
    const Functions functions(call);
    const Lines lines(call);
    lines.each_vector([&](std::int64_t at) {
        store(lines.given.gate(3) + at,
              times(functions.f(lines.clipped(lines.sums_of(1, at))), load(lines.given.hidden + at)));
    });
}

// (1 − z) ∘ h + z ∘ H of the sums of z and those of h.
template <class Functions>
DMLGRAPH_INLINE void mix(const Functions& functions, const Lines& lines, std::int64_t at, Vector sums_of_h) {
    const Vector z = functions.f(lines.clipped(lines.sums_of(0, at))), h = functions.g(lines.clipped(sums_of_h));
    store(lines.given.new_hidden + at,
          sum(times(difference(repeated(1.0f), z), h), times(z, load(lines.given.hidden + at))));
}

template <class Functions>
void gru(const GateCall& call) noexcept {
    const Functions functions(call);
    const Lines lines(call);
    lines.each_vector([&](std::int64_t at) { mix(functions, lines, at, lines.sums_of(2, at)); });
}

template <class Functions>
void gru_reset_after(const GateCall& call) noexcept {
    const Functions functions(call);
    const Lines lines(call);
    lines.each_vector([&](std::int64_t at) {
        const Vector r = functions.f(lines.clipped(lines.sums_of(1, at)));
        mix(functions, lines, at, sum(lines.sums_of(2, at), times(lines.sums_of(3, at), r)));
    });
}

template <class Functions>
constexpr GateKernels kernels{rnn<Functions>, lstm<Functions>, gru_reset<Functions>, gru<Functions>,
                              gru_reset_after<Functions>};

}  // namespace
}  // namespace gates

constexpr GateFamily gates_kernels{gates::kernels<gates::Usual>, gates::kernels<gates::Any>};

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
