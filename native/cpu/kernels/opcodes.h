// The opcodes of element-wise kernels: X(name, operands, immediates).
//
// `find_kernel` says for which operand and result types an opcode has kernels. Operands have the operand type and the
// result has the result type, except where a line says otherwise. "As float32" includes float16, which is computed in
// float32 and rounded once. Immediates are `f` for floats and `i` or `u` for integers.
#pragma once

#include <cstddef>
#include <cstdint>

// clang-format off
#define DMLGRAPH_OPCODES(X) \
    /* moving and making values */ \
    X(IDENTITY, 1, 0)              /* bits are copied */ \
    X(CONVERT, 1, 0)               /* CAST: floats to integers truncate and saturate, 8-bit integers saturate */ \
    X(SEQUENCE, 0, 2)              /* u: bits of start, bits of delta; element i is start + (first + i) * delta */ \
    X(IF, 3, 0)                    /* the first operand is uint8: if not zero the second, else the third */ \
    X(SCALE_BIAS, 1, 2)            /* x * scale + bias, each rounded; integers give (u)int32, which saturate */ \
    /* arithmetic */ \
    X(ADD, 2, 0) X(SUBTRACT, 2, 0) X(MULTIPLY, 2, 0) \
    X(DIVIDE, 2, 0)                /* integers truncate; by zero as in docs/measured.md */ \
    X(MODULUS_TRUNCATE, 2, 0) X(MODULUS_FLOOR, 2, 0) \
    X(MAX, 2, 0) X(MIN, 2, 0)      /* of NaN and a number the number; of two equal numbers the second */ \
    X(MEAN, 2, 0) X(DIFFERENCE_SQUARE, 2, 0) \
    X(ABS, 1, 0) X(NEGATE, 1, 0)   /* -128 of int8 becomes 127 */ \
    X(SIGN, 1, 0) X(RECIP, 1, 0) X(SQRT, 1, 0) \
    X(CLIP, 1, 2)                  /* max(min, min(x, max)): NaN becomes max */ \
    X(THRESHOLD, 1, 1)             /* max(x, min): NaN becomes min */ \
    X(SUBTRACT_WIDE, 2, 0)         /* a float32 minus a float64: minus the nearest float32, then minus the rest of it, each rounded */ \
    /* rounding */ \
    X(FLOOR, 1, 0) X(CEIL, 1, 0) X(TRUNCATE, 1, 0) \
    X(ROUND_TO_EVEN, 1, 0) \
    X(ROUND_AWAY, 1, 0)            /* sign(x) * floor(|x| + 1/2) */ \
    /* functions */ \
    X(EXP, 1, 0) X(LOG, 1, 0) X(ERF, 1, 0) \
    X(EXP_BELOW, 2, 0)             /* e^(a - b) for a up to b */ \
    X(SIN, 1, 0) X(COS, 1, 0) X(TAN, 1, 0) X(ASIN, 1, 0) X(ACOS, 1, 0) X(ATAN, 1, 0) \
    X(SINH, 1, 0) X(COSH, 1, 0) X(TANH, 1, 0) X(ASINH, 1, 0) X(ACOSH, 1, 0) X(ATANH, 1, 0) \
    X(ATAN_YX, 2, 0) \
    X(POW, 2, 0)                   /* 2^(b * log2 |a|), as float32 or float64 */ \
    X(CONSTANT_POW, 1, 1)          /* POW by an immediate */ \
    X(INTEGER_POW, 2, 0)           /* modulo 2^32; the second operand is int64 */ \
    /* activations */ \
    X(RELU, 1, 0) \
    X(LINEAR, 1, 2)                /* alpha * x + beta, rounded once */ \
    X(LEAKY_RELU, 1, 1) X(PARAMETERIZED_RELU, 2, 0) \
    X(THRESHOLDED_RELU, 1, 1)      /* 0 where x <= alpha: NaN stays */ \
    X(ABOVE_OR_ZERO, 1, 1)         /* 0 where not x > alpha */ \
    X(ELU, 1, 1) X(CELU, 1, 1) X(SCALED_ELU, 1, 2) \
    X(SIGMOID, 1, 0) X(HARD_SIGMOID, 1, 2) \
    X(SCALED_TANH, 1, 2) \
    X(SOFTPLUS, 1, 1)              /* ln(1 + e^(steepness * x)) / steepness */ \
    X(PARAMETRIC_SOFTPLUS, 1, 2)   /* alpha * ln(1 + e^(beta * x)) */ \
    X(SOFTSIGN, 1, 0) \
    X(SHRINK, 1, 2)                /* bias, threshold */ \
    X(GELU, 1, 0) X(SWISH, 1, 1) X(HARD_SWISH, 1, 2) \
    /* gradients: the input, then its gradient */ \
    X(RELU_GRAD, 2, 0) \
    X(CLIP_GRAD, 2, 2)             /* low < x < high */ \
    /* bits; BIT_COUNT gives uint8 or uint32 */ \
    X(BIT_AND, 2, 0) X(BIT_OR, 2, 0) X(BIT_XOR, 2, 0) X(BIT_NOT, 1, 0) X(BIT_COUNT, 1, 0) \
    X(SHIFT_LEFT, 2, 0) X(SHIFT_RIGHT, 2, 0) \
    /* questions: uint8 or uint32, 1 or 0; comparisons uint8 */ \
    X(EQUAL, 2, 0) X(LESS, 2, 0) X(LESS_OR_EQUAL, 2, 0) \
    X(LOGICAL_AND, 2, 0) X(LOGICAL_OR, 2, 0) X(LOGICAL_XOR, 2, 0) X(LOGICAL_NOT, 1, 0) \
    X(IS_NAN, 1, 0) \
    X(IS_INFINITY, 1, 1)           /* i: 0 either sign, 1 or -1 this one */ \
    /* quantization */ \
    X(QUANTIZE, 2, 0)              /* x, scale */ \
    X(QUANTIZE_FROM, 3, 0)         /* x, scale, zero point, which has the result's type */ \
    X(DEQUANTIZE, 2, 0)            /* x, scale, which has the result's type */ \
    X(DEQUANTIZE_FROM, 3, 0)       /* x, scale, which has the result's type, zero point */ \
    X(REQUANTIZE, 3, 0)            /* float32 or int32 x, float32 factor, zero point, which has the result's type */ \
    X(ADD_TO_FLOAT, 2, 0)          /* the exact sum of two int32, rounded once to float32 */
// clang-format on

namespace dmlgraph::cpu {

enum class Opcode : std::uint8_t {
#define DMLGRAPH_OPCODE(name, operands, immediates) name,
    DMLGRAPH_OPCODES(DMLGRAPH_OPCODE)
#undef DMLGRAPH_OPCODE
};

#define DMLGRAPH_OPCODE(name, operands, immediates) +1
inline constexpr std::size_t opcode_count = DMLGRAPH_OPCODES(DMLGRAPH_OPCODE);
#undef DMLGRAPH_OPCODE

}  // namespace dmlgraph::cpu
