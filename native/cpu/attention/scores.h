// What changes scores before they become weights: a bias by position, masks, and the order of keys and queries.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/kernels/product.h"
#include "cpu/tensor/layout.h"

namespace dmlgraph::cpu {

// From `first` up to and without `last`.
struct Range {
    std::int64_t first;
    std::int64_t last;
};

// Scores of some queries and some keys of a head: lines of one key each, or of one query each, `step` floats apart.
struct Scores {
    float* data;
    std::int64_t step;
    bool has_line_of_key;
    std::int64_t sequence;
    std::int64_t head;
    Range queries;
    Range keys;

    const Range& lines() const { return has_line_of_key ? keys : queries; }
    const Range& along() const { return has_line_of_key ? queries : keys; }
    float* line(std::int64_t i) const { return data + (i - lines().first) * step; }
};

class ScoreChanges {
public:
    // Added: a tensor {…, batch, heads, queries, keys}.
    Tensor positions;
    // (1 − flag) times the filter is added: int32, with the same sizes.
    Tensor flags;
    float filter = 0;
    // By sequence: the filter is added outside of a rectangle.
    struct Rectangle {
        Range queries;
        Range keys;
    };
    std::vector<Rectangle> unfiltered;
    // By sequence: how many past keys count. A new key counts for its own query and later ones, where the last query is
    // that of the last key. Keys that do not count have the score −∞.
    std::vector<std::int64_t> past_lengths;
    std::int64_t past = 0;   // keys
    std::int64_t ahead = 0;  // new keys that the first query sees, less one

    // Whether none of these keys counts for any query, as the lengths say.
    bool hides(std::int64_t sequence, const Range& keys) const {
        return !past_lengths.empty() && past_lengths[static_cast<std::size_t>(sequence)] <= keys.first &&
               keys.last <= past;
    }
    // `scratch`: room for as many floats as there are scores, and a line more.
    void apply(const Scores& scores, float* scratch, const ProductKernels& kernels) const;

private:
    void add_filter(const Scores& scores) const;
    void hide_uncounted(const Scores& scores) const;
};

}  // namespace dmlgraph::cpu
