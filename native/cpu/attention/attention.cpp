#include "cpu/attention/attention.h"

#include <algorithm>
#include <limits>

#include "cpu/runtime/scratch.h"
#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t most_keys = 128;   // of a block: so its scores stay in the nearest cache
constexpr std::int64_t most_bundles = 8;  // of a task, which read a block of keys while it is in the second cache
constexpr std::int64_t tasks_each = 4;    // for each of several workers
constexpr float least = -std::numeric_limits<float>::max();  // no score is compared with -∞, which may be subtracted

std::int64_t parts_of(std::int64_t all, std::int64_t each) { return (all + each - 1) / each; }
std::int64_t padded_to(std::int64_t count, std::int64_t unit) { return parts_of(count, unit) * unit; }

// How heads are cut. Queries go to a worker in bundles of a few vectors, or few of them as they are.
struct Cut {
    std::int64_t lanes;
    std::int64_t keys;  // of a block
    // Single queries that share a head of keys are those of different heads.
    bool by_group;
    std::int64_t heads;  // for each of which there are these queries
    std::int64_t queries;
    bool few;
    std::int64_t width;    // queries of a bundle, a whole number of vectors if there are many
    std::int64_t bundles;  // of a head

    Cut(const AttentionSizes& sizes, const AttentionKernels& kernels)
        : lanes(kernels.lanes),
          keys(parts_of(sizes.keys, parts_of(sizes.keys, most_keys))),
          by_group(sizes.queries == 1),
          heads(by_group ? sizes.key_heads : sizes.query_heads),
          queries(by_group ? sizes.group() : sizes.queries),
          few(queries <= few_queries),
          width(few ? few_queries : std::min(padded_to(queries, lanes), lanes * most_query_vectors)),
          bundles(parts_of(queries, width)) {}

    std::int64_t line() const { return few ? padded_to(keys, lanes) : width; }  // the most floats of a line of scores
};

// The memory of a worker.
struct HeadMemory {
    float* queries;   // of each bundle
    float* results;   // …
    float* greatest;  // …
    float* sums;      // …
    float* factors;
    float* scores;
    float* keys;
    float* values;
    float* rest;

    HeadMemory(Scratch& scratch, const AttentionSizes& sizes, const Cut& cut) {
        const std::int64_t bundles = std::min(cut.bundles, most_bundles),
                           longest = std::max(sizes.head, sizes.value_head);
        const std::int64_t all_scores = std::max(cut.keys * cut.width, cut.width * cut.line());
        queries = scratch.take(bundles * cut.width * sizes.head);
        results = scratch.take(bundles * cut.width * sizes.value_head);
        greatest = scratch.take(bundles * cut.width);
        sums = scratch.take(bundles * cut.width);
        factors = scratch.take(cut.width);
        scores = scratch.take(all_scores);
        keys = scratch.take((cut.keys + 1) * sizes.head);
        values = scratch.take((cut.keys + 1) * sizes.value_head);
        rest = scratch.take(std::max(all_scores + std::max(cut.keys, cut.width), 2 * cut.width * longest));
    }
};

// Some bundles of the queries of a head, computed by one worker.
class HeadTask {
public:
    HeadTask(const Attention& attention, const Cut& cut, Scratch scratch, std::int64_t index, std::int64_t bundles)
        : attention_(attention), sizes_(attention.sizes), cut_(cut), memory_(scratch, attention.sizes, cut) {
        const std::int64_t tasks = parts_of(cut.bundles, bundles), head = index / tasks;
        sequence_ = head / cut.heads;
        head_ = head % cut.heads;
        first_bundle_ = index % tasks * bundles;
        last_bundle_ = std::min(first_bundle_ + bundles, cut.bundles);
    }

    void compute() const {
        const std::int64_t key_head = cut_.by_group ? head_ : head_ / sizes_.group();
        for (std::int64_t b = first_bundle_; b < last_bundle_; ++b) {
            begin(b);
        }
        for (std::int64_t first = 0; first < sizes_.keys; first += cut_.keys) {
            const Range block{first, std::min(first + cut_.keys, sizes_.keys)};
            if (first > 0 && attention_.changes.hides(sequence_, block)) {
                continue;
            }
            const auto read = [&](const JoinedLines& lines, float* copies) {
                return lines.read(sequence_, key_head, block.first, block.last - block.first,
                                  last_bundle_ - first_bundle_ > 1, copies, *attention_.lines);
            };
            const SingleLines keys = read(attention_.keys, memory_.keys),
                              values = read(attention_.values, memory_.values);
            for (std::int64_t b = first_bundle_; b < last_bundle_; ++b) {
                if (cut_.few) {
                    add_to_lines(b, keys, values, block);
                } else {
                    add_across_lines(b, keys, values, block);
                }
            }
        }
        for (std::int64_t b = first_bundle_; b < last_bundle_; ++b) {
            finish(b);
        }
    }

private:
    float* of(float* memory, std::int64_t bundle, std::int64_t floats) const {
        return memory + (bundle - first_bundle_) * cut_.width * floats;
    }
    float* greatest(std::int64_t bundle) const { return of(memory_.greatest, bundle, 1); }
    float* sums(std::int64_t bundle) const { return of(memory_.sums, bundle, 1); }
    float* queries(std::int64_t bundle) const { return of(memory_.queries, bundle, sizes_.head); }
    float* results(std::int64_t bundle) const { return of(memory_.results, bundle, sizes_.value_head); }

    std::int64_t count(std::int64_t bundle) const { return std::min(cut_.width, cut_.queries - bundle * cut_.width); }
    // Queries with those that fill the last vector, if they lie side by side.
    std::int64_t width(std::int64_t bundle) const {
        return cut_.few ? cut_.width : padded_to(count(bundle), cut_.lanes);
    }
    int vectors(std::int64_t bundle) const { return static_cast<int>(width(bundle) / cut_.lanes); }

    // The head of a query, and its place there.
    std::int64_t head_of(std::int64_t query) const { return cut_.by_group ? head_ * sizes_.group() + query : head_; }
    std::int64_t place_of(std::int64_t query) const { return cut_.by_group ? 0 : query; }

    // Reads the queries: as lines, or side by side, then with zeros beside the last one.
    void begin(std::int64_t bundle) const {
        const std::int64_t size = sizes_.head, width = this->width(bundle), first = bundle * cut_.width,
                           here = count(bundle);
        float* const lines = cut_.few ? queries(bundle) : memory_.rest;
        float* const bias = memory_.rest + width * size;
        const HeadBias& given = attention_.query_bias;
        for (std::int64_t i = 0; i < here; ++i) {
            const std::int64_t head = head_of(first + i);
            const HeadLines& from = attention_.queries;
            float* const line = lines + i * size;
            attention_.lines->line_of(from.type)(line, from.at(sequence_, head, place_of(first + i)), from.item, size);
            if (given.present()) {
                attention_.lines->line_of(given.type)(bias, given.data + head * size * given.item, given.item, size);
            }
            for (std::int64_t d = 0; d < size; ++d) {
                line[d] = (given.present() ? line[d] + bias[d] : line[d]) * attention_.scale;
            }
        }
        if (!cut_.few) {
            std::fill_n(lines + here * size, (width - here) * size, 0.0f);
            transpose(queries(bundle), lines, width, size);
        }
        std::fill_n(greatest(bundle), width, least);
        std::fill_n(sums(bundle), width, 0.0f);
    }

    // out {columns, rows} of packed lines {rows, columns}
    static void transpose(float* out, float* lines, std::int64_t rows, std::int64_t columns) {
        const std::int64_t item = sizeof(float);
        gather_tile(reinterpret_cast<std::byte*>(out),
                    {reinterpret_cast<std::byte*>(lines), item, columns * item, columns, rows}, static_cast<int>(item));
    }

    // Many queries: they lie side by side.
    void add_across_lines(std::int64_t bundle, const SingleLines& keys, const SingleLines& values,
                          const Range& block) const {
        const std::int64_t number = block.last - block.first;
        const float* const factors = block.first == 0 ? nullptr : memory_.factors;
        attention_.kernels->lines(
            {keys.first, keys.step, 1, number, sizes_.head, queries(bundle), memory_.scores, vectors(bundle), nullptr});
        change_scores(bundle, block);
        attention_.kernels->line_weights(
            {memory_.scores, number, vectors(bundle), greatest(bundle), sums(bundle), memory_.factors});
        attention_.kernels->lines({values.first, 1, values.step, sizes_.value_head, number, memory_.scores,
                                   results(bundle), vectors(bundle), factors});
    }

    // Few queries: each has lines of its own.
    void add_to_lines(std::int64_t bundle, const SingleLines& keys, const SingleLines& values,
                      const Range& block) const {
        const std::int64_t number = block.last - block.first, padded = padded_to(number, cut_.lanes),
                           step = cut_.line();
        const int rows = static_cast<int>(count(bundle));
        const float* const factors = block.first == 0 ? nullptr : memory_.factors;
        attention_.kernels->dots(
            {queries(bundle), sizes_.head, rows, keys.first, keys.step, number, sizes_.head, memory_.scores, step});
        change_scores(bundle, block);
        for (std::int64_t i = 0; i < rows; ++i) {
            float* const line = memory_.scores + i * step;
            std::fill(line + number, line + padded, -std::numeric_limits<float>::infinity());
            attention_.kernels->weights({line, padded, greatest(bundle) + i, sums(bundle) + i, memory_.factors + i});
        }
        attention_.kernels->mix({memory_.scores, step, rows, values.first, values.step, number, results(bundle),
                                 sizes_.value_head, sizes_.value_head, factors});
    }

    // Queries of one head, or of several.
    void change_scores(std::int64_t bundle, const Range& block) const {
        const std::int64_t first = bundle * cut_.width;
        const auto change = [&](float* scores, std::int64_t head, const Range& queries) {
            attention_.changes.apply(
                {scores, cut_.few ? cut_.line() : width(bundle), !cut_.few, sequence_, head, queries, block},
                memory_.rest, *attention_.lines);
        };
        if (!cut_.by_group) {
            return change(memory_.scores, head_, {first, first + count(bundle)});
        }
        for (std::int64_t i = 0; i < count(bundle); ++i) {
            change(memory_.scores + i * (cut_.few ? cut_.line() : 1), head_of(first + i), {0, 1});
        }
    }

    // Divides by the sums of weights, and stores the results as lines.
    void finish(std::int64_t bundle) const {
        const std::int64_t size = sizes_.value_head, first = bundle * cut_.width;
        float* const lines = cut_.few ? results(bundle) : memory_.rest;
        if (!cut_.few) {
            transpose(lines, results(bundle), size, width(bundle));
        }
        for (std::int64_t i = 0; i < count(bundle); ++i) {
            float* const line = lines + i * size;
            const float sum = sums(bundle)[i];
            for (std::int64_t k = 0; k < size; ++k) {
                line[k] /= sum;
            }
            const HeadLines& out = attention_.out;
            write_line(out.at(sequence_, head_of(first + i), place_of(first + i)), out.type, out.item, line, size);
        }
    }

    const Attention& attention_;
    const AttentionSizes& sizes_;
    const Cut& cut_;
    HeadMemory memory_;
    std::int64_t sequence_;
    std::int64_t head_;  // one of the cut's
    std::int64_t first_bundle_;
    std::int64_t last_bundle_;
};

}  // namespace

std::size_t attention_scratch(const AttentionSizes& sizes, const AttentionKernels& kernels) {
    return scratch_of<HeadMemory>(sizes, Cut(sizes, kernels));
}

double attention_cost(const AttentionSizes& sizes) {
    const double rows = static_cast<double>(sizes.batch * sizes.query_heads) * static_cast<double>(sizes.queries);
    return rows * static_cast<double>(sizes.keys) * static_cast<double>(sizes.head + sizes.value_head + 16) / 4;
}

void run_attention(RunContext& context, const Attention& attention) {
    const Cut cut(attention.sizes, *attention.kernels);
    const std::int64_t heads = attention.sizes.batch * cut.heads;
    std::int64_t bundles = std::min(cut.bundles, most_bundles);
    while (context.workers > 1 && bundles > 1 &&
           heads * parts_of(cut.bundles, bundles) < context.workers * tasks_each) {
        bundles = parts_of(bundles, 2);
    }
    context.parallel(heads * parts_of(cut.bundles, bundles), attention_cost(attention.sizes),
                     [&](int worker, Chunks& chunks) {
                         for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
                             for (std::int64_t i = first; i < last; ++i) {
                                 HeadTask(attention, cut, Scratch(context.scratch(worker)), i, bundles).compute();
                             }
                         }
                     });
}

}  // namespace dmlgraph::cpu
