// Maxima of windows together with where they are: the first of equal ones.
#pragma once

#include "cpu/kernels/pooling.h"
#include "cpu/kernels/types.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace pooling {
namespace {

template <class T>
void find(const FindCall& call) noexcept {
    auto* const out = static_cast<T*>(call.out);
    std::uint32_t* const where = call.where;
    for (std::int64_t t = 0; t < call.taps; ++t) {
        const T* const in = static_cast<const T*>(call.in) + call.offsets[t];
        const std::uint32_t* const indices = call.indices + call.offsets[t];
        if (t == 0) {
            for (std::int64_t i = 0; i < call.count; ++i) {
                out[i] = in[i];
                where[i] = indices[i];
            }
            continue;
        }
        DMLGRAPH_LOOP
        for (std::int64_t i = 0; i < call.count; ++i) {
            const bool replaces = (where[i] == no_index) | (in[i] > out[i]);
            out[i] = replaces ? in[i] : out[i];
            where[i] = replaces ? indices[i] : where[i];
        }
    }
}

template <class T>
DMLGRAPH_ONCE void find_at_edge(const RowsCall& call, std::uint32_t* where, std::uint32_t base, std::int64_t i) {
    const T* const in = reinterpret_cast<const T*>(call.in);
    T total = *static_cast<const T*>(call.start);
    std::uint32_t place = no_index;
    std::int64_t x = call.first + i * call.stride;
    for (std::int64_t t = 0; t < call.taps; ++t, x += call.dilation) {
        if (x >= 0 && x < call.size && (place == no_index || in[x] > total)) {
            total = in[x] > total ? in[x] : total;
            place = base + static_cast<std::uint32_t>(x);
        }
    }
    static_cast<T*>(call.out)[i] = total;
    where[i] = place;
}

template <class T>
void find_row(const RowsCall& call, std::uint32_t* where, std::uint32_t base) noexcept {
    const std::int64_t begin = call.begin(), end = call.end(), stride = call.stride;
    for (std::int64_t i = 0; i < begin; ++i) {
        find_at_edge<T>(call, where, base, i);
    }
    for (std::int64_t i = end; i < call.count; ++i) {
        find_at_edge<T>(call, where, base, i);
    }
    T* const out = static_cast<T*>(call.out);
    const T start = *static_cast<const T*>(call.start);
    for (std::int64_t t = 0; t < call.taps; ++t) {
        const std::int64_t shift = call.first + t * call.dilation;
        const T* const in = reinterpret_cast<const T*>(call.in) + shift;
        const std::uint32_t from = base + static_cast<std::uint32_t>(shift);
        DMLGRAPH_LOOP
        for (std::int64_t i = begin; i < end; ++i) {
            const T total = t == 0 ? start : out[i];
            const T next = in[i * stride];
            const bool replaces = next > total;
            const std::uint32_t index = from + static_cast<std::uint32_t>(i * stride);
            out[i] = replaces ? next : total;
            where[i] = replaces || t == 0 ? index : where[i];
        }
    }
}

}  // namespace
}  // namespace pooling
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
