// Element types in C++, and their bits.
#pragma once

#include <cstdint>

#include "cpu/kernels/level.h"
#include "cpu/kernels/loops.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

// A float16 as in memory.
struct Half {
    u16 bits;
};

template <class A, class B>
inline constexpr bool is_same = false;
template <class A>
inline constexpr bool is_same<A, A> = true;

template <class T>
inline constexpr bool is_float = is_same<T, float> || is_same<T, double>;

template <class T>
inline constexpr bool is_signed_integer = !is_float<T> && static_cast<T>(-1) < static_cast<T>(0);

template <class T>
struct Traits;

#define DMLGRAPH_TYPE(type, data_type, word)                 \
    template <>                                              \
    struct Traits<type> {                                    \
        static constexpr DataType value = DataType::data_type; \
        using Word = word;                                   \
    };
DMLGRAPH_TYPE(float, float32, u32)
DMLGRAPH_TYPE(double, float64, u64)
DMLGRAPH_TYPE(Half, float16, u16)
DMLGRAPH_TYPE(i8, int8, u8)
DMLGRAPH_TYPE(i16, int16, u16)
DMLGRAPH_TYPE(i32, int32, u32)
DMLGRAPH_TYPE(i64, int64, u64)
DMLGRAPH_TYPE(u8, uint8, u8)
DMLGRAPH_TYPE(u16, uint16, u16)
DMLGRAPH_TYPE(u32, uint32, u32)
DMLGRAPH_TYPE(u64, uint64, u64)
#undef DMLGRAPH_TYPE

// The data type of a C++ type, and the unsigned integer of its width.
template <class T>
inline constexpr DataType data_type = Traits<T>::value;
template <class T>
using Word = typename Traits<T>::Word;

template <class T>
inline constexpr T least = is_signed_integer<T> ? static_cast<T>(Word<T>{1} << (sizeof(T) * 8 - 1)) : T{0};
template <class T>
inline constexpr T greatest = static_cast<T>(~least<T>);

DMLGRAPH_INLINE constexpr u32 bits_of(float value) { return __builtin_bit_cast(u32, value); }
DMLGRAPH_INLINE constexpr u64 bits_of(double value) { return __builtin_bit_cast(u64, value); }
DMLGRAPH_INLINE constexpr float float_of(u32 bits) { return __builtin_bit_cast(float, bits); }
DMLGRAPH_INLINE constexpr double double_of(u64 bits) { return __builtin_bit_cast(double, bits); }

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
