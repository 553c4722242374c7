// Predicates and comparisons, which give 1 or 0.
#include "cpu/kernels/tables.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace compare {
namespace {

struct Equal {
    template <class T>
    u8 operator()(T a, T b) const {
        return a == b;
    }
};

struct Less {
    template <class T>
    u8 operator()(T a, T b) const {
        return a < b;
    }
};

struct LessOrEqual {
    template <class T>
    u8 operator()(T a, T b) const {
        return a <= b;
    }
};

struct LogicalAnd {
    template <class T>
    T operator()(T a, T b) const {
        return (a != 0) & (b != 0);
    }
};

struct LogicalOr {
    template <class T>
    T operator()(T a, T b) const {
        return (a | b) != 0;
    }
};

struct LogicalXor {
    template <class T>
    T operator()(T a, T b) const {
        return (a != 0) != (b != 0);
    }
};

struct LogicalNot {
    template <class T>
    T operator()(T x) const {
        return x == 0;
    }
};

struct IsNan {
    u8 operator()(u32 x) const { return (x & 0x7fffffffu) > 0x7f800000u; }
    u8 operator()(u16 x) const { return (x & 0x7fffu) > 0x7c00u; }
};

struct IsInfinity {
    i64 mode;
    explicit IsInfinity(const Immediate* given) : mode(given[0].i) {}
    u8 operator()(u32 x) const {
        return (x & (mode == 0 ? 0x7fffffffu : ~0u)) == (mode < 0 ? 0xff800000u : 0x7f800000u);
    }
    u8 operator()(u16 x) const { return (x & (mode == 0 ? 0x7fffu : 0xffffu)) == (mode < 0 ? 0xfc00u : 0x7c00u); }
};

#define COMPARE(type, opcode, function) \
    {Opcode::opcode, data_type<type>, DataType::uint8, binary<function, u8, type>},
#define COMPARE_WORD(type, opcode, function) \
    {Opcode::opcode, data_type<type>, DataType::uint8, binary<function, u8, Word<type>>},
#define COMPARE_FLOATS(opcode, function)     \
    COMPARE(float, opcode, function)         \
    COMPARE(double, opcode, function)        \
    {Opcode::opcode, DataType::float16, DataType::uint8, in_half<binary<function, u8, float>, 2, u8>},
#define ASK(opcode, function)                                                                 \
    {Opcode::opcode, DataType::float32, DataType::uint8, unary<function, u8, u32>},           \
    {Opcode::opcode, DataType::float16, DataType::uint8, unary<function, u8, u16>},

const Entry entries[] = {
    COMPARE_FLOATS(EQUAL, Equal) DMLGRAPH_INTEGERS(COMPARE_WORD, EQUAL, Equal) COMPARE_FLOATS(LESS, Less)
        DMLGRAPH_INTEGERS(COMPARE, LESS, Less) COMPARE_FLOATS(LESS_OR_EQUAL, LessOrEqual) DMLGRAPH_INTEGERS(
            COMPARE, LESS_OR_EQUAL, LessOrEqual) DMLGRAPH_BINARY(u8, LOGICAL_AND, LogicalAnd)
            DMLGRAPH_BINARY(u32, LOGICAL_AND, LogicalAnd) DMLGRAPH_BINARY(u8, LOGICAL_OR, LogicalOr)
                DMLGRAPH_BINARY(u32, LOGICAL_OR, LogicalOr) DMLGRAPH_BINARY(u8, LOGICAL_XOR, LogicalXor)
                    DMLGRAPH_BINARY(u32, LOGICAL_XOR, LogicalXor) DMLGRAPH_UNARY(u8, LOGICAL_NOT, LogicalNot)
                        DMLGRAPH_UNARY(u32, LOGICAL_NOT, LogicalNot) ASK(IS_NAN, IsNan) ASK(IS_INFINITY, IsInfinity)};

}  // namespace
}  // namespace compare

constexpr Entries compare_kernels = compare::entries;

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
