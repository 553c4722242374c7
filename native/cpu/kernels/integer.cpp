// Integer division, moduli, powers, shifts and bits.
#include "cpu/kernels/math.h"
#include "cpu/kernels/tables.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace integer {
namespace {

// Processors have no vector division of integers. A float quotient is exact after truncation: if a / b is not a whole
// number, its relative distance from the next one is greater than 1 / |a|, and the float has more bits than that.
DMLGRAPH_INLINE i32 cut_quotient(i16 a, i16 b) {
    return static_cast<i32>(static_cast<float>(a) / static_cast<float>(b));
}
DMLGRAPH_INLINE i32 cut_quotient(u16 a, u16 b) {
    return static_cast<i32>(static_cast<float>(a) / static_cast<float>(b));
}
DMLGRAPH_INLINE i32 cut_quotient(i32 a, i32 b) {
    return static_cast<i32>(static_cast<double>(a) / static_cast<double>(b));
}
DMLGRAPH_INLINE u32 cut_quotient(u32 a, u32 b) { return cut_inside<u32>(exact_double(a) / exact_double(b)); }
DMLGRAPH_INLINE i64 cut_quotient(i64 a, i64 b) { return a / b; }
DMLGRAPH_INLINE u64 cut_quotient(u64 a, u64 b) { return a / b; }
DMLGRAPH_INLINE i32 cut_quotient(i8 a, i8 b) { return cut_quotient(i16{a}, i16{b}); }
DMLGRAPH_INLINE i32 cut_quotient(u8 a, u8 b) { return cut_quotient(u16{a}, u16{b}); }

// a / b, truncated, for b other than 0; the least number divided by -1 is itself.
template <class T>
DMLGRAPH_INLINE T whole_quotient(T a, T b) {
    if constexpr (is_signed_integer<T>) {
        const bool opposite = b == -1;
        const T divisor = opposite ? T{1} : b;
        const T negated = static_cast<T>(Word<T>{0} - static_cast<Word<T>>(a));
        const T quotient = static_cast<T>(cut_quotient(a, divisor));
        return opposite ? negated : quotient;
    } else {
        return static_cast<T>(cut_quotient(a, b));
    }
}

template <class T>
DMLGRAPH_INLINE T product(T a, T b) {
    using Wide = Word<decltype(u32{} + Word<T>{})>;
    return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
}

// DirectML divides the magnitudes of these, and gives the result its sign afterwards.
template <class T>
inline constexpr bool divided_by_magnitude = is_same<T, i8> || is_same<T, i32>;

// The result of division by zero: all bits set.
template <class T>
DMLGRAPH_INLINE T without_quotient(T a) {
    return divided_by_magnitude<T> && a < T{0} ? T{1} : static_cast<T>(~Word<T>{0});
}

struct DivideWhole {
    template <class T>
    T operator()(T a, T b) const {
        const T quotient = whole_quotient(a, b == T{0} ? T{1} : b);
        return b == T{0} ? without_quotient(a) : quotient;
    }
};

struct ModulusTruncate {
    template <class T>
    T operator()(T a, T b) const {
        const T divisor = b == T{0} ? T{1} : b;
        const T left = static_cast<T>(a - product(whole_quotient(a, divisor), divisor));
        return b == T{0} ? (divided_by_magnitude<T> ? a : without_quotient(a)) : left;
    }
};

struct ModulusFloor {
    template <class T>
    T operator()(T a, T b) const {
        const T divisor = b == T{0} ? T{1} : b;
        const T left = static_cast<T>(a - product(whole_quotient(a, divisor), divisor));
        const bool other_side = left != T{0} && (left < T{0}) != (divisor < T{0});
        const T floored = static_cast<T>(left + (other_side ? divisor : T{0}));
        return b == T{0} ? without_quotient(a) : floored;
    }
};

// By squaring, modulo 2^32. With negative exponents the result is truncated: 0 for all bases except 0, 1 and -1.
struct IntegerPow {
    template <class T>
    T operator()(T base, i64 exponent) const {
        u32 square = static_cast<u32>(base);
        u32 power = 1;
        for (u64 left = exponent < 0 ? 0 : static_cast<u64>(exponent); left != 0; left >>= 1) {
            power *= left & 1 ? square : 1u;
            square *= square;
        }
        const u32 inverse = base == T{0}                                         ? static_cast<u32>(greatest<T>)
                            : base == T{1}                                       ? 1u
                            : is_signed_integer<T> && base == static_cast<T>(-1) ? (exponent & 1 ? ~0u : 1u)
                                                                                 : 0u;
        return stored<T>(exponent < 0 ? inverse : power);
    }

private:
    // 8-bit results saturate, 16-bit results keep the low bits.
    template <class T>
    static T stored(u32 result) {
        if constexpr (is_signed_integer<T>) {
            return cast<T>(static_cast<i32>(result));
        } else {
            return cast<T>(result);
        }
    }
};

struct BitAnd {
    template <class T>
    T operator()(T a, T b) const {
        return static_cast<T>(a & b);
    }
};

struct BitOr {
    template <class T>
    T operator()(T a, T b) const {
        return static_cast<T>(a | b);
    }
};

struct BitXor {
    template <class T>
    T operator()(T a, T b) const {
        return static_cast<T>(a ^ b);
    }
};

struct BitNot {
    template <class T>
    T operator()(T x) const {
        return static_cast<T>(~x);
    }
};

struct BitCount {
    template <class T>
    u8 operator()(T x) const {
        constexpr T all = static_cast<T>(~T{0});
        [[maybe_unused]] constexpr T pairs = all / 3, fours = all / 15 * 3, bytes = all / 17, ones = all / 255;
        const T twos = static_cast<T>(x - (x >> 1 & pairs));
        const T sums = static_cast<T>((twos & fours) + (twos >> 2 & fours));
        const T counts = static_cast<T>((sums + (sums >> 4)) & bytes);
        if constexpr (sizeof(T) == 1) {
            return counts;
        } else {
            return static_cast<u8>(product(counts, ones) >> (sizeof(T) * 8 - 8));
        }
    }
};

// Shaders shift words of 32 bits and mask the count by that; 64 bits are shifted as two words.
DMLGRAPH_INLINE u64 shift_count(u64 count) {
    const u64 low = count & 0xffffffffu;
    return low < 32 ? low : 32 + low % 32;
}

struct ShiftLeft {
    template <class T>
    T operator()(T a, T b) const {
        return static_cast<T>(u32{a} << (b & 31));
    }
    u64 operator()(u64 a, u64 b) const { return a << shift_count(b); }
};

struct ShiftRight {
    template <class T>
    T operator()(T a, T b) const {
        return static_cast<T>(u32{a} >> (b & 31));
    }
    u64 operator()(u64 a, u64 b) const { return a >> shift_count(b); }
};

#define POW(type) {Opcode::INTEGER_POW, data_type<type>, data_type<type>, slow_binary<IntegerPow, type, type, i64>},
#define BITS(type, ...)                                                                                        \
    DMLGRAPH_BINARY_WORD(type, BIT_AND, BitAnd)                                                                \
    DMLGRAPH_BINARY_WORD(type, BIT_OR, BitOr)                                                                  \
    DMLGRAPH_BINARY_WORD(type, BIT_XOR, BitXor)                                                                \
    DMLGRAPH_UNARY_WORD(type, BIT_NOT, BitNot)                                                                 \
    {Opcode::BIT_COUNT, data_type<type>, DataType::uint8, unary<BitCount, u8, Word<type>>},

const Entry entries[] = {DMLGRAPH_INTEGERS(DMLGRAPH_SLOW_BINARY, DIVIDE, DivideWhole)
                             DMLGRAPH_INTEGERS(DMLGRAPH_SLOW_BINARY, MODULUS_TRUNCATE, ModulusTruncate)
                                 DMLGRAPH_INTEGERS(DMLGRAPH_SLOW_BINARY, MODULUS_FLOOR, ModulusFloor) POW(i8) POW(i16)
                                     POW(i32) POW(u8) POW(u16) POW(u32) DMLGRAPH_INTEGERS(BITS, ) BITS(Half) BITS(float)
                                         BITS(double) DMLGRAPH_UNSIGNED(DMLGRAPH_SLOW_BINARY, SHIFT_LEFT, ShiftLeft)
                                             DMLGRAPH_UNSIGNED(DMLGRAPH_SLOW_BINARY, SHIFT_RIGHT, ShiftRight)};

}  // namespace
}  // namespace integer

constexpr Entries integer_kernels = integer::entries;

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
