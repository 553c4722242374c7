// Weights of 4 or 8 bits as floats, and 4-bit integers as bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlgraph::cpu {

// out[i] = (weights[i] − zeros[b]) · scales[b], both rounded, for the blocks b of `block` weights each; the last one may have fewer.
// Two weights of 4 bits share a byte, the first in the lower half.
struct BlocksCall {
    float* out;
    const std::uint8_t* in;
    std::int64_t count;
    std::int64_t block;  // of an even number, if weights of 4 bits have several
    const float* scales;
    const float* zeros;
};

using BlocksKernel = void (*)(const BlocksCall& call) noexcept;

struct FewBitsKernels {
    BlocksKernel uint4;
    BlocksKernel int4;
    BlocksKernel uint8;
    BlocksKernel int8;
    // Bytes of both elements of each pair, with their sign if it is 8, not 0.
    void (*spread)(std::uint8_t* out, const std::uint8_t* in, std::int64_t pairs, std::uint8_t sign) noexcept;
};

}  // namespace dmlgraph::cpu
