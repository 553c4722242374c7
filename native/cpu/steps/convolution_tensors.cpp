#include "cpu/steps/convolution_tensors.h"

#include <algorithm>
#include <stdexcept>

namespace dmlgraph::cpu {
namespace {

constexpr int outer_rank = 2;  // batch and channels come before the spatial dimensions

Spatial spatial(const std::vector<std::int64_t>& of, int rank, std::int64_t missing) {
    if (static_cast<int>(of.size()) != rank - outer_rank) {
        throw std::invalid_argument("a convolution needs one number for each spatial dimension");
    }
    Sizes sizes{};
    std::ranges::copy(of, sizes.begin() + outer_rank);
    return dmlgraph::cpu::spatial(sizes, outer_rank, rank, missing);
}

}  // namespace

ConvolutionTensors::ConvolutionTensors(const StepTensors& tensors, const ConvolutionParameters& parameters)
    : inputs(tensors), output(tensors.outputs.at(0)), epilogue(parameters.epilogue, output.type, inputs.size(), inputs.sums()) {
    const View &x = inputs[0], &filters = inputs[filters_port];
    const int rank = x.rank;
    if (rank <= outer_rank || rank > outer_rank + most_spatial || filters.rank != rank) {
        throw std::invalid_argument("a convolution has one to three spatial dimensions");
    }
    if (inputs.integers() && parameters.backward) {
        throw std::invalid_argument("a convolution of integers is a forward one");
    }
    const Level level = chosen_level();
    convolution.batch = x.sizes[0];
    convolution.groups = parameters.groups;
    convolution.channels = x.sizes[1] / parameters.groups;
    convolution.outputs = parameters.backward ? filters.sizes[1] : filters.sizes[0] / parameters.groups;
    convolution.sizes = spatial(x.sizes, outer_rank, rank, 1);
    convolution.phase.windows = {.taps = spatial(filters.sizes, outer_rank, rank, 1),
                                 .strides = spatial(parameters.strides, rank, 1),
                                 .dilations = spatial(parameters.dilations, rank, 1),
                                 .padding = spatial(parameters.padding, rank, 0),
                                 .counts = spatial(output.sizes, outer_rank, rank, 1),
                                 .mirrored = parameters.mirrored};
    convolution.backward = parameters.backward;
    convolution.operands = inputs.size() - first_operand;
    convolution.epilogue = &epilogue;
    convolution.sums = inputs.sums();
    convolution.kernels = &product_kernels(level);
    convolution.planes = &convolution_kernels(level);
    convolution.blocks = &channel_block_kernels(level);
    convolution.add_up = contributions_kernel(level);
}

Tensor ConvolutionTensors::grouped(const RunContext& context) const {
    const Tensor x = context.tensor(inputs[0]);
    Tensor result = x;
    result.rank = static_cast<std::uint8_t>(x.rank + 1);
    std::copy_backward(x.sizes.begin() + 1, x.sizes.begin() + x.rank, result.sizes.begin() + x.rank + 1);
    std::copy_backward(x.strides.begin() + 1, x.strides.begin() + x.rank, result.strides.begin() + x.rank + 1);
    result.sizes[1] = convolution.groups;
    result.sizes[outer_rank] = convolution.channels;
    result.strides[1] = x.strides[1] * convolution.channels;
    return result;
}

Target ConvolutionTensors::target(const RunContext& context, const Phase& phase) const {
    Target result{tensor(context, output, phase), {}, &epilogue, nullptr};
    for (std::size_t i = first_operand; i < inputs.size(); ++i) {
        result.operands.push_back(tensor(context, inputs[i], phase));
    }
    return result;
}

void ConvolutionTensors::visit(const Step::Visitor& visitor) {
    inputs.visit(visitor);
    visitor(output, true);
}

// The elements of a phase of a tensor of the output's sizes.
MatrixTensor ConvolutionTensors::tensor(const RunContext& context, const View& view, const Phase& phase) const {
    const Tensor found = context.tensor(view);
    const Spatial strides = spatial(found.strides, outer_rank, found.rank, 0);
    MatrixTensor result;
    result.data = found.data;
    result.type = found.type;
    result.row = found.strides[1];
    result.batch = {found.strides[0], found.strides[1] * convolution.outputs};
    result.rank = most_spatial;
    for (std::size_t d = 0; d < most_spatial; ++d) {
        result.data += phase.first[d] * strides[d];
        result.sizes[d] = phase.windows.counts[d];
        result.strides[d] = phase.step[d] * strides[d];
    }
    result.join_dimensions();
    return result;
}

}  // namespace dmlgraph::cpu
