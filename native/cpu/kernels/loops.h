// Loops over elements, for functions of one to three of them.
//
// A function is a struct whose call operator works on elements; one with immediates has a constructor that takes them.
// All of this is compiled once per level, in the level's own namespace. Nothing here or in the families may instantiate
// a template of the standard library, because the linker would keep one copy of it for all levels.
#pragma once

#include "cpu/compiler.h"
#include "cpu/kernels/level.h"
#include "cpu/runtime/cache_line.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

constexpr std::size_t chunk = 256;  // elements of the buffers on the stack for half precision and scalars

template <class Function>
DMLGRAPH_INLINE Function make(const Immediate* immediates) {
    if constexpr (requires { Function(immediates); }) {
        return Function(immediates);
    } else {
        return Function{};
    }
}

// A loop in place is safe, although the compiler cannot know that: no later iteration loads what an iteration stores.
template <class T>
DMLGRAPH_ONCE void spread(T value, T* out, std::size_t count) {
    DMLGRAPH_LOOP
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = value;
    }
}

template <class Function, class Out, class In>
void unary(const Call& call) noexcept {
    const auto function = make<Function>(call.immediates);
    const auto* x = static_cast<const In*>(call.in[0].data);
    auto* out = static_cast<Out*>(call.out);
    const std::size_t count = call.count;  // a copy, because a store through `out` might change the call
    if (call.in[0].scalar) {
        return spread<Out>(function(x[0]), out, count);
    }
    DMLGRAPH_LOOP
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = function(x[i]);
    }
}

// With separate loops for scalar operands: for fast functions.
template <class Function, class Out, class A, class B = A>
DMLGRAPH_ONCE void binary(const Call& call) noexcept {
    const auto function = make<Function>(call.immediates);
    const auto* a = static_cast<const A*>(call.in[0].data);
    const auto* b = static_cast<const B*>(call.in[1].data);
    auto* out = static_cast<Out*>(call.out);
    const std::size_t count = call.count;
    if (call.in[0].scalar && call.in[1].scalar) {
        spread<Out>(function(a[0], b[0]), out, count);
    } else if (call.in[0].scalar) {
        const A left = a[0];
        DMLGRAPH_LOOP
        for (std::size_t i = 0; i < count; ++i) {
            out[i] = function(left, b[i]);
        }
    } else if (call.in[1].scalar) {
        const B right = b[0];
        DMLGRAPH_LOOP
        for (std::size_t i = 0; i < count; ++i) {
            out[i] = function(a[i], right);
        }
    } else {
        DMLGRAPH_LOOP
        for (std::size_t i = 0; i < count; ++i) {
            out[i] = function(a[i], b[i]);
        }
    }
}

// An operand, chunk by chunk; a scalar fills a chunk once.
template <class T>
class Chunks {
public:
    Chunks(const Operand& operand, std::size_t count)
        : data_(static_cast<const T*>(operand.data)), scalar_(operand.scalar) {
        if (scalar_) {
            spread(data_[0], spread_, count < chunk ? count : chunk);
        }
    }

    const T* at(std::size_t index) const { return scalar_ ? spread_ : data_ + index; }

private:
    const T* data_;
    bool scalar_;
    alignas(cache_line) T spread_[chunk];
};

// One loop, over chunks: for slow functions.
template <class Function, class Out, class A, class B = A>
void slow_binary(const Call& call) noexcept {
    const auto function = make<Function>(call.immediates);
    const Chunks<A> all_a(call.in[0], call.count);
    const Chunks<B> all_b(call.in[1], call.count);
    for (std::size_t start = 0; start < call.count; start += chunk) {
        const std::size_t count = call.count - start < chunk ? call.count - start : chunk;
        const A* a = all_a.at(start);
        const B* b = all_b.at(start);
        Out* out = static_cast<Out*>(call.out) + start;
        DMLGRAPH_LOOP
        for (std::size_t i = 0; i < count; ++i) {
            out[i] = function(a[i], b[i]);
        }
    }
}

template <class Function, class Out, class A, class B, class C>
void ternary(const Call& call) noexcept {
    const auto function = make<Function>(call.immediates);
    const Chunks<A> all_a(call.in[0], call.count);
    const Chunks<B> all_b(call.in[1], call.count);
    const Chunks<C> all_c(call.in[2], call.count);
    for (std::size_t start = 0; start < call.count; start += chunk) {
        const std::size_t count = call.count - start < chunk ? call.count - start : chunk;
        const A* a = all_a.at(start);
        const B* b = all_b.at(start);
        const C* c = all_c.at(start);
        Out* out = static_cast<Out*>(call.out) + start;
        DMLGRAPH_LOOP
        for (std::size_t i = 0; i < count; ++i) {
            out[i] = function(a[i], b[i], c[i]);
        }
    }
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
