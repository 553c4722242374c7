// Pointers to numbers of 32 bits that are floats for some and integers for others, words or sums: what packs operands,
// multiplies them and stores results takes both. Who knows which they are says so by `as`.
//
// The functions are always inlined, since code compiled for several instruction-set levels includes this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cpu/compiler.h"

namespace dmlgraph::cpu {

template <class Byte>
class NumberPointer {
    template <class T>
    using Like = std::conditional_t<std::is_const_v<Byte>, const T, T>;

public:
    NumberPointer() = default;  // null
    DMLGRAPH_INLINE NumberPointer(std::nullptr_t) {}
    template <class T>
        requires std::is_arithmetic_v<T> && (std::is_const_v<Byte> || !std::is_const_v<T>)
    DMLGRAPH_INLINE NumberPointer(T* numbers) : at_(reinterpret_cast<Byte*>(numbers)) {
        static_assert(sizeof(T) == size);
    }
    DMLGRAPH_INLINE static NumberPointer of_bytes(Byte* bytes) {
        NumberPointer result;
        result.at_ = bytes;
        return result;
    }

    template <class T>
    DMLGRAPH_INLINE Like<T>* as() const {
        static_assert(sizeof(T) == size);
        return reinterpret_cast<Like<T>*>(at_);
    }
    DMLGRAPH_INLINE Byte* bytes() const { return at_; }
    DMLGRAPH_INLINE operator const void*() const { return at_; }
    DMLGRAPH_INLINE operator NumberPointer<const Byte>() const
        requires(!std::is_const_v<Byte>)
    {
        return NumberPointer<const Byte>::of_bytes(at_);
    }
    DMLGRAPH_INLINE NumberPointer operator+(std::int64_t numbers) const { return of_bytes(at_ + numbers * size); }
    DMLGRAPH_INLINE NumberPointer& operator+=(std::int64_t numbers) { return *this = *this + numbers; }
    DMLGRAPH_INLINE std::int64_t operator-(const NumberPointer& other) const { return (at_ - other.at_) / size; }

    static constexpr std::int64_t size = sizeof(std::uint32_t);

private:
    Byte* at_ = nullptr;
};

using NumbersAt = NumberPointer<const std::byte>;
using NumbersTo = NumberPointer<std::byte>;

}  // namespace dmlgraph::cpu
