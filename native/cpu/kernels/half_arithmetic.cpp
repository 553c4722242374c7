// Float16 on processors that compute with it. A sum, product, quotient or root of such numbers has the same bits as in
// float32 that is rounded again: float32 has more than twice their bits, and two.
#include "cpu/kernels/level.h"
#include "cpu/kernels/types.h"
#include "cpu/kernels/vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace half_arithmetic {
namespace {

using Halves = float16x8_t;
constexpr std::size_t width = sizeof(Halves) / sizeof(u16);

DMLGRAPH_INLINE Halves load(const u16* from) { return vreinterpretq_f16_u16(vld1q_u16(from)); }
DMLGRAPH_INLINE void store(u16* to, Halves x) { vst1q_u16(to, vreinterpretq_u16_f16(x)); }
DMLGRAPH_INLINE Halves either(uint16x8_t mask, Halves a, Halves b) { return vbslq_f16(mask, a, b); }
DMLGRAPH_INLINE uint16x8_t is_nan(Halves x) { return vmvnq_u16(vceqq_f16(x, x)); }

struct Add {
    DMLGRAPH_INLINE Halves operator()(Halves a, Halves b) const { return vaddq_f16(a, b); }
};
struct Subtract {
    DMLGRAPH_INLINE Halves operator()(Halves a, Halves b) const { return vsubq_f16(a, b); }
};
struct Multiply {
    DMLGRAPH_INLINE Halves operator()(Halves a, Halves b) const { return vmulq_f16(a, b); }
};
struct Divide {
    DMLGRAPH_INLINE Halves operator()(Halves a, Halves b) const { return vdivq_f16(a, b); }
};
struct Max {
    DMLGRAPH_INLINE Halves operator()(Halves a, Halves b) const {
        return either(vorrq_u16(vcgtq_f16(a, b), is_nan(b)), a, b);
    }
};
struct Min {
    DMLGRAPH_INLINE Halves operator()(Halves a, Halves b) const {
        return either(vorrq_u16(vcltq_f16(a, b), is_nan(b)), a, b);
    }
};
struct Sqrt {
    DMLGRAPH_INLINE Halves operator()(Halves x, Halves) const { return vsqrtq_f16(x); }
};
struct Recip {
    DMLGRAPH_INLINE Halves operator()(Halves x, Halves) const {
        return vdivq_f16(vreinterpretq_f16_u16(vdupq_n_u16(0x3c00)), x);  // 1 / x
    }
};
struct Relu {
    DMLGRAPH_INLINE Halves operator()(Halves x, Halves) const {
        return vreinterpretq_f16_u16(vandq_u16(vcgtzq_f16(x), vreinterpretq_u16_f16(x)));
    }
};

// The elements of an operand from one on.
class Elements {
public:
    DMLGRAPH_INLINE explicit Elements(const Operand& operand)
        : data_(static_cast<const u16*>(operand.data)), scalar_(operand.scalar) {
        if (scalar_) {
            repeated_ = vreinterpretq_f16_u16(vdupq_n_u16(*data_));
        }
    }
    DMLGRAPH_INLINE Halves at(std::size_t index) const { return scalar_ ? repeated_ : load(data_ + index); }
    DMLGRAPH_INLINE Halves at(std::size_t index, std::size_t count) const {
        u16 some[width] = {};
        for (std::size_t i = 0; i < count && !scalar_; ++i) {
            some[i] = data_[index + i];
        }
        return scalar_ ? repeated_ : load(some);
    }

private:
    const u16* data_;
    bool scalar_;
    Halves repeated_{};
};

// Of one operand, which then is both, or of two.
template <class Function, int operands>
void kernel(const Call& call) noexcept {
    const Function function;
    const Elements a(call.in[0]), b(call.in[operands - 1]);
    auto* const out = static_cast<u16*>(call.out);
    const std::size_t count = call.count;
    std::size_t i = 0;
    for (; i + width <= count; i += width) {
        store(out + i, function(a.at(i), b.at(i)));
    }
    if (i < count) {
        u16 rest[width];
        store(rest, function(a.at(i, count - i), b.at(i, count - i)));
        for (std::size_t k = 0; i + k < count; ++k) {
            out[i + k] = rest[k];
        }
    }
}

constexpr Entry entry(Opcode opcode, Kernel kernel) { return {opcode, DataType::float16, DataType::float16, kernel}; }

constexpr Entry entries[] = {entry(Opcode::ADD, kernel<Add, 2>),           entry(Opcode::SUBTRACT, kernel<Subtract, 2>),
                             entry(Opcode::MULTIPLY, kernel<Multiply, 2>), entry(Opcode::DIVIDE, kernel<Divide, 2>),
                             entry(Opcode::MAX, kernel<Max, 2>),           entry(Opcode::MIN, kernel<Min, 2>),
                             entry(Opcode::SQRT, kernel<Sqrt, 1>),         entry(Opcode::RECIP, kernel<Recip, 1>),
                             entry(Opcode::RELU, kernel<Relu, 1>)};

}  // namespace
}  // namespace half_arithmetic

extern const Entries half_arithmetic_kernels;
constexpr Entries half_arithmetic_kernels = half_arithmetic::entries;

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
