#include "cpu/steps/convolution.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>

#include "cpu/kernels/level.h"
#include "cpu/products/convolution.h"
#include "cpu/runtime/packing_step.h"
#include "cpu/steps/product_inputs.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::size_t filters_port = 1;
constexpr int outer_rank = 2;  // batch and channels come before the spatial dimensions

Spatial field_of(const std::vector<std::int64_t>& of, int rank, std::int64_t missing) {
    if (static_cast<int>(of.size()) != rank - outer_rank) {
        throw std::invalid_argument("a convolution needs one number for each spatial dimension");
    }
    Sizes sizes{};
    std::ranges::copy(of, sizes.begin() + outer_rank);
    return spatial(sizes, outer_rank, rank, missing);
}

// Throws std::invalid_argument for tensors of other types and ranks.
Convolution describe(const ProductInputs& inputs, const View& output, const Epilogue& epilogue,
                     const ConvolutionParameters& parameters) {
    const View &x = inputs[0], &filters = inputs[filters_port];
    const int rank = x.rank;
    if (rank <= outer_rank || rank > outer_rank + most_spatial || filters.rank != rank) {
        throw std::invalid_argument("a convolution has one to three spatial dimensions");
    }
    if (inputs.integers() && parameters.backward) {
        throw std::invalid_argument("a convolution of integers is a forward one");
    }
    const Level& level = chosen_level();
    Convolution convolution;
    convolution.batch = x.sizes[0];
    convolution.groups = parameters.groups;
    convolution.channels = x.sizes[1] / parameters.groups;
    convolution.outputs = parameters.backward ? filters.sizes[1] : filters.sizes[0] / parameters.groups;
    convolution.sizes = spatial(x.sizes, outer_rank, rank, 1);
    convolution.phase.windows = {.taps = spatial(filters.sizes, outer_rank, rank, 1),
                                 .strides = field_of(parameters.strides, rank, 1),
                                 .dilations = field_of(parameters.dilations, rank, 1),
                                 .padding = field_of(parameters.padding, rank, 0),
                                 .counts = spatial(output.sizes, outer_rank, rank, 1),
                                 .mirrored = parameters.mirrored};
    convolution.backward = parameters.backward;
    convolution.operands = inputs.size() - first_operand;
    convolution.epilogue = &epilogue;
    convolution.sums = inputs.sums();
    convolution.kernels = level.products;
    convolution.planes = &level.convolution;
    convolution.blocks = &level.channel_block;
    convolution.add_up = level.contributions.add_up;
    return convolution;
}

// Of floats or of integers. Each method packs the filters.
class ConvolutionStep final : public PackingStep {
public:
    ConvolutionStep(const StepTensors& tensors, const ConvolutionParameters& parameters)
        : inputs_(tensors),
          output_(tensors.outputs.at(0)),
          epilogue_(parameters.epilogue, output_.type, inputs_.size(), inputs_.sums()),
          convolution_(describe(inputs_, output_, epilogue_, parameters)),
          methods_(methods_of(convolution_)) {}

    bool keeps(BufferId input) const override {
        const bool keeps_filters = methods_.size() == 1 && methods_.front()->keeps() && own(0) != nullptr;
        return keeps_filters && inputs_.only_operand(input, filters_port);
    }

    void unpack(BufferId, const RunContext& to) const override { methods_.front()->unpack(*own(0), filters(to)); }

    void run(RunContext& context) const override {
        if (output_.buffer == no_buffer) {
            return;
        }
        const std::optional<ZeroPoints> input_zeros = zeros(context, 0), filter_zeros = zeros(context, filters_port);
        const Tensor input = grouped(context);
        ConvolutionRun part{input, filters(context), {}, nullptr, pointer(input_zeros), pointer(filter_zeros)};
        for (std::size_t i = 0; i < methods_.size(); ++i) {
            part.target = target(context, methods_[i]->phase());
            part.weights = weights(context, i);
            methods_[i]->run(context, part);
        }
    }

    double cost() const override {
        double cost = 0;
        std::ranges::for_each(methods_, [&](const auto& each) { cost += each->cost(); });
        return cost;
    }
    std::size_t scratch_bytes() const override {
        std::size_t most = 0;
        std::ranges::for_each(methods_, [&](const auto& each) { most = std::max(most, each->scratch_bytes()); });
        return most;
    }
    void visit(const Visitor& visitor) override {
        inputs_.visit(visitor);
        visitor(output_, true);
    }

private:
    std::size_t packed_count() const override { return methods_.size(); }

    std::shared_ptr<const Weights> pack(const RunContext& fixed, std::size_t index) const override {
        if (!inputs_.known(fixed, filters_port)) {
            return nullptr;
        }
        const std::optional<ZeroPoints> filter_zeros = zeros(fixed, filters_port);
        return methods_[index]->pack(fixed, filters(fixed), pointer(filter_zeros));
    }

    Tensor filters(const RunContext& context) const { return context.tensor(inputs_[filters_port]); }

    // Of integers.
    std::optional<ZeroPoints> zeros(const RunContext& context, std::size_t port) const {
        return inputs_.integers() ? std::optional(inputs_.zero_points(context, port)) : std::nullopt;
    }
    static const ZeroPoints* pointer(const std::optional<ZeroPoints>& zeros) { return zeros ? &*zeros : nullptr; }

    // The input {N, C, …} as {N, groups, C / groups, …}.
    Tensor grouped(const RunContext& context) const {
        const Tensor x = context.tensor(inputs_[0]);
        Tensor result = x;
        result.rank = static_cast<std::uint8_t>(x.rank + 1);
        std::copy_backward(x.sizes.begin() + 1, x.sizes.begin() + x.rank, result.sizes.begin() + x.rank + 1);
        std::copy_backward(x.strides.begin() + 1, x.strides.begin() + x.rank, result.strides.begin() + x.rank + 1);
        result.sizes[1] = convolution_.groups;
        result.sizes[outer_rank] = convolution_.channels;
        result.strides[1] = x.strides[1] * convolution_.channels;
        return result;
    }

    // What a phase writes, and what its epilogue reads.
    Target target(const RunContext& context, const Phase& phase) const {
        Target result{tensor(context, output_, phase), {}, &epilogue_, nullptr};
        for (std::size_t i = first_operand; i < inputs_.size(); ++i) {
            result.operands.push_back(tensor(context, inputs_[i], phase));
        }
        return result;
    }

    // The elements of a phase of a tensor of the output's sizes.
    MatrixTensor tensor(const RunContext& context, const View& view, const Phase& phase) const {
        const Tensor found = context.tensor(view);
        const Spatial strides = spatial(found.strides, outer_rank, found.rank, 0);
        MatrixTensor result;
        result.data = found.data;
        result.type = found.type;
        result.row = found.strides[1];
        result.batch = {found.strides[0], found.strides[1] * convolution_.outputs};
        result.rank = most_spatial;
        for (std::size_t d = 0; d < most_spatial; ++d) {
            result.data += phase.first[d] * strides[d];
            result.sizes[d] = phase.windows.counts[d];
            result.strides[d] = phase.step[d] * strides[d];
        }
        result.join_dimensions();
        return result;
    }

    ProductInputs inputs_;
    View output_;
    Epilogue epilogue_;
    Convolution convolution_;
    std::vector<std::unique_ptr<ConvolutionMethod>> methods_;
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const ConvolutionParameters& parameters) {
    return std::make_unique<ConvolutionStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
