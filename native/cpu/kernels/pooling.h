// What a pooling does with lines of elements: it combines the taps of neighbouring windows.
//
// A maximum begins with `start` and is replaced by every greater number that follows: so NaN is ignored, and of equal
// numbers the first is kept. Elements are float32, for float16 too, or integers. Of 8-bit integers that stand for
// numbers, sums are in float64.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/compiler.h"
#include "cpu/kernels/kernel.h"
#include "cpu/kernels/picture.h"

namespace dmlgraph::cpu {

// Windows along rows: tap t of result i of a row is the element first + i · stride + t · dilation of it, if that
// exists.
struct RowsCall {
    void* out;
    std::int64_t out_step;  // from row to row, in elements
    const std::byte* in;
    std::int64_t in_step;  // in bytes
    std::int64_t rows;
    std::int64_t count;  // results of a row
    std::int64_t size;   // elements of a row
    std::int64_t first;
    std::int64_t stride;
    std::int64_t dilation;
    std::int64_t taps;
    const void* start;

    // The results whose taps all exist are begin ≤ i < end.
    DMLGRAPH_INLINE std::int64_t begin() const {
        const std::int64_t before = first < 0 ? (stride - 1 - first) / stride : 0;
        return before < count ? before : count;
    }
    DMLGRAPH_INLINE std::int64_t end() const {
        const std::int64_t from = begin(),
                           room = size - 1 - first - (taps - 1) * dilation;  // for the last result's first tap
        const std::int64_t last = room < 0 ? 0 : room / stride + 1;
        return last < from ? from : last < count ? last : count;
    }
};

// Windows of `taps` × `taps` neighbouring elements of a picture, `stride` apart: 3 × 3 elements that are 1 or 2 apart,
// or 2 × 2 that are 2 apart. Of each row start ∘ its taps; then start ∘ the rows. Rows and columns beyond the picture
// are `start`.
struct PooledPictureCall {
    void* out;  // packed
    std::int64_t rows;
    std::int64_t count;
    Picture from;
    const void* start;
};

// Windows of cells, see channel_block.h; of each row start ∘ its taps; then start ∘ the rows. The cells around a
// picture are `start`.
struct PoolCellsCall {
    float* out;    // rows · count cells
    float* lines;  // memory for `count` cells of each row of cells
    const float* in;
    std::int64_t pitch;  // these in cells
    std::int64_t rows;
    std::int64_t count;
    std::int64_t stride_down;
    std::int64_t stride_across;
    std::int64_t dilation_down;
    std::int64_t dilation_across;
    std::int64_t taps_down;
    std::int64_t taps_across;
    float start;
};

// out[i] = start ∘ in[offsets[0] + i] ∘ in[offsets[1] + i] ∘ …; `out` overlaps no tap.
struct CombineCall {
    void* out;
    const void* in;
    const std::int64_t* offsets;  // in elements
    std::int64_t taps;            // at least 1
    std::int64_t count;
    const void* start;
};

inline constexpr std::uint32_t no_index = 0xffffffffu;

// The maxima of maxima, and where they are: tap t is in[offsets[t] + i] with indices[offsets[t] + i], or outside the
// tensor if that is `no_index`. The first tap inside counts, and every greater one after it.
struct FindCall {
    void* out;
    std::uint32_t* where;
    const void* in;
    const std::uint32_t* indices;
    const std::int64_t* offsets;
    std::int64_t taps;
    std::int64_t count;
};

struct PoolingKernels {
    void (*rows)(const RowsCall& call) noexcept;
    void (*combine)(const CombineCall& call) noexcept;
    // Null for others than float32, and where loading parts of vectors takes too long.
    void (*picture)(const PooledPictureCall& call) noexcept;
    // Null for others than float32.
    void (*cells)(const PoolCellsCall& call) noexcept;
    // Whether an element is -0: else the order of a maximum does not matter. Null for others than maxima of floats.
    bool (*has_negative_zero)(const void* in, std::int64_t count) noexcept;
    // total = total ∘ in[0] ∘ in[1] ∘ …; a sum in some order that depends on the count only.
    void (*reduce)(void* total, const void* in, std::int64_t count) noexcept;
    // Maxima with indices, null for sums: the place in a single row plus `base`, or `no_index`.
    void (*find_row)(const RowsCall& call, std::uint32_t* where, std::uint32_t base) noexcept;
    void (*find)(const FindCall& call) noexcept;
};

// out[i] = (in[i] − zero_point) · scale, rounded to float32. Up to 2^21 of such numbers have an exact sum in float64:
// they are multiples of the scale's last bit, below 2^32 of it.
struct NumbersCall {
    double* out;
    const std::byte* in;  // int8 or uint8, side by side
    std::int64_t count;
    float scale;
    float zero_point;
};
using NumbersKernel = void (*)(const NumbersCall& call) noexcept;

// Elements of gradients that are added, one after the other, each sum rounded to the type.
struct SpacedSumsCall {  // out[i · out_step] += in[i · in_step]
    void* out;
    std::int64_t out_step;
    const void* in;
    std::int64_t in_step;
    std::int64_t count;
};
struct ScatteredSumsCall {  // out[where[i]] += in[i], in this order, unless that is `no_index`
    void* out;
    const std::uint32_t* where;
    const void* in;
    std::int64_t count;
};
struct GradientKernels {
    void (*spaced)(const SpacedSumsCall& call) noexcept;
    void (*scattered)(const ScatteredSumsCall& call) noexcept;
};

// x[i] = |x[i]|^p, for p ≥ 1.
using MagnitudeKernel = void (*)(float* x, std::int64_t count, std::uint32_t p) noexcept;

// Null for types that have none.
struct PoolingFamily {
    const PoolingKernels* (*maxima)(DataType type) noexcept;      // float16 has those of float32
    const PoolingKernels& sums;                                   // in float32
    const PoolingKernels& wide_sums;                              // in float64
    NumbersKernel (*numbers)(DataType type) noexcept;             // of int8 and uint8
    const GradientKernels* (*gradients)(DataType type) noexcept;  // of float32 and float16
    MagnitudeKernel magnitudes;
};

}  // namespace dmlgraph::cpu
