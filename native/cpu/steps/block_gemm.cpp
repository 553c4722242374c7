#include "cpu/steps/block_gemm.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "cpu/products/block_weights.h"
#include "cpu/steps/gemm_tensors.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::size_t weights_port = 1;
constexpr std::size_t tensors_behind = 2;

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
    return result;
}

// {rows, columns, step from row to row, from column to column} of blocks; lines are columns, unless the matrix is transposed.
BlockNumbers blocks_of(const std::vector<std::int64_t>& given, bool transposed) {
    const std::size_t line = transposed ? 0 : 1;
    return {given.at(line), given.at(2 + line), given.at(1 - line), given.at(3 - line)};
}

class BlockGemmStep final : public Step {
public:
    BlockGemmStep(const StepTensors& tensors, const BlockGemmParameters& p)
        : tensors_(as_floats(tensors, p), {p.transposes_a, p.transposes_b, p.epilogue}),
          weights_(tensors.inputs[weights_port]),
          scales_(tensors.inputs[tensors.inputs.size() - 2]),
          zeros_(tensors.inputs.back()) {
        if (tensors_.sizes.count() != 1 || scales_.type != DataType::float32) {
            throw std::invalid_argument("weights in blocks are multiplied by one matrix, and have scales in float32");
        }
        numbers_.weights = numbers_.zeros = {nullptr, p.has_four_bits, p.is_signed};
        numbers_.line = p.transposes_b ? p.sizes.at(1) : 1;
        numbers_.depth = p.transposes_b ? 1 : p.sizes.at(1);
        numbers_.scale = blocks_of(p.scale, p.transposes_b);
        numbers_.zero = blocks_of(p.zero_point, p.transposes_b);
    }

    void run(RunContext& context) const override {
        if (tensors_.output.buffer == no_buffer) {
            return;
        }
        BlockWeights::Tensors numbers = numbers_;
        numbers.weights.data = context.data(weights_);
        numbers.scales = reinterpret_cast<const float*>(context.data(scales_));
        numbers.zeros.data = zeros_.buffer == no_buffer ? nullptr : context.data(zeros_);
        const BlockWeights weights(numbers);
        const std::size_t side = tensors_.port_of(0) == weights_port ? 0 : 1;
        const MatrixPanels others = tensors_.matrices(context, 1 - side);
        std::array<Side, GemmTensors::sides> sides;
        sides[side].source = &weights;
        sides[side].lines = weights.lies_along() ? &weights : nullptr;
        sides[side].is_wide = !weights.lies_along();
        sides[1 - side].source = sides[1 - side].matrix = &others;
        tensors_.multiply(context, sides[0], sides[1], false, nullptr);
    }

    Kind kind() const override { return Kind::native; }
    double cost() const override { return tensors_.cost(); }
    std::size_t scratch_bytes() const override { return tensors_.scratch_bytes(); }
    void visit(const Visitor& visitor) override {
        tensors_.visit(visitor);
        for (View* const each : {&weights_, &scales_, &zeros_}) {
            visitor(*each, false);
        }
    }

private:
    GemmTensors tensors_;
    View weights_;
    View scales_;
    View zeros_;
    BlockWeights::Tensors numbers_;  // without memory
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const BlockGemmParameters& parameters) {
    return std::make_unique<BlockGemmStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
