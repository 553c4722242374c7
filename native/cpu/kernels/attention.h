// Attention: products of queries with keys, weights that are powers of e, and sums of weighted values.
//
// There are two forms. With many queries, these lie side by side: a line is what all of them have of one key, or of one
// number of the results, in one or two vectors. With few queries a line is what one query has of all keys, and of all
// numbers of its results.
//
// Sums are accumulated in float32, in the order of the keys or of the numbers of a head. Steps are in floats.
#pragma once

#include <cstdint>

#include "cpu/kernels/kernel.h"

namespace dmlgraph::cpu {

inline constexpr int most_query_vectors = 2;
inline constexpr int few_queries = 4;

// c[i] = Σ over k of a[i, k] · b[k], of lines b[k] and c[i] of `vectors` whole vectors, which follow one another. a[i,
// k] is a[i · row + k · depth_step], where one of the steps is 1. With factors c[i] = c[i] · factors + Σ.
struct LineSumsCall {
    const float* a;
    std::int64_t row;
    std::int64_t depth_step;
    std::int64_t rows;
    std::int64_t depth;
    const float* b;
    float* c;
    int vectors;
    const float* factors;
};

// Scores of several keys, a line each, become powers e^(score − greatest).
struct LineWeightsCall {
    float* scores;
    std::int64_t keys;
    int vectors;
    float* greatest;  // of each query: updated
    float* sums;      // of powers: multiplied by the factor, then increased
    float* factors;   // results: e^(greatest before − greatest now)
};

// c[i, j] = Σ over d of a[i, d] · b[j, d], for up to `few_queries` lines a[i].
struct DotsCall {
    const float* a;
    std::int64_t a_step;
    int rows;
    const float* b;
    std::int64_t b_step;
    std::int64_t columns;
    std::int64_t depth;
    float* c;
    std::int64_t c_step;
};

// The same as LineWeightsCall for the scores of one query, a whole number of vectors.
struct WeightsCall {
    float* scores;
    std::int64_t count;
    float* greatest;
    float* sum;
    float* factor;
};

// c[i, j] = Σ over k of a[i, k] · b[k, j], for up to `few_queries` lines a[i]; with factors one for each of them, as
// above.
struct MixCall {
    const float* a;
    std::int64_t a_step;
    int rows;
    const float* b;
    std::int64_t b_step;
    std::int64_t depth;
    float* c;
    std::int64_t c_step;
    std::int64_t columns;
    const float* factors;
};

struct AttentionKernels {
    int lanes;  // floats in a vector
    void (*lines)(const LineSumsCall& call) noexcept;
    void (*line_weights)(const LineWeightsCall& call) noexcept;
    void (*dots)(const DotsCall& call) noexcept;
    void (*weights)(const WeightsCall& call) noexcept;
    void (*mix)(const MixCall& call) noexcept;
};

}  // namespace dmlgraph::cpu
