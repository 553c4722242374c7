#include "cpu/steps/block_gemm.h"

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <tuple>

#include "cpu/products/block_weights.h"
#include "cpu/products/nibbles.h"
#include "cpu/runtime/packing_step.h"
#include "cpu/steps/gemm_tensors.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::size_t weights_port = 1;
constexpr std::size_t tensors_behind = 3;

// Those of a product of floats, in which the weights have the sizes of a matrix.
StepTensors as_floats(const StepTensors& tensors, const BlockGemmParameters& parameters) {
    StepTensors result = tensors;
    result.inputs.resize(tensors.inputs.size() - tensors_behind);
    View& weights = result.inputs.at(weights_port);
    weights.buffer = no_buffer;  // their bytes are read through a view of their own
    weights.type = DataType::float32;
    weights.rank = tensors.inputs.at(0).rank;
    weights.sizes.fill(1);
    weights.strides.fill(0);
    std::copy(parameters.sizes.begin(), parameters.sizes.end(), weights.sizes.begin() + weights.rank - 2);
    if (parameters.has_integers) {
        View& rows = result.inputs.front();
        rows.buffer = no_buffer;  // as the weights
        rows.type = DataType::float32;
        std::ranges::transform(rows.strides, rows.strides.begin(),
                               [](std::int64_t stride) { return stride * std::int64_t{sizeof(float)}; });
    }
    return result;
}

// {rows, columns, step from row to row, from column to column} of blocks; lines are columns, unless the matrix is
// transposed.
BlockNumbers blocks_of(const std::vector<std::int64_t>& given, bool transposed) {
    const std::size_t line = transposed ? 0 : 1;
    return {given.at(line), given.at(2 + line), given.at(1 - line), given.at(3 - line)};
}

// Weights of 4 bits that are known before all runs are packed; others are read where they are, or packed in each run
// for rows of integers.
class BlockGemmStep final : public PackingStep {
public:
    BlockGemmStep(const StepTensors& tensors, const BlockGemmParameters& p)
        : tensors_(as_floats(tensors, p), {p.transposes_a, p.transposes_b, p.epilogue}),
          weights_(tensors.inputs[weights_port]),
          scales_(tensors.inputs[tensors.inputs.size() - 2]),
          zeros_(tensors.inputs.back()) {
        if (tensors_.sizes.count() != 1 || scales_.type != DataType::float32) {
            throw std::invalid_argument("weights in blocks are multiplied by one matrix, and have scales in float32");
        }
        if (p.has_integers) {
            rows_ = tensors.inputs.front();
            row_scales_ = tensors.inputs[tensors.inputs.size() - 3];
        }
        numbers_.weights = numbers_.zeros = {nullptr, p.has_four_bits, p.is_signed};
        numbers_.line = p.transposes_b ? p.sizes.at(1) : 1;
        numbers_.depth = p.transposes_b ? 1 : p.sizes.at(1);
        numbers_.scale = blocks_of(p.scale, p.transposes_b);
        numbers_.zero = blocks_of(p.zero_point, p.transposes_b);
        if (p.has_integers &&
            (rows_.type != DataType::int8 || row_scales_.type != DataType::float32 || p.transposes_a || !packs())) {
            throw std::invalid_argument("rows of 8-bit integers meet weights of 4 bits, in blocks of whole words");
        }
    }

    bool keeps(BufferId input) const override {
        const auto is_it = [&](const View* view) { return view->buffer == input; };
        return own(0) != nullptr && std::ranges::count_if(packed_views(), is_it) == 1 && !tensors_.inputs.reads(input);
    }

    void unpack(BufferId input, const RunContext& to) const override {
        const auto& packed = static_cast<const Nibbles&>(*own(0));
        if (input == weights_.buffer) {
            packed.unpack_weights(numbers_, to.data(weights_));
        } else if (input == scales_.buffer) {
            packed.unpack_scales(numbers_, reinterpret_cast<float*>(to.data(scales_)));
        } else {
            packed.unpack_zeros(numbers_, to.data(zeros_));
        }
    }

    void run(RunContext& context) const override {
        if (tensors_.output.buffer == no_buffer) {
            return;
        }
        if (has_integers()) {
            return run_integers(context);
        }
        const std::size_t side = tensors_.port_of(0) == weights_port ? 0 : 1;
        const MatrixPanels others = tensors_.matrices(context, 1 - side);
        const auto* const packed = static_cast<const Nibbles*>(weights(context, 0));
        if (packed != nullptr && tensors_.sizes.m <= most_rows_of_nibbles) {
            return run_nibbles(context, tensors_.sizes, others, *packed, tensors_.target(context), *tensors_.kernels);
        }
        std::array<Side, GemmTensors::sides> sides;
        sides[1 - side].source = sides[1 - side].matrix = &others;
        if (packed != nullptr) {
            sides[side].source = packed;
            return tensors_.multiply(context, sides[0], sides[1], false, nullptr);
        }
        const BlockWeights found(numbers(context));
        sides[side].source = &found;
        sides[side].lines = found.lies_along() ? &found : nullptr;
        sides[side].is_wide = !found.lies_along();
        tensors_.multiply(context, sides[0], sides[1], false, nullptr);
    }

    double cost() const override { return tensors_.cost(); }
    std::size_t scratch_bytes() const override {
        return std::max(tensors_.scratch_bytes(),
                        nibble_scratch(tensors_.sizes.k, tensors_.inputs.size() - first_operand, tensors_.epilogue));
    }
    void visit(const Visitor& visitor) override {
        tensors_.visit(visitor);
        for (View* const each : {&weights_, &scales_, &zeros_, &rows_, &row_scales_}) {
            visitor(*each, false);
        }
    }

private:
    bool has_integers() const { return row_scales_.buffer != no_buffer; }

    // Whether weights that are known are packed.
    bool packs() const {
        return tensors_.port_of(1) == weights_port && tensors_.sizes.n >= nibble_lines &&
               Nibbles::fit(numbers_, tensors_.sizes.k);
    }

    void run_integers(RunContext& context) const {
        const Tensor rows = context.tensor(rows_), scales = context.tensor(row_scales_);
        const std::int64_t blocks = quotient_up(tensors_.sizes.k, numbers_.scale.depth_block);
        const ByteRows bytes{reinterpret_cast<const std::int8_t*>(rows.data), tensors_.sizes.k,
                             reinterpret_cast<const float*>(scales.data), blocks};
        const auto run = [&](const Nibbles& packed) {
            run_nibbles(context, tensors_.sizes, bytes, packed, tensors_.target(context), *tensors_.kernels);
        };
        const auto* const packed = static_cast<const Nibbles*>(weights(context, 0));
        packed != nullptr ? run(*packed) : run(Nibbles(numbers(context), tensors_.sizes.n, tensors_.sizes.k));
    }

    std::size_t packed_count() const override { return 1; }

    std::shared_ptr<const Weights> pack(const RunContext& fixed, std::size_t) const override {
        const bool known = std::ranges::all_of(
            packed_views(), [&](const View* each) { return each->buffer == no_buffer || fixed.has(*each); });
        if (!known || !packs()) {
            return nullptr;
        }
        const BlockWeights::Tensors from = numbers(fixed);
        const std::int64_t lines = tensors_.sizes.n, depth = tensors_.sizes.k;
        return fixed.made<Nibbles>(std::tuple(from, lines, depth), [&] { return Nibbles(from, lines, depth); });
    }

    std::array<const View*, 3> packed_views() const { return {&weights_, &scales_, &zeros_}; }

    BlockWeights::Tensors numbers(const RunContext& context) const {
        BlockWeights::Tensors result = numbers_;
        result.weights.data = context.data(weights_);
        result.scales = reinterpret_cast<const float*>(context.data(scales_));
        result.zeros.data = zeros_.buffer == no_buffer ? nullptr : context.data(zeros_);
        return result;
    }

    GemmTensors tensors_;
    View weights_;
    View scales_;
    View zeros_;
    View rows_;                      // of integers, …
    View row_scales_;                // … and their scales; without buffers where rows are floats
    BlockWeights::Tensors numbers_;  // without memory
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const BlockGemmParameters& parameters) {
    return std::make_unique<BlockGemmStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
