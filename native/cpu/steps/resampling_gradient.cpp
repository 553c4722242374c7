#include "cpu/steps/resampling_gradient.h"

#include <algorithm>
#include <stdexcept>

#include "cpu/kernels/level.h"
#include "cpu/kernels/resampling.h"
#include "cpu/runtime/cache_line.h"
#include "cpu/steps/float_rows.h"

namespace dmlgraph::cpu {
namespace {

// The terms of the results along an axis. Those of result o are firsts[o] to firsts[o + 1].
struct SumAxis {
    int dimension = 0;
    std::vector<std::int64_t> firsts{0};
    std::vector<std::int32_t> indices;
    std::vector<float> weights;

    std::int64_t count(std::int64_t result) const {
        return firsts[static_cast<std::size_t>(result + 1)] - firsts[static_cast<std::size_t>(result)];
    }
};

// The terms of the results along a row, for `most_lanes` results at a time: {terms, most_lanes}, where the terms that a
// result has less than others of its group are the zero behind the row.
class RowSums {
public:
    RowSums() = default;
    RowSums(const SumAxis& axis, std::int64_t zero) {
        const auto results = static_cast<std::int64_t>(axis.firsts.size()) - 1;
        for (std::int64_t left = 0; left < results; left += most_lanes) {
            std::int64_t terms = 0;
            for (std::int64_t o = left; o < std::min(left + most_lanes, results); ++o) {
                terms = std::max(terms, axis.count(o));
            }
            const auto first = indices_.size();
            groups_.push_back({first, terms});
            indices_.resize(first + static_cast<std::size_t>(terms * most_lanes), static_cast<std::int32_t>(zero));
            weights_.resize(indices_.size(), 0.0f);
            for (std::int64_t o = left; o < std::min(left + most_lanes, results); ++o) {
                for (std::int64_t t = 0; t < axis.count(o); ++t) {
                    const auto to = first + static_cast<std::size_t>(t * most_lanes + o - left);
                    const auto from = static_cast<std::size_t>(axis.firsts[static_cast<std::size_t>(o)] + t);
                    indices_[to] = axis.indices[from];
                    weights_[to] = axis.weights[from];
                }
            }
        }
    }

    bool empty() const { return groups_.empty(); }

    void add_up(const ResamplingKernels& kernels, const float* row, float* out, std::int64_t count) const {
        std::int64_t left = 0;
        for (const Group& group : groups_) {
            const std::int32_t* const indices = indices_.data() + group.first;
            const float* const weights = weights_.data() + group.first;
            kernels.add_up(
                {out + left, row, indices, weights, most_lanes, group.terms, std::min(most_lanes, count - left)});
            left += most_lanes;
        }
    }

private:
    struct Group {
        std::size_t first;
        std::int64_t terms;
    };
    std::vector<Group> groups_;
    std::vector<std::int32_t> indices_;
    std::vector<float> weights_;
};

class ResamplingGradientStep final : public Step {
public:
    ResamplingGradientStep(const StepTensors& tensors, const ResamplingGradientParameters& parameters)
        : input_(tensors.inputs.at(0)),
          output_(tensors.outputs.at(0)),
          epilogue_(parameters.epilogue, output_.type, 1),
          kernels_(chosen_level().resampling),
          reader_(input_) {
        if (output_.rank != input_.rank) {
            throw std::invalid_argument("resampled tensors have the same number of dimensions");
        }
        out_width_ = output_.sizes[static_cast<std::size_t>(output_.rank - 1)];
        std::size_t results = 0, terms = 0;
        for (std::size_t i = 0; i < parameters.axes.size(); ++i) {
            add_axis(parameters, i, results, terms);
        }
        if (results != parameters.counts.size() || terms != parameters.indices.size() ||
            terms != parameters.weights.size()) {
            throw std::invalid_argument("a gradient of resampling needs an index and a weight for each term");
        }
        terms_ = std::max(1.0, static_cast<double>(terms) / static_cast<double>(std::max<std::size_t>(1, results)));
        if (!axes_.empty() && axes_.back().dimension == input_.rank - 1) {
            along_row_ = RowSums(axes_.back(), reader_.width());
            axes_.pop_back();
        }
    }

    void run(RunContext& context) const override {
        if (output_.buffer == no_buffer) {
            return;
        }
        const Tensor x = context.tensor(input_);
        Target target;
        target.epilogue = &epilogue_;
        target.out = rows_of(context.tensor(output_));
        each_row(context, output_, cost(),
                 [&](const Sizes& place, std::byte* scratch) { run_row(x, target, place, scratch); });
    }

    double cost() const override {
        double each = 1;
        for (std::size_t i = 0; i < axes_.size() + (along_row_.empty() ? 0 : 1); ++i) {
            each *= terms_;
        }
        return static_cast<double>(output_.element_count()) * sizeof(float) * (1 + each);
    }
    std::size_t scratch_bytes() const override {
        return line_bytes() * (axes_.size() + 4) + Target::line_scratch(0, epilogue_, out_width_);
    }
    void visit(const Visitor& visitor) override {
        visitor(input_, false);
        visitor(output_, true);
    }

private:
    void add_axis(const ResamplingGradientParameters& parameters, std::size_t i, std::size_t& results,
                  std::size_t& terms) {
        const std::int64_t dimension = parameters.axes[i];
        if (dimension < 0 || dimension >= input_.rank || (i > 0 && dimension <= parameters.axes[i - 1])) {
            throw std::invalid_argument("the axes of resampling are not ascending dimensions");
        }
        SumAxis axis;
        axis.dimension = static_cast<int>(dimension);
        const std::int64_t size = input_.sizes[static_cast<std::size_t>(dimension)];
        const std::int64_t count = output_.sizes[static_cast<std::size_t>(dimension)];
        for (std::int64_t o = 0; o < count; ++o) {
            const std::int64_t own = results < parameters.counts.size() ? parameters.counts[results++] : -1;
            const std::size_t left = std::min(parameters.indices.size(), parameters.weights.size()) - terms;
            if (own < 0 || static_cast<std::size_t>(own) > left) {
                throw std::invalid_argument("a gradient of resampling needs an index and a weight for each term");
            }
            for (std::int64_t t = 0; t < own; ++t, ++terms) {
                const std::int64_t index = parameters.indices[terms];
                if (index < 0 || index >= size) {
                    throw std::invalid_argument("an index of resampling is beyond the tensor");
                }
                axis.indices.push_back(static_cast<std::int32_t>(index));
                axis.weights.push_back(parameters.weights[terms]);
            }
            axis.firsts.push_back(static_cast<std::int64_t>(axis.indices.size()));
        }
        axes_.push_back(std::move(axis));
    }

    std::size_t line_bytes() const {
        const std::int64_t longest = std::max(reader_.width(), out_width_) + most_lanes;
        return align_to_line(static_cast<std::size_t>(longest) * sizeof(float));
    }

    // Lines of the scratch memory: 0 a packed row of the input, 1 the results, 2 the row that they are sums of, 3 … a
    // row for each axis.
    void run_row(const Tensor& x, const Target& target, const Sizes& place, std::byte* scratch) const {
        const auto line = [&](std::size_t number) { return reinterpret_cast<float*>(scratch + number * line_bytes()); };
        std::byte* const rest = scratch + line_bytes() * (axes_.size() + 4);
        const float* results = sum(x, place, row_at(x, place, axes_), axes_.size(), line(2), scratch);
        if (!along_row_.empty()) {
            float* const row = line(2);
            if (results != row) {
                std::copy_n(results, reader_.width(), row);  // beyond a row of the tensor nothing can be read
            }
            row[reader_.width()] = 0;
            const bool in_place = epilogue_.empty() && target.takes_sums(DataType::float32);
            float* const out = in_place ? reinterpret_cast<float*>(target.out.row_at(place, 0)) : line(1);
            along_row_.add_up(kernels_, row, out, out_width_);
            results = out;
        }
        target.store(results, place, 0, 0, out_width_, rest);
    }

    // The row after the first `count` axes; it may be in the tensor, else it is in `out`.
    const float* sum(const Tensor& x, const Sizes& place, const std::byte* from, std::size_t count, float* out,
                     std::byte* scratch) const {
        if (count == 0) {
            return reader_.load(x, from, out, scratch);
        }
        const SumAxis& axis = axes_[count - 1];
        const auto dimension = static_cast<std::size_t>(axis.dimension);
        const auto at = static_cast<std::size_t>(place[dimension]);
        float* const line = reinterpret_cast<float*>(scratch + (count + 2) * line_bytes());
        std::fill_n(out, reader_.width(), 0.0f);
        for (auto term = static_cast<std::size_t>(axis.firsts[at]);
             term < static_cast<std::size_t>(axis.firsts[at + 1]); ++term) {
            const std::byte* const slice = from + axis.indices[term] * x.strides[dimension];
            kernels_.add(out, sum(x, place, slice, count - 1, line, scratch), axis.weights[term], reader_.width());
        }
        return out;
    }

    View input_;
    View output_;
    Epilogue epilogue_;
    const ResamplingKernels& kernels_;
    FloatRows reader_;
    std::vector<SumAxis> axes_;  // except that along the rows
    RowSums along_row_;
    double terms_ = 1;  // of a result along an axis, on average
    std::int64_t out_width_ = 0;
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const ResamplingGradientParameters& parameters) {
    return std::make_unique<ResamplingGradientStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
