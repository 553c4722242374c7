#include "cpu/attention/scores.h"

#include <algorithm>
#include <limits>

#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {
namespace {

std::int64_t length(const Range& range) { return range.last - range.first; }

// The elements of a tensor {…, batch, heads, queries, keys} that belong to scores, packed in their lines.
void gather_elements(const Tensor& tensor, const Scores& scores, void* out) {
    const std::size_t last = tensor.rank - 1u;
    const std::int64_t by_query = tensor.strides[last - 1], by_key = tensor.strides[last];
    std::byte* const first = tensor.data + scores.sequence * tensor.strides[last - 3] +
                             scores.head * tensor.strides[last - 2] + scores.queries.first * by_query +
                             scores.keys.first * by_key;
    const bool key_lines = scores.has_line_of_key;
    gather_tile(static_cast<std::byte*>(out),
                {first, key_lines ? by_key : by_query, key_lines ? by_query : by_key, length(scores.lines()),
                 length(scores.along())},
                static_cast<int>(item_size(tensor.type)));
}

void add_positions(const Tensor& positions, const Scores& scores, float* scratch, const ProductKernels& kernels) {
    const std::int64_t width = length(scores.along()), item = static_cast<std::int64_t>(item_size(positions.type));
    gather_elements(positions, scores, scratch);
    const auto* from = reinterpret_cast<const std::byte*>(scratch);
    float* const converted = scratch + length(scores.lines()) * width;
    for (std::int64_t i = scores.lines().first; i < scores.lines().last; ++i, from += width * item) {
        kernels.line_of(positions.type)(converted, from, item, width);
        float* const line = scores.line(i);
        for (std::int64_t j = 0; j < width; ++j) {
            line[j] += converted[j];
        }
    }
}

// Zero times an infinite filter is zero.
void add_flags(const Tensor& flags, float filter, const Scores& scores, float* scratch) {
    const std::int64_t width = length(scores.along());
    gather_elements(flags, scores, scratch);
    const auto* from = reinterpret_cast<const std::int32_t*>(scratch);
    for (std::int64_t i = scores.lines().first; i < scores.lines().last; ++i, from += width) {
        float* const line = scores.line(i);
        for (std::int64_t j = 0; j < width; ++j) {
            const float times = 1.0f - static_cast<float>(from[j]), more = times * filter;
            line[j] += times == 0.0f ? 0.0f : more;
        }
    }
}

// Calls change(number) for the scores of a line outside of a range.
template <class Change>
void outside_of(const Scores& scores, std::int64_t i, const Range& range, const Change& change) {
    const std::int64_t begin = scores.along().first, width = length(scores.along());
    float* const line = scores.line(i);
    const std::int64_t first = std::clamp(range.first - begin, std::int64_t{0}, width);
    const std::int64_t last = std::clamp(range.last - begin, first, width);
    std::for_each(line, line + first, change);
    std::for_each(line + last, line + width, change);
}

bool holds(std::int64_t i, const Range& range) { return range.first <= i && i < range.last; }

}  // namespace

void ScoreChanges::apply(const Scores& scores, float* scratch, const ProductKernels& kernels) const {
    if (positions.data != nullptr) {
        add_positions(positions, scores, scratch, kernels);
    }
    if (flags.data != nullptr) {
        add_flags(flags, filter, scores, scratch);
    }
    if (!unfiltered.empty()) {
        add_filter(scores);
    }
    if (!past_lengths.empty()) {
        hide_uncounted(scores);
    }
}

void ScoreChanges::add_filter(const Scores& scores) const {
    const Rectangle& rectangle = unfiltered[static_cast<std::size_t>(scores.sequence)];
    const Range& lines = scores.has_line_of_key ? rectangle.keys : rectangle.queries;
    const Range& along = scores.has_line_of_key ? rectangle.queries : rectangle.keys;
    for (std::int64_t i = scores.lines().first; i < scores.lines().last; ++i) {
        outside_of(scores, i, holds(i, lines) ? along : Range{0, 0}, [more = filter](float& x) { x += more; });
    }
}

void ScoreChanges::hide_uncounted(const Scores& scores) const {
    const std::int64_t counted = std::min(past_lengths[static_cast<std::size_t>(scores.sequence)], past);
    const auto hide = [](float& x) { x = -std::numeric_limits<float>::infinity(); };
    constexpr std::int64_t all = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t i = scores.lines().first; i < scores.lines().last; ++i) {
        if (scores.has_line_of_key) {  // the queries for which a key counts
            const Range old = i < counted ? Range{0, all} : Range{0, 0};
            outside_of(scores, i, i < past ? old : Range{i - past - ahead, all}, hide);
        } else {  // the keys that count for a query: some past ones, then some new ones
            const Range& keys = scores.keys;
            const Scores before{
                scores.line(i), 0, false, 0, 0, {0, 1}, {keys.first, std::clamp(past, keys.first, keys.last)}};
            outside_of(before, 0, {0, counted}, hide);
            const std::int64_t seam = before.keys.last;
            const Scores after{scores.line(i) + (seam - keys.first), 0, false, 0, 0, {0, 1}, {seam, keys.last}};
            outside_of(after, 0, {past, past + i + ahead + 1}, hide);
        }
    }
}

}  // namespace dmlgraph::cpu
