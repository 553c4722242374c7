#include "cpu/steps/pooling.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>

#include "cpu/kernels/level.h"
#include "cpu/products/panels.h"
#include "cpu/quotient.h"
#include "cpu/runtime/cache_line.h"
#include "cpu/tensor/strided.h"
#include "cpu/windows/pooled_blocks.h"
#include "cpu/windows/pooling.h"

namespace dmlgraph::cpu {
namespace {

constexpr int most_batch = 2;
constexpr std::int64_t planes_at_once = 64;  // of a single window each

// The result of a window without elements differs from that of a window with the least ones.
bool has_own_empty(const Pooling& pooling) { return pooling.start != pooling.empty; }

class PoolingStep final : public Step {
public:
    PoolingStep(const StepTensors& tensors, const PoolingParameters& parameters)
        : input_(tensors.inputs.at(0)),
          output_(tensors.outputs.at(0)),
          where_(tensors.outputs.size() > 1 ? tensors.outputs[1] : View{}),
          pooling_(describe(tensors, parameters)),
          bands_(pooling_, where_.buffer != no_buffer, false, goes_by_blocks(parameters)),
          epilogue_(parameters.epilogue, result_type(parameters), input_count(tensors),
                    is_quantized() ? DataType::float64 : DataType::float32) {
        const bool converts = pooling_.is_float() || is_quantized();
        if (parameters.epilogue.empty() == converts && pooling_.type != DataType::float32) {
            throw std::invalid_argument(
                "instructions convert sums to what is stored, and follow no maxima of integers");
        }
        for (std::size_t i = first_operand; i < input_count(tensors); ++i) {
            operands_.push_back(tensors.inputs[i]);
        }
        if (is_quantized()) {
            scale_ = tensors.inputs[1];
            zero_point_ = tensors.inputs.back();
            if (scale_.type != DataType::float32 ||
                (zero_point_.buffer != no_buffer && zero_point_.type != pooling_.type)) {
                throw std::invalid_argument("a scale is float32, and a zero point of its tensor's type");
            }
        }
        is_whole_ = where_.buffer == no_buffer && pooling_.windows.count() == 1;
        if (goes_by_blocks(parameters)) {
            blocks_.emplace(pooling_, chosen_level());
        }
        if (has_own_empty(pooling_)) {
            for (std::size_t d = 0; d < most_spatial; ++d) {
                find_empty(d);
            }
        }
    }

    void run(RunContext& context) const override {
        if (output_.buffer == no_buffer && where_.buffer == no_buffer) {
            return;
        }
        const Planes planes = planes_in(context.tensor(input_));
        if (blocks_ && blocks_->reads(planes)) {
            return run_blocks(context, planes);
        }
        if (is_whole_) {
            return run_whole(context, planes);
        }
        const std::int64_t count = batch_[0] * batch_[1] * bands_.count();
        const bool in_place = may_compute_in_output(context);
        const std::array<Target, 2> targets{target(context, batch_rank_), where_target(context)};
        context.parallel(count, cost(), [&](int worker, Chunks& chunks) {
            for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
                for (std::int64_t i = first; i < last; ++i) {
                    run_band(context, i, planes, targets, in_place, Scratch(context.scratch(worker)));
                }
            }
        });
    }

    double cost() const override {
        const double taps =
            static_cast<double>(pooling_.windows.taps[0] * pooling_.windows.taps[1] + pooling_.windows.taps[2]);
        return static_cast<double>(input_.bytes()) +
               static_cast<double>(output_.element_count() * pooling_.item) * taps;
    }
    std::size_t scratch_bytes() const override {
        const auto line = [&](std::int64_t width) {
            return align_to_line(static_cast<std::size_t>(width) * widest_item) +
                   Target::line_scratch(operands_.size(), epilogue_, width);
        };
        const std::size_t bytes = is_whole_ ? align_to_line(whole_scratch()) + line(planes_at_once)
                                            : bands_.scratch_bytes() + line(bands_.most());
        return blocks_ ? std::max(bytes, scratch_of<BlockMemory>(*this)) : bytes;
    }
    void visit(const Visitor& visitor) override {
        visitor(input_, false);
        for (View& view : operands_) {
            visitor(view, false);
        }
        for (View* const view : {&scale_, &zero_point_}) {
            if (view->buffer != no_buffer) {
                visitor(*view, false);
            }
        }
        for (View* const view : {&output_, &where_}) {
            if (view->buffer != no_buffer) {
                visitor(*view, true);
            }
        }
    }

private:
    bool is_quantized() const { return pooling_.numbers != nullptr; }
    // Whether some channels are computed at a time, if their elements lie as that needs. Bands then have the same order
    // of sums.
    bool goes_by_blocks(const PoolingParameters& parameters) const {
        const bool sums_whole =
            pooling_.windows.count() == 1 && !parameters.is_maximum;  // in which lanes have work anyway
        return where_.buffer == no_buffer && !sums_whole && batch_rank_ == most_batch &&
               PooledBlocks::pays(pooling_, batch_[1], chosen_level());
    }
    // Without the zero point.
    std::size_t input_count(const StepTensors& tensors) const {
        return tensors.inputs.size() - (is_quantized() ? 1 : 0);
    }

    DataType result_type(const PoolingParameters& parameters) const {
        if (parameters.epilogue.empty()) {
            return DataType::float32;
        }
        return output_.buffer == no_buffer ? parameters.epilogue.back().result : output_.type;
    }

    Pooling describe(const StepTensors& tensors, const PoolingParameters& parameters) {
        const View& x = tensors.inputs.at(0);
        const View& shape = tensors.outputs.at(0).rank > 0 ? tensors.outputs[0] : tensors.outputs.at(1);
        const int spatial = static_cast<int>(parameters.taps.size());
        batch_rank_ = x.rank - spatial;
        if (spatial < 1 || spatial > most_spatial || batch_rank_ < 0 || batch_rank_ > most_batch ||
            shape.rank != x.rank) {
            throw std::invalid_argument("a pooling has one to three spatial dimensions, after at most two others");
        }
        for (const auto* const each : {&parameters.strides, &parameters.dilations, &parameters.padding}) {
            if (each->size() != parameters.taps.size()) {
                throw std::invalid_argument("a pooling needs one number for each spatial dimension");
            }
        }
        std::copy_n(x.sizes.begin(), batch_rank_, batch_.begin() + most_batch - batch_rank_);
        Pooling result(x.type, parameters.is_maximum, parameters.from_infinity,
                       static_cast<std::uint32_t>(parameters.power));
        // Trailing dimensions whose windows are their elements are one row.
        const auto is_single = [&](int d) {
            const auto at = static_cast<std::size_t>(d - batch_rank_);
            return parameters.taps[at] == 1 && parameters.strides[at] == 1 && parameters.padding[at] == 0 &&
                   shape.sizes[d] == x.sizes[d];
        };
        row_dimension_ = x.rank - 1;
        while (row_dimension_ > batch_rank_ && is_single(row_dimension_) && is_single(row_dimension_ - 1)) {
            --row_dimension_;
        }
        for (int d = batch_rank_; d < x.rank; ++d) {
            const auto at = static_cast<std::size_t>(most_spatial - 1 - std::max(row_dimension_ - d, 0));
            const auto from = static_cast<std::size_t>(d - batch_rank_);
            result.sizes[at] *= x.sizes[d];
            result.windows.counts[at] *= shape.sizes[d];
            result.windows.taps[at] = parameters.taps[from];
            result.windows.strides[at] = parameters.strides[from];
            result.windows.dilations[at] = parameters.dilations[from];
            result.windows.padding[at] = parameters.padding[from];
        }
        return result;
    }

    // Marks the windows that have no element along a dimension.
    void find_empty(std::size_t d) {
        const Windows& windows = pooling_.windows;
        for (std::int64_t o = 0; o < windows.counts[d]; ++o) {
            bool inside = false;
            for (std::int64_t t = 0; t < windows.taps[d] && !inside; ++t) {
                const std::int64_t at = o * windows.strides[d] + t * windows.dilations[d] - windows.padding[d];
                inside = at >= 0 && at < pooling_.sizes[d];
            }
            empty_[d].push_back(!inside);
        }
    }

    Planes planes_in(const Tensor& x) const {
        Planes planes;
        planes.data = x.data;
        for (int d = 0; d < batch_rank_; ++d) {
            planes.batch[static_cast<std::size_t>(most_batch - batch_rank_ + d)] = x.strides[d];
        }
        for (int d = batch_rank_; d < row_dimension_; ++d) {
            planes.strides[static_cast<std::size_t>(most_spatial - 1 - (row_dimension_ - d))] = x.strides[d];
        }
        planes.row.type = x.type;
        planes.row.rank = x.rank - row_dimension_;
        std::copy_n(x.sizes.begin() + row_dimension_, planes.row.rank, planes.row.sizes.begin());
        std::copy_n(x.strides.begin() + row_dimension_, planes.row.rank, planes.row.strides.begin());
        planes.row.join_dimensions();
        planes.strides[most_spatial - 1] = planes.row.strides[0];
        return planes;
    }

    // Plane `inner` of place `outer` of the batch.
    Plane plane_at(const RunContext& context, const Planes& planes, std::int64_t outer, std::int64_t inner) const {
        Plane plane{planes.data + outer * planes.batch[0] + inner * planes.batch[1]};
        if (is_quantized()) {
            plane.scale = *reinterpret_cast<const float*>(of_channel(context.tensor(scale_), inner));
            if (zero_point_.buffer != no_buffer) {
                const std::byte* const zero = of_channel(context.tensor(zero_point_), inner);
                plane.zero_point =
                    static_cast<float>(pooling_.type == DataType::int8 ? *reinterpret_cast<const std::int8_t*>(zero)
                                                                       : *reinterpret_cast<const std::uint8_t*>(zero));
            }
        }
        return plane;
    }

    // The number of a channel, or of all channels.
    static const std::byte* of_channel(const Tensor& numbers, std::int64_t channel) {
        const bool varies = numbers.rank > 1 && numbers.sizes[1] > 1;
        return numbers.data + (varies ? channel * numbers.strides[1] : 0);
    }

    // A tensor of the output's sizes, whose first dimensions are a batch.
    static MatrixTensor matrix(const Tensor& tensor, int batch) {
        MatrixTensor result;
        result.data = tensor.data;
        result.type = tensor.type;
        std::copy_n(tensor.strides.begin(), batch, result.batch.begin());
        result.rank = tensor.rank - batch;
        std::copy_n(tensor.sizes.begin() + batch, result.rank, result.sizes.begin());
        std::copy_n(tensor.strides.begin() + batch, result.rank, result.strides.begin());
        result.join_dimensions();
        return result;
    }

    Target target(const RunContext& context, int batch) const {
        Target result;
        result.epilogue = &epilogue_;
        if (output_.buffer != no_buffer) {
            result.out = matrix(context.tensor(output_), batch);
        }
        for (const View& each : operands_) {
            result.operands.push_back(matrix(context.tensor(each), batch));
        }
        return result;
    }

    Target where_target(const RunContext& context) const {
        static const Epilogue none;
        Target result;
        result.epilogue = &none;
        if (where_.buffer != no_buffer) {
            result.out = matrix(context.tensor(where_), batch_rank_);
        }
        return result;
    }

    bool may_compute_in_output(const RunContext& context) const {
        return epilogue_.empty() && output_.buffer != no_buffer && bands_.is_tight() && where_.buffer == no_buffer &&
               !has_own_empty(pooling_) && matrix(context.tensor(output_), batch_rank_).is_packed();
    }

    void run_band(const RunContext& context, std::int64_t index, const Planes& planes,
                  const std::array<Target, 2>& targets, bool in_place, Scratch scratch) const {
        const Windows& windows = pooling_.windows;
        const BandPlace place = bands_.at(index % bands_.count());
        const std::int64_t plane = index / bands_.count(), outer = plane / batch_[1], inner = plane % batch_[1];
        Sizes batch{};
        (batch_rank_ == most_batch ? batch[0] : batch[most_batch]) = outer;
        (batch_rank_ == most_batch ? batch[1] : batch[0]) = inner;
        const std::int64_t left = (place.depth * windows.counts[1] + place.top) * windows.counts[2] + place.left;
        const MatrixTensor& out = targets[0].out;
        std::byte* const direct = in_place ? out.row_at(batch, 0) + left * pooling_.item : nullptr;
        const BandResult result =
            bands_.compute(place, planes, plane_at(context, planes, outer, inner), direct, scratch);
        if (result.values == direct) {
            return;
        }
        const auto pitch = bands_.pitch();
        auto* const values = const_cast<std::byte*>(result.values);  // the scratch memory
        if (has_own_empty(pooling_)) {
            set_empty(place, values);
        }
        std::byte* const packed = scratch.take<std::byte>(bands_.most() * std::int64_t{widest_item});
        std::byte* const rest = Target::take_line(scratch, operands_.size(), epilogue_, bands_.most());
        if (out.data != nullptr) {
            store(targets[0], batch, left, place, values, pooling_.item, rest);
        }
        if (targets[1].out.data != nullptr) {
            const auto first =
                static_cast<std::uint64_t>(plane * pooling_.sizes[0] * pooling_.sizes[1] * pooling_.sizes[2]);
            const bool is_wide = where_.type == DataType::uint64;
            for (std::int64_t r = 0; r < place.rows; ++r) {
                for (std::int64_t c = 0; c < place.columns; ++c) {
                    const std::uint32_t found = result.where[r * pitch + c];
                    const std::uint64_t number = found == no_index ? 0 : first + found;
                    if (is_wide) {
                        reinterpret_cast<std::uint64_t*>(packed)[r * place.columns + c] = number;
                    } else {
                        reinterpret_cast<std::uint32_t*>(packed)[r * place.columns + c] =
                            static_cast<std::uint32_t>(number);
                    }
                }
            }
            store_rows(targets[1], batch, left, place, packed, place.columns, static_cast<int>(item_size(where_.type)),
                       rest);
        }
    }

    void store(const Target& target, const Sizes& batch, std::int64_t left, const BandPlace& place,
               const std::byte* values, int item, std::byte* scratch) const {
        if (place.columns == bands_.pitch() && bands_.is_tight()) {  // the rows follow one another
            return target.store(values, batch, 0, left, place.rows * place.columns, scratch);
        }
        store_rows(target, batch, left, place, values, bands_.pitch(), item, scratch);
    }

    void store_rows(const Target& target, const Sizes& batch, std::int64_t left, const BandPlace& place,
                    const std::byte* values, std::int64_t pitch, int item, std::byte* scratch) const {
        for (std::int64_t r = 0; r < place.rows; ++r) {
            const std::int64_t at = left + r * pooling_.windows.counts[2];
            target.store(values + r * pitch * item, batch, 0, at, place.columns, scratch);
        }
    }

    void set_empty(const BandPlace& place, std::byte* values) const {
        const std::int64_t item = pooling_.item;
        for (std::int64_t r = 0; r < place.rows; ++r) {
            for (std::int64_t c = 0; c < place.columns; ++c) {
                if (empty_[0][static_cast<std::size_t>(place.depth)] ||
                    empty_[1][static_cast<std::size_t>(place.top + r)] ||
                    empty_[2][static_cast<std::size_t>(place.left + c)]) {
                    std::memcpy(values + (r * bands_.pitch() + c) * item, pooling_.empty.data(),
                                static_cast<std::size_t>(item));
                }
            }
        }
    }

    // The scratch memory of a worker that computes blocks.
    struct BlockMemory {
        std::byte* blocks;
        std::byte* results;
        std::byte* repeated;  // operands
        std::byte* rest;

        BlockMemory(Scratch& scratch, const PoolingStep& step) {
            const std::int64_t most = step.blocks_->channels_at_once() * step.pooling_.windows.count();
            const auto line = static_cast<std::int64_t>(align_to_line(static_cast<std::size_t>(most) * widest_item));
            blocks = scratch.take<std::byte>(static_cast<std::int64_t>(step.blocks_->scratch_bytes()));
            results = scratch.take<std::byte>(line);
            repeated = scratch.take<std::byte>(std::ssize(step.operands_) * line);
            rest = Target::take_line(scratch, step.operands_.size(), step.epilogue_, most);
        }
    };

    // Some channels at a time.
    void run_blocks(RunContext& context, const Planes& planes) const {
        const Target to = target(context, batch_rank_);
        const std::int64_t count = pooling_.windows.count(), at_once = blocks_->channels_at_once(),
                           parts = quotient_up(batch_[1], at_once);
        const auto item = static_cast<std::int64_t>(item_size(to.out.type));
        const bool in_place = may_compute_in_output(context) && to.out.batch[1] % item == 0;
        // Whether the results of neighbouring channels are one line, to which operands are repeated.
        const auto is_repeated = [](const MatrixTensor& each) { return each.batch[0] == 0 && each.batch[1] == 0; };
        const bool is_line =
            to.out.is_packed() && to.out.batch[1] == count * item && std::ranges::all_of(to.operands, is_repeated);
        context.parallel(batch_[0] * parts, cost(), [&](int worker, Chunks& chunks) {
            Scratch scratch(context.scratch(worker));
            const BlockMemory memory(scratch, *this);
            const Target lines = is_line ? with_repeated(to, at_once, count, memory) : to;
            blocks_->prepare(Scratch(memory.blocks));
            for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
                for (std::int64_t i = first; i < last; ++i) {
                    const std::int64_t outer = i / parts, inner = i % parts * at_once,
                                       channels = std::min(at_once, batch_[1] - inner);
                    const std::byte* const plane = planes.data + outer * planes.batch[0] + inner * planes.batch[1];
                    auto* const results =
                        reinterpret_cast<float*>(in_place ? to.out.row_at({outer, inner}, 0) : memory.results);
                    const std::int64_t step = in_place ? to.out.batch[1] / item : count;
                    blocks_->compute(planes, plane, static_cast<int>(channels), results, step, Scratch(memory.blocks));
                    for (std::int64_t c = 0; c < channels && !in_place; c += is_line ? channels : 1) {
                        lines.store(results + c * count, {outer, inner + c}, 0, 0, is_line ? channels * count : count,
                                    memory.rest);
                    }
                }
            }
        });
    }

    // The same target, whose operands are those of so many channels.
    static Target with_repeated(const Target& target, std::int64_t channels, std::int64_t count,
                                const BlockMemory& memory) {
        Target result = target;
        std::byte* to = memory.repeated;
        for (MatrixTensor& each : result.operands) {
            const auto item = static_cast<std::int64_t>(item_size(each.type));
            gather(to, each.data, each.rank, each.sizes, each.strides, 0, count, static_cast<int>(item));
            repeat_line(to + count * item, to, count * item, channels - 1);
            each.data = to;
            each.rank = 1;
            each.sizes[0] = channels * count;
            each.strides[0] = item;
            to += align_to_line(static_cast<std::size_t>(channels * count) * widest_item);
        }
        return result;
    }

    // Every plane has one window: the planes of a batch are a line of the output.
    void run_whole(RunContext& context, const Planes& planes) const {
        const Target to = target(context, std::max(batch_rank_ - 1, 0));
        const std::int64_t parts = (batch_[1] + planes_at_once - 1) / planes_at_once;
        context.parallel(batch_[0] * parts, cost(), [&](int worker, Chunks& chunks) {
            Scratch memory(context.scratch(worker));
            std::byte* const scratch = memory.take<std::byte>(static_cast<std::int64_t>(whole_scratch()));
            std::byte* const results = memory.take<std::byte>(planes_at_once * std::int64_t{widest_item});
            std::byte* const rest = Target::take_line(memory, operands_.size(), epilogue_, planes_at_once);
            for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
                for (std::int64_t i = first; i < last; ++i) {
                    const std::int64_t plane = i % parts * planes_at_once,
                                       count = std::min(planes_at_once, batch_[1] - plane);
                    std::array<Plane, planes_at_once> pooled;
                    for (std::int64_t c = 0; c < count; ++c) {
                        pooled[static_cast<std::size_t>(c)] = plane_at(context, planes, i / parts, plane + c);
                    }
                    pool_whole(pooling_, planes, std::span(pooled).first(static_cast<std::size_t>(count)), results,
                               scratch);
                    to.store(results, {i / parts}, 0, plane, count, rest);
                }
            }
        });
    }

    View input_;
    View output_;
    View where_;
    View scale_;
    View zero_point_;
    std::vector<View> operands_;  // of the epilogue
    int batch_rank_ = 0;
    int row_dimension_ = 0;  // of the input: from this one on a row
    std::array<std::int64_t, most_batch> batch_{1, 1};
    Pooling pooling_;
    Bands bands_;
    std::optional<PooledBlocks> blocks_;
    Epilogue epilogue_;
    bool is_whole_ = false;
    std::array<std::vector<bool>, most_spatial> empty_;  // windows without elements, if that makes a difference
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const PoolingParameters& parameters) {
    return std::make_unique<PoolingStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
