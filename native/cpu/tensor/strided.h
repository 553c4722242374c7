// Copies between packed memory and memory with strides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/tensor/layout.h"

namespace dmlgraph::cpu {

// `count` elements of `item` bytes, `stride` bytes apart.
void gather_line(std::byte* out, const std::byte* in, std::int64_t stride, std::int64_t count, int item);
void scatter_line(std::byte* out, std::int64_t stride, const std::byte* in, std::int64_t count, int item);

// The elements first … first + count − 1, in row-major order, of a tensor whose first element is at `in`.
void gather(std::byte* out, const std::byte* in, int rank, const Sizes& sizes, const Sizes& strides, std::int64_t first,
            std::int64_t count, int item);
void scatter(std::byte* out, int rank, const Sizes& sizes, const Sizes& strides, const std::byte* in,
             std::int64_t first, std::int64_t count, int item);

// A rectangle of elements; strides in bytes.
struct Tile {
    std::byte* first;
    std::int64_t row_stride;
    std::int64_t column_stride;
    std::int64_t rows;
    std::int64_t columns;
};

// Copies between a rectangle and packed rows.
void gather_tile(std::byte* out, const Tile& tile, int item);
void scatter_tile(const Tile& tile, const std::byte* in, int item);

// One element, repeated.
void fill_line(std::byte* out, const std::byte* element, std::int64_t count, int item);
// Each of `width` elements, `count` times.
void repeat(std::byte* out, const std::byte* in, std::int64_t width, std::int64_t count, int item);
// `bytes` that lie side by side, `count` times.
void repeat_line(std::byte* out, const std::byte* in, std::int64_t bytes, std::int64_t count);

// A copy that bypasses the caches if the processor can; for memory that is far larger than they are.
void stream_copy(std::byte* out, const std::byte* in, std::size_t bytes);
// The thread that wrote so calls it before another thread reads.
void finish_streams();

// Copies `in` to `out`: same sizes, any strides.
void copy(const Tensor& out, const Tensor& in);

}  // namespace dmlgraph::cpu
