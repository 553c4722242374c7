#include "cpu/steps/attention.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "cpu/attention/attention.h"
#include "cpu/kernels/level.h"

namespace dmlgraph::cpu {
namespace {

enum class MaskType : std::int64_t { none, key_lengths, key_bounds, segments, flags };

constexpr std::int64_t all = std::numeric_limits<std::int64_t>::max();

void require(bool holds, const char* message) {
    if (!holds) {
        throw std::invalid_argument(message);
    }
}

bool is_half_or_single(DataType type) { return type == DataType::float32 || type == DataType::float16; }

// The integers of a tensor, in row-major order.
std::vector<std::int64_t> integers(const Tensor& tensor) {
    std::vector<std::int64_t> result(static_cast<std::size_t>(tensor.element_count()));
    Sizes at{};
    for (std::int64_t& each : result) {
        const std::byte* from = tensor.data;
        for (std::size_t d = 0; d < tensor.rank; ++d) {
            from += at[d] * tensor.strides[d];
        }
        each = *reinterpret_cast<const std::int32_t*>(from);
        for (std::size_t d = tensor.rank; d-- > 0;) {
            if (++at[d] != tensor.sizes[d]) {
                break;
            }
            at[d] = 0;
        }
    }
    return result;
}

class AttentionStep final : public Step {
public:
    AttentionStep(const StepTensors& tensors, const AttentionParameters& parameters)
        : inputs_(tensors.inputs),
          outputs_(tensors.outputs),
          parameters_(parameters),
          mask_type_(static_cast<MaskType>(parameters.mask_type)),
          kernels_(chosen_level().attention) {
        require(outputs_.size() == 3 && parameters.factors.size() == 2, "attention has three outputs and two factors");
        require(parameters.query_heads > 0 && parameters.key_heads > 0 &&
                    parameters.query_heads % parameters.key_heads == 0,
                "the heads of queries are a multiple of those of keys");
        for (const auto* source : {&parameters.query, &parameters.key, &parameters.value}) {
            require(source->size() == 2 && (!has((*source)[0]) || has_rank((*source)[0], (*source)[1] < 0 ? 3 : 5)),
                    "queries, keys and values are a port and a part of a stack");
        }
        require(has(parameters.query[0]), "attention lacks queries");
        require(has(parameters.past_key) == has(parameters.past_value) &&
                    has(parameters.key[0]) == has(parameters.value[0]) &&
                    (has(parameters.key[0]) || has(parameters.past_key)),
                "attention needs keys and values, both new or past");
        for (const std::int64_t port : {parameters.past_key, parameters.past_value, parameters.positions}) {
            require(!has(port) || has_rank(port, 4),
                    "past keys, past values and the bias by position have 4 dimensions");
        }
        for (const View& each : inputs_) {
            require(each.buffer == no_buffer || is_half_or_single(each.type) || each.type == DataType::int32,
                    "attention takes float32, float16 and int32");
        }
        set_sizes();
    }

    void run(RunContext& context) const override {
        Attention attention;
        attention.sizes = sizes_;
        attention.scale = parameters_.factors[0];
        attention.kernels = &kernels_;
        attention.lines = chosen_level().products;
        attention.queries = lines(context, parameters_.query, sizes_.query_heads);
        attention.keys = joined(context, parameters_.past_key, parameters_.key);
        attention.values = joined(context, parameters_.past_value, parameters_.value);
        add_biases(context, attention);
        attention.changes = changes(context);
        if (outputs_[0].buffer != no_buffer) {
            attention.out = HeadLines::side_by_side(context.tensor(outputs_[0]), sizes_.query_heads);
            run_attention(context, attention);
        }
        write_present(context, outputs_[1], attention.keys);
        write_present(context, outputs_[2], attention.values);
    }

    double cost() const override { return attention_cost(sizes_); }
    std::size_t scratch_bytes() const override {
        return std::max(attention_scratch(sizes_, kernels_),
                        static_cast<std::size_t>(2 * longest_line()) * sizeof(float));
    }
    void visit(const Visitor& visitor) override {
        for (View& view : inputs_) {
            visitor(view, false);
        }
        for (View& view : outputs_) {
            visitor(view, true);
        }
    }

private:
    bool has(std::int64_t port) const {
        require(port < static_cast<std::int64_t>(inputs_.size()), "attention has no such input");
        return port >= 0 && inputs_[static_cast<std::size_t>(port)].buffer != no_buffer;
    }
    const View& input(std::int64_t port) const { return inputs_[static_cast<std::size_t>(port)]; }
    bool has_rank(std::int64_t port, int rank) const { return input(port).rank >= rank; }
    // The size of a dimension, counted from the last one.
    std::int64_t size(std::int64_t port, int from_last) const {
        const View& view = input(port);
        return view.sizes[static_cast<std::size_t>(view.rank - 1 - from_last)];
    }

    void set_sizes() {
        const auto front = [&](const std::vector<std::int64_t>& source) { return source[1] < 0 ? 2 : 4; };
        const auto number = [&](const std::vector<std::int64_t>& source, std::int64_t heads) {
            return source[1] < 0 ? size(source[0], 0) / heads : size(source[0], 0);
        };
        const auto &query = parameters_.query, &key = parameters_.key, &value = parameters_.value;
        sizes_.query_heads = parameters_.query_heads;
        sizes_.key_heads = parameters_.key_heads;
        sizes_.batch = size(query[0], front(query));
        sizes_.queries = size(query[0], front(query) - 1);
        sizes_.head = number(query, sizes_.query_heads);
        past_ = has(parameters_.past_key) ? size(parameters_.past_key, 1) : 0;
        fresh_ = has(key[0]) ? size(key[0], front(key) - 1) : 0;
        sizes_.keys = past_ + fresh_;
        sizes_.value_head = has(value[0]) ? number(value, sizes_.key_heads) : size(parameters_.past_value, 0);
    }

    std::int64_t longest_line() const { return std::max(sizes_.head, sizes_.value_head); }

    Tensor tensor(const RunContext& context, std::int64_t port) const { return context.tensor(input(port)); }

    HeadLines lines(const RunContext& context, const std::vector<std::int64_t>& source, std::int64_t heads) const {
        const Tensor found = tensor(context, source[0]);
        return source[1] < 0 ? HeadLines::side_by_side(found, heads) : HeadLines::stacked(found, source[1]);
    }

    JoinedLines joined(const RunContext& context, std::int64_t past, const std::vector<std::int64_t>& source) const {
        JoinedLines result;
        if (has(past)) {
            result.past = HeadLines::by_head(tensor(context, past));
            result.past_places = past_;
        }
        if (has(source[0])) {
            result.fresh = lines(context, source, sizes_.key_heads);
        }
        return result;
    }

    // The bias has the parts of queries, keys and values one after the other.
    void add_biases(const RunContext& context, Attention& attention) const {
        if (!has(parameters_.bias)) {
            return;
        }
        const Tensor found = tensor(context, parameters_.bias);
        const std::int64_t item = found.strides[found.rank - 1u];
        const std::byte* from = found.data;
        const auto take = [&](std::int64_t numbers) {
            const HeadBias part{from, found.type, item};
            from += numbers * item;
            return part;
        };
        attention.query_bias = take(sizes_.query_heads * sizes_.head);
        attention.keys.bias = take(sizes_.key_heads * sizes_.head);
        attention.values.bias = take(sizes_.key_heads * sizes_.value_head);
    }

    ScoreChanges changes(const RunContext& context) const {
        ScoreChanges result;
        result.filter = parameters_.factors[1];
        result.past = past_;
        result.ahead = fresh_ - sizes_.queries;
        if (has(parameters_.positions)) {
            result.positions = tensor(context, parameters_.positions);
        }
        if (has(parameters_.past_lengths)) {
            result.past_lengths = integers(tensor(context, parameters_.past_lengths));
        }
        if (!has(parameters_.mask)) {
            return result;
        }
        const Tensor mask = tensor(context, parameters_.mask);
        if (mask_type_ == MaskType::flags) {
            result.flags = mask;
        } else {
            result.unfiltered = rectangles(integers(mask));
        }
        return result;
    }

    std::vector<ScoreChanges::Rectangle> rectangles(const std::vector<std::int64_t>& mask) const {
        const auto batch = static_cast<std::size_t>(sizes_.batch);
        std::vector<ScoreChanges::Rectangle> result(batch, {{0, all}, {0, 0}});
        for (std::size_t b = 0; b < batch; ++b) {
            auto& [queries, keys] = result[b];
            switch (mask_type_) {
                case MaskType::key_lengths: keys = {0, mask[b]}; break;
                case MaskType::key_bounds: keys = {mask[batch + b], mask[b]}; break;
                default: {  // lengths of keys, bounds of queries, bounds of keys; counted through the whole batch
                    const auto at = static_cast<std::int64_t>(b);
                    const std::int64_t *query_bounds = mask.data() + batch, *key_bounds = query_bounds + batch + 1;
                    const std::int64_t first_query = at * sizes_.queries, first_key = at * sizes_.keys;
                    queries = {query_bounds[b] - first_query, query_bounds[b + 1] - first_query};
                    keys = {key_bounds[b] - first_key, key_bounds[b] - first_key + mask[b]};
                }
            }
        }
        return result;
    }

    // Past and new lines together: {batch, heads, places, numbers}.
    void write_present(RunContext& context, const View& view, const JoinedLines& from) const {
        if (view.buffer == no_buffer) {
            return;
        }
        const HeadLines to = HeadLines::by_head(context.tensor(view));
        const std::int64_t rows = sizes_.batch * sizes_.key_heads * sizes_.keys;
        context.parallel(
            rows, static_cast<double>(rows * to.size) * 2 * sizeof(float), [&](int worker, Chunks& chunks) {
                auto* const copy = reinterpret_cast<float*>(context.scratch(worker));
                for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
                    for (std::int64_t i = first; i < last; ++i) {
                        const std::int64_t place = i % sizes_.keys, head = i / sizes_.keys % sizes_.key_heads;
                        const std::int64_t sequence = i / (sizes_.keys * sizes_.key_heads);
                        const SingleLines line =
                            from.read(sequence, head, place, 1, false, copy, *chosen_level().products);
                        write_line(to.at(sequence, head, place), to.type, to.item, line.first, to.size);
                    }
                }
            });
    }

    std::vector<View> inputs_;
    std::vector<View> outputs_;
    AttentionParameters parameters_;
    MaskType mask_type_;
    const AttentionKernels& kernels_;
    AttentionSizes sizes_;
    std::int64_t past_ = 0;   // keys
    std::int64_t fresh_ = 0;  // …
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const AttentionParameters& parameters) {
    return std::make_unique<AttentionStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
