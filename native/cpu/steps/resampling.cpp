#include "cpu/steps/resampling.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "cpu/kernels/level.h"
#include "cpu/kernels/resampling.h"
#include "cpu/runtime/cache_line.h"
#include "cpu/steps/float_rows.h"

namespace dmlgraph::cpu {
namespace {

// The taps of the results along an axis.
struct Axis {
    int dimension = 0;
    std::int64_t taps = 1;
    std::int64_t step = 0;  // from a tap's numbers to the next one's
    std::vector<std::int32_t> indices;
    std::vector<float> weights;
};

std::int64_t whole_vectors(std::int64_t count) { return (count + most_lanes - 1) / most_lanes * most_lanes; }

class ResamplingStep final : public Step {
public:
    ResamplingStep(const StepTensors& tensors, const ResamplingParameters& parameters)
        : input_(tensors.inputs.at(0)),
          output_(tensors.outputs.at(0)),
          epilogue_(parameters.epilogue, output_.type, 1),
          kernels_(chosen_level().resampling),
          reader_(input_),
          width_(reader_.width()),
          out_width_(output_.sizes[static_cast<std::size_t>(input_.rank - 1)]) {
        if (output_.rank != input_.rank || parameters.axes.size() != parameters.taps.size()) {
            throw std::invalid_argument("resampled tensors have the same number of dimensions");
        }
        std::size_t used = 0;
        for (std::size_t i = 0; i < parameters.axes.size(); ++i) {
            add_axis(parameters, i, used);
        }
        const auto is_of_plane = [&](const Axis& axis) { return axis.taps == 1 && axis.dimension >= input_.rank - 2; };
        const auto leaves_out = [](std::int32_t index, std::int32_t next) {
            return next != index && next != index + 1;
        };
        repeats_planes_ = input_.type == DataType::float32 && epilogue_.empty() && last_axis() != nullptr &&
                          std::ranges::all_of(axes_, is_of_plane) &&
                          std::ranges::adjacent_find(last_axis()->indices, leaves_out) == last_axis()->indices.end();
        if (used != parameters.indices.size() || used != parameters.weights.size()) {
            throw std::invalid_argument("resampling needs an index and a weight for each tap of a result");
        }
    }

    void run(RunContext& context) const override {
        if (output_.buffer == no_buffer) {
            return;
        }
        const Tensor x = context.tensor(input_), out = context.tensor(output_);
        Target target;
        target.epilogue = &epilogue_;
        target.out = rows_of(out);
        const bool lie_side_by_side =
            target.takes_sums(DataType::float32) && x.strides[input_.rank - 1] == std::int64_t{sizeof(float)};
        if (repeats_planes_ && lie_side_by_side) {
            return run_planes(context, x, out);
        }
        each_row(context, output_, cost(),
                 [&](const Sizes& place, std::byte* scratch) { run_row(x, target, place, scratch); });
    }

    double cost() const override {
        double each = 1;
        for (const Axis& axis : axes_) {
            each *= static_cast<double>(axis.taps);
        }
        return static_cast<double>(output_.element_count()) * sizeof(float) * (1 + each);
    }
    std::size_t scratch_bytes() const override {
        return line_bytes() * (2 * axes_.size() + 3) + Target::line_scratch(0, epilogue_, out_width_);
    }
    void visit(const Visitor& visitor) override {
        visitor(input_, false);
        visitor(output_, true);
    }

private:
    void add_axis(const ResamplingParameters& parameters, std::size_t i, std::size_t& used) {
        const std::int64_t dimension = parameters.axes[i];
        if (dimension < 0 || dimension >= input_.rank || (i > 0 && dimension <= parameters.axes[i - 1]) ||
            parameters.taps[i] < 1) {
            throw std::invalid_argument("the axes of resampling are not ascending dimensions");
        }
        Axis axis;
        axis.dimension = static_cast<int>(dimension);
        axis.taps = parameters.taps[i];
        const std::int64_t size = input_.sizes[static_cast<std::size_t>(dimension)];
        const std::int64_t count = output_.sizes[static_cast<std::size_t>(dimension)];
        const std::size_t numbers = static_cast<std::size_t>(axis.taps * count);
        if (parameters.indices.size() - used < numbers || parameters.weights.size() - used < numbers) {
            throw std::invalid_argument("resampling needs an index and a weight for each tap of a result");
        }
        axis.step = whole_vectors(count);
        axis.indices.resize(static_cast<std::size_t>(axis.taps * axis.step));
        axis.weights.resize(axis.indices.size());
        for (std::int64_t t = 0; t < axis.taps; ++t) {
            for (std::int64_t o = 0; o < axis.step; ++o) {
                const std::size_t from = used + static_cast<std::size_t>(t * count + std::min(o, count - 1));
                const std::int64_t index = parameters.indices[from];
                if (index < 0 || index >= size) {
                    throw std::invalid_argument("an index of resampling is beyond the tensor");
                }
                axis.indices[static_cast<std::size_t>(t * axis.step + o)] = static_cast<std::int32_t>(index);
                axis.weights[static_cast<std::size_t>(t * axis.step + o)] = parameters.weights[from];
            }
        }
        used += numbers;
        axes_.push_back(std::move(axis));
    }

    std::size_t line_bytes() const {
        const std::int64_t longest = std::max(width_, out_width_) + most_lanes;
        return align_to_line(static_cast<std::size_t>(longest) * sizeof(float));
    }

    // The axis along the rows, or null.
    const Axis* last_axis() const {
        return !axes_.empty() && axes_.back().dimension == input_.rank - 1 ? &axes_.back() : nullptr;
    }

    void run_row(const Tensor& x, const Target& target, const Sizes& place, std::byte* scratch) const {
        const Axis* const along = last_axis();
        const std::byte* const first = row_at(x, place, axes_);
        const auto line = [&](std::size_t number) { return reinterpret_cast<float*>(scratch + number * line_bytes()); };
        const std::size_t outer = axes_.size() - (along == nullptr ? 0 : 1);
        float* const row = line(0);
        const float* results = mean(x, place, first, outer, row, scratch);
        std::byte* const rest = scratch + line_bytes() * (2 * axes_.size() + 3);
        if (along != nullptr) {
            if (results != row) {
                std::copy_n(results, width_, row);  // beyond a row of the tensor nothing can be read
            }
            const bool in_place = epilogue_.empty() && target.takes_sums(DataType::float32);
            float* const out = in_place ? reinterpret_cast<float*>(target.out.row_at(place, 0)) : line(1);
            kernels_.pick(
                {out, row, along->indices.data(), along->weights.data(), along->step, along->taps, out_width_});
            results = out;
        }
        target.store(results, place, 0, 0, out_width_, rest);
    }

    // Nearest elements of float32 along the last two dimensions, plane by plane: those of a row are repeated, and rows
    // are copied.
    void run_planes(RunContext& context, const Tensor& x, const Tensor& out) const {
        const int outer = std::max(input_.rank - 2, 0);
        std::int64_t planes = 1;
        for (int d = 0; d < outer; ++d) {
            planes *= output_.sizes[static_cast<std::size_t>(d)];
        }
        const std::byte* last_element = x.data;
        for (std::size_t d = 0; d < static_cast<std::size_t>(x.rank); ++d) {
            last_element += (x.sizes[d] - 1) * std::max(x.strides[d], std::int64_t{0});
        }
        context.parallel(planes, cost(), [&](int worker, Chunks& chunks) {
            auto* const row = reinterpret_cast<float*>(context.scratch(worker));
            for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
                for (std::int64_t plane = first; plane < last; ++plane) {
                    const std::byte* from = x.data;
                    std::byte* to = out.data;
                    const Sizes place = place_in(output_.sizes, outer, plane);
                    for (std::size_t d = 0; d < static_cast<std::size_t>(outer); ++d) {
                        from += place[d] * x.strides[d];
                        to += place[d] * out.strides[d];
                    }
                    run_plane({from, last_element, row}, to, out.rank > 1 ? x.strides[x.rank - 2] : 0,
                              out.rank > 1 ? out.strides[out.rank - 2] : 0);
                }
            }
        });
    }

    // A plane, the last element of its tensor, and memory for a row.
    struct RepeatedPlane {
        const std::byte* first;
        const std::byte* last;
        float* row;
    };

    void run_plane(const RepeatedPlane& from, std::byte* to, std::int64_t in_step, std::int64_t out_step) const {
        const std::int64_t height = input_.rank > 1 ? output_.sizes[static_cast<std::size_t>(input_.rank - 2)] : 1;
        const std::int64_t reach = (width_ + most_lanes - 2) * std::int64_t{sizeof(float)};  // of what the kernel reads
        const Axis& along = axes_.back();
        std::int64_t before = -1;
        for (std::int64_t y = 0; y < height; ++y, to += out_step) {
            const std::int64_t index = axes_.size() > 1 ? axes_.front().indices[static_cast<std::size_t>(y)] : y;
            if (index == before) {
                std::memcpy(to, to - out_step, static_cast<std::size_t>(out_width_) * sizeof(float));
                continue;
            }
            before = index;
            const std::byte* const in = from.first + index * in_step;
            const auto* row = reinterpret_cast<const float*>(in);
            if (from.last - in < reach) {
                std::memcpy(from.row, in, static_cast<std::size_t>(width_) * sizeof(float));
                row = from.row;
            }
            kernels_.repeat({reinterpret_cast<float*>(to), row, along.indices.data(), out_width_});
        }
    }

    // The row after the first `count` axes; it may be in the tensor, else it is in `out`.
    const float* mean(const Tensor& x, const Sizes& place, const std::byte* from, std::size_t count, float* out,
                      std::byte* scratch) const {
        if (count == 0) {
            return reader_.load(x, from, out, scratch + 2 * line_bytes());
        }
        const Axis& axis = axes_[count - 1];
        const auto dimension = static_cast<std::size_t>(axis.dimension);
        const std::int64_t at = place[dimension], stride = x.strides[dimension];
        const auto tap = [&](std::int64_t t, float* to) {
            const std::int64_t index = axis.indices[static_cast<std::size_t>(t * axis.step + at)];
            return mean(x, place, from + index * stride, count - 1, to, scratch);
        };
        if (axis.taps == 1) {
            return tap(0, out);
        }
        const auto line = [&](std::size_t number) { return reinterpret_cast<float*>(scratch + number * line_bytes()); };
        const float* const first = tap(0, line(2 * count + 1));
        const float* total = first;
        for (std::int64_t t = 1; t < axis.taps; ++t) {
            const float* const next = tap(t, line(2 * count + 2));
            kernels_.blend(out, total, first, next, axis.weights[static_cast<std::size_t>(t * axis.step + at)], width_);
            total = out;
        }
        return out;
    }

    View input_;
    View output_;
    Epilogue epilogue_;
    const ResamplingKernels& kernels_;
    FloatRows reader_;
    std::vector<Axis> axes_;
    std::int64_t width_;  // elements of a row of the input
    std::int64_t out_width_;
    bool repeats_planes_ =
        false;  // whether results are elements of the last two dimensions, and none of a row is left out
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const ResamplingParameters& parameters) {
    return std::make_unique<ResamplingStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
