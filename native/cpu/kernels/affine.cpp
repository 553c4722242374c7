// Several operators in one pass: (x + b) · m + a, and a lower bound or two bounds. Each result is rounded as in the separate operator.
#include "cpu/kernels/sequence.h"
#include "cpu/kernels/tables.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace affine {
namespace {

// A term is one number, an array, or an array with its signs changed. Every combination has its own loop.

struct Number {
    float value;
    float operator()(std::size_t) const { return value; }
};

struct Added {
    const float* data;
    float operator()(std::size_t i) const { return data[i]; }
};

struct Subtracted {
    const float* data;
    float operator()(std::size_t i) const { return -data[i]; }
};

struct Unbounded {
    explicit Unbounded(const Immediate*) {}
    float operator()(float x) const { return x; }
    static constexpr std::size_t immediates = 0;
};

struct Above {
    float low;
    explicit Above(const Immediate* given) : low(static_cast<float>(given[0].f)) {}
    float operator()(float x) const { return x > low ? x : low; }
    static constexpr std::size_t immediates = 1;
};

struct Between {
    float low, high;
    explicit Between(const Immediate* given) : low(static_cast<float>(given[0].f)), high(static_cast<float>(given[1].f)) {}
    float operator()(float x) const {
        const float below = x < high ? x : high;
        return below >= low ? below : low;
    }
    static constexpr std::size_t immediates = 2;
};

template <class Bounds, class B, class M, class A>
void loop(const float* x, B b, M m, A a, Bounds bounds, float* out, std::size_t count) {
    DMLGRAPH_LOOP
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = bounds((x[i] + b(i)) * m(i) + a(i));
    }
}

// Calls next with an operand that is a factor, or that is added or subtracted.
template <class Next>
void with_factor(const Operand& operand, const Next& next) {
    const auto* data = static_cast<const float*>(operand.data);
    operand.scalar ? next(Number{*data}) : next(Added{data});
}

template <class Next>
void with_term(const Operand& operand, bool subtracted, const Next& next) {
    const auto* data = static_cast<const float*>(operand.data);
    if (operand.scalar) {
        next(Number{subtracted ? -*data : *data});
    } else if (subtracted) {
        next(Subtracted{data});
    } else {
        next(Added{data});
    }
}

// A call whose x is one number, which is rare: it runs in chunks for which the number is repeated.
void spread_x(const Call& call, std::size_t operands, Kernel kernel) {
    constexpr std::size_t most = 4;
    const Chunks<float> x(call.in[0], call.count);
    for (std::size_t start = 0; start < call.count; start += chunk) {
        Operand in[most] = {{x.at(start), false}};
        for (std::size_t k = 1; k < operands; ++k) {
            const auto* data = static_cast<const float*>(call.in[k].data);
            in[k] = {call.in[k].scalar ? data : data + start, call.in[k].scalar};
        }
        const std::size_t count = call.count - start < chunk ? call.count - start : chunk;
        kernel({static_cast<float*>(call.out) + start, in, count, call.immediates, call.first + start});
    }
}

// The operands x, b, m, a; or x, b, a and the immediates of a sequence m.
template <class Bounds, bool has_sequence>
void affine(const Call& call) noexcept {
    constexpr std::size_t operands = has_sequence ? 3 : 4;
    if (call.in[0].scalar) {
        return spread_x(call, operands, affine<Bounds, has_sequence>);
    }
    const Immediate* const immediates = call.immediates;
    const Bounds bounds(immediates + 2);
    const auto* const x = static_cast<const float*>(call.in[0].data);
    auto* const out = static_cast<float*>(call.out);
    with_term(call.in[1], immediates[0].f < 0, [&](auto b) {
        with_term(call.in[operands - 1], immediates[1].f < 0, [&](auto a) {
            const auto run = [&](auto m) { loop(x, b, m, a, bounds, out, call.count); };
            if constexpr (has_sequence) {
                with_sequence(immediates + 2 + Bounds::immediates, call.first, call.count, run);
            } else {
                with_factor(call.in[2], run);
            }
        });
    });
}

constexpr DataType f32 = DataType::float32;

const Entry entries[] = {
    {Opcode::AFFINE, f32, f32, affine<Unbounded, false>},
    {Opcode::AFFINE_ABOVE, f32, f32, affine<Above, false>},
    {Opcode::AFFINE_BETWEEN, f32, f32, affine<Between, false>},
    {Opcode::AFFINE_SEQUENCE, f32, f32, affine<Unbounded, true>},
    {Opcode::AFFINE_SEQUENCE_ABOVE, f32, f32, affine<Above, true>},
    {Opcode::AFFINE_SEQUENCE_BETWEEN, f32, f32, affine<Between, true>},
};

}  // namespace
}  // namespace affine

constexpr Entries affine_kernels = affine::entries;

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
