// The elements of a float32 sequence.
#pragma once

#include "cpu/kernels/cast.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

// start + index * delta, where the index, the product and the sum are each rounded. Indices have 32 bits, because tensors
// have at most 2^32 - 1 elements; those of 31 bits are signed integers, which every processor converts in one instruction.
template <class Index>
struct Ramp {
    float start, delta;
    Index first;
    float operator()(std::size_t i) const {
        return start + cast<float>(static_cast<Index>(first + static_cast<Index>(i))) * delta;
    }
};

// Calls next with the function that gives elements first … first + count - 1 of the sequence with these immediates.
template <class Next>
void with_sequence(const Immediate* immediates, u64 first, std::size_t count, const Next& next) {
    const float start = float_of(static_cast<u32>(immediates[0].u)), delta = float_of(static_cast<u32>(immediates[1].u));
    if (first + count <= u64{greatest<i32>}) {
        next(Ramp<i32>{start, delta, static_cast<i32>(first)});
    } else {
        next(Ramp<u32>{start, delta, static_cast<u32>(first)});
    }
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
