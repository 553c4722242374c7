// Where the queries, keys and values of heads lie, in memory of any strides.
#pragma once

#include <cstdint>

#include "cpu/kernels/product.h"
#include "cpu/tensor/layout.h"

namespace dmlgraph::cpu {

// A line of float32 or float16 for each sequence, head and place: a query, a key or a value. Steps in bytes.
struct HeadLines {
    std::byte* data = nullptr;
    DataType type{};
    std::int64_t sequence = 0;
    std::int64_t head = 0;
    std::int64_t place = 0;
    std::int64_t item = 0;
    std::int64_t size = 0;  // numbers of a line

    // {…, batch, places, heads · size}
    static HeadLines side_by_side(const Tensor& tensor, std::int64_t heads);
    // {…, batch, places, heads, parts, size}: one of the parts
    static HeadLines stacked(const Tensor& tensor, std::int64_t part);
    // {…, batch, heads, places, size}
    static HeadLines by_head(const Tensor& tensor);

    bool present() const { return data != nullptr; }
    std::byte* at(std::int64_t sequence_index, std::int64_t head_index, std::int64_t first) const {
        return data + sequence_index * sequence + head_index * head + first * place;
    }
};

// What is added to every line of a head: {heads · size} numbers. Steps in bytes.
struct HeadBias {
    const std::byte* data = nullptr;
    DataType type{};
    std::int64_t item = 0;

    bool present() const { return data != nullptr; }
};

// Some lines as float32, `step` floats apart.
struct SingleLines {
    const float* first;
    std::int64_t step;
};

// The lines of the past, and after them new ones, to which the bias is added; either may be absent.
struct JoinedLines {
    HeadLines past;
    std::int64_t past_places = 0;
    HeadLines fresh;
    HeadBias bias;

    std::int64_t size() const { return past.present() ? past.size : fresh.size; }
    // Some lines, in place if they lie so, or else in `copies`, which has room for them and one more. If they are read
    // often they are copied unless they follow one another: lines far apart share few places of the nearest cache.
    SingleLines read(std::int64_t sequence, std::int64_t head, std::int64_t first, std::int64_t count, bool often,
                     float* copies, const ProductKernels& kernels) const;
};

// Writes a line of floats into a tensor.
void write_line(std::byte* out, DataType type, std::int64_t item, const float* numbers, std::int64_t count);

}  // namespace dmlgraph::cpu
