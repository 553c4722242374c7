// softmax(Q · Kᵀ + changes) · V of many heads, in one pass over the keys of each: no more scores are in memory than
// those of some queries and one block of keys.
//
// After each block of keys the results so far are scaled to the greatest score up to there. Blocks of keys follow from
// the sizes alone, and no query depends on another one: results do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/attention/heads.h"
#include "cpu/attention/scores.h"
#include "cpu/kernels/attention.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

struct AttentionSizes {
    std::int64_t batch = 1;
    std::int64_t queries = 1;
    std::int64_t keys = 1;
    std::int64_t query_heads = 1;
    std::int64_t key_heads = 1;   // of which each serves as many consecutive heads of queries
    std::int64_t head = 1;        // numbers of a query and a key
    std::int64_t value_head = 1;  // numbers of a value

    std::int64_t group() const { return query_heads / key_heads; }
};

struct Attention {
    AttentionSizes sizes;
    HeadLines queries;
    HeadBias query_bias;
    float scale = 1;  // of queries and their bias
    JoinedLines keys;
    JoinedLines values;
    ScoreChanges changes;
    HeadLines out;
    const AttentionKernels* kernels = nullptr;
    const ProductKernels* lines = nullptr;
};

// Scratch memory that each worker needs.
std::size_t attention_scratch(const AttentionSizes& sizes, const AttentionKernels& kernels);
// The work in the units of `RunContext::parallel`.
double attention_cost(const AttentionSizes& sizes);

void run_attention(RunContext& context, const Attention& attention);

}  // namespace dmlgraph::cpu
