#include "cpu/steps/convolution_tensors.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "cpu/products/depthwise.h"

namespace dmlgraph::cpu {
namespace {

constexpr int outer_rank = 2;  // batch and channels come before the spatial dimensions
constexpr std::int64_t few_outputs = 4;  // of an input channel: for more, a product takes less time

// What a tensor has along its spatial dimensions, which come after `outer` others; those that it lacks are `missing`.
Spatial spatial(const Sizes& of, int outer, int rank, std::int64_t missing) {
    Spatial result{missing, missing, missing};
    for (int d = outer; d < rank; ++d) {
        result[static_cast<std::size_t>(most_spatial - rank + d)] = of[d];
    }
    return result;
}

Spatial spatial(const std::vector<std::int64_t>& of, int rank, std::int64_t missing) {
    if (static_cast<int>(of.size()) != rank - outer_rank) {
        throw std::invalid_argument("a convolution needs one number for each spatial dimension");
    }
    Sizes sizes{};
    std::ranges::copy(of, sizes.begin() + outer_rank);
    return spatial(sizes, outer_rank, rank, missing);
}

}  // namespace

ConvolutionTensors::ConvolutionTensors(const StepTensors& tensors, const ConvolutionParameters& parameters)
    : inputs(tensors),
      output(tensors.outputs.at(0)),
      groups(parameters.groups),
      backward(parameters.backward),
      epilogue(parameters.epilogue, output.type, inputs.size(), inputs.sums()),
      kernels(&product_kernels()) {
    const View &x = inputs[0], &filters = inputs[filters_port];
    const int rank = x.rank;
    if (rank <= outer_rank || rank > outer_rank + most_spatial || filters.rank != rank) {
        throw std::invalid_argument("a convolution has one to three spatial dimensions");
    }
    windows = {.taps = spatial(filters.sizes, outer_rank, rank, 1),
               .strides = spatial(parameters.strides, rank, 1),
               .dilations = spatial(parameters.dilations, rank, 1),
               .padding = spatial(parameters.padding, rank, 0),
               .counts = spatial(output.sizes, outer_rank, rank, 1),
               .mirrored = parameters.mirrored};
    sizes = spatial(x.sizes, outer_rank, rank, 1);
    channels = x.sizes[1] / groups;
    outputs = backward ? filters.sizes[1] : filters.sizes[0] / groups;
}

ProductSizes ConvolutionTensors::sizes_of(const Windows& of, std::int64_t depths_each) const {
    ProductSizes result;
    result.rank = 2;
    result.batch = {inputs[0].sizes[0], groups};
    result.m = outputs;
    result.n = of.count();
    result.k = (channels + depths_each - 1) / depths_each * of.tap_count();
    return result;
}

bool ConvolutionTensors::is_by_channel(const Windows& of) const {
    return channels == 1 && outputs <= few_outputs && of.tap_count() > 0 && of.is_flat(sizes);
}

Tensor ConvolutionTensors::grouped(const RunContext& context) const {
    const Tensor x = context.tensor(inputs[0]);
    Tensor result = x;
    result.rank = static_cast<std::uint8_t>(x.rank + 1);
    std::copy_backward(x.sizes.begin() + 1, x.sizes.begin() + x.rank, result.sizes.begin() + x.rank + 1);
    std::copy_backward(x.strides.begin() + 1, x.strides.begin() + x.rank, result.strides.begin() + x.rank + 1);
    result.sizes[1] = groups;
    result.sizes[outer_rank] = channels;
    result.strides[1] = x.strides[1] * channels;
    return result;
}

WindowPanels ConvolutionTensors::windows_in(const Tensor& grouped, const Windows& of) const {
    WindowPanels result(of, sizes, grouped.type);
    result.data = grouped.data;
    result.batch = {grouped.strides[0], grouped.strides[1]};
    result.channels = grouped.sizes[outer_rank];
    result.channel = grouped.strides[outer_rank];
    result.strides = spatial(grouped.strides, outer_rank + 1, grouped.rank, 0);
    return result;
}

Target ConvolutionTensors::target(const RunContext& context, const Phase& phase) const {
    Target result{tensor(context, output, phase), {}, &epilogue, nullptr};
    for (std::size_t i = first_operand; i < inputs.size(); ++i) {
        result.operands.push_back(tensor(context, inputs[i], phase));
    }
    return result;
}

void ConvolutionTensors::multiply(RunContext& context, const ProductSizes& of, const Side& filters, const WindowPanels& from,
                                  Target to) const {
    const MatrixPanels elements = elements_of(from);
    Side windows{nullptr, &from, nullptr};
    if (elements.data != nullptr && !elements.lies_along()) {
        windows.source = windows.matrix = &elements;
    }
    run_product(context, {of, filters, windows, std::move(to), kernels, inputs.sums()});
}

bool ConvolutionTensors::has_few(const Windows& of) const {
    return !backward && (of.is_whole(sizes) || (of.is_element(sizes) && of.count() <= most_streamed_rows));
}

ProductSizes ConvolutionTensors::sizes_of_few(const Windows& of) const {
    ProductSizes result = sizes_of(of, 1);
    std::swap(result.m, result.n);
    if (of.is_whole(sizes)) {
        std::swap(result.m, result.batch[0]);
    }
    return result;
}

void ConvolutionTensors::multiply_few(RunContext& context, const ProductSizes& of, const Side& filters, const WindowPanels& from,
                                      Target to) const {
    const bool whole = from.windows().is_whole(sizes);
    const auto turn = [&](MatrixTensor& tensor) {
        if (tensor.rank > 1) {
            return false;
        }
        const std::int64_t outputs_step = tensor.row;
        tensor.row = whole ? tensor.batch[0] : tensor.strides[0];
        tensor.sizes[0] = outputs;
        tensor.strides[0] = outputs_step;
        return true;
    };
    Target turned = to;
    if (!turn(turned.out) || !std::ranges::all_of(turned.operands, turn)) {
        return multiply(context, sizes_of(from.windows(), 1), {nullptr, filters.source, nullptr}, from, std::move(to));
    }
    const RowPanels images = images_of(from);
    const MatrixPanels elements = elements_of(from);
    Side windows{nullptr, &images, nullptr};
    if (!whole) {
        windows.source = elements.data == nullptr ? static_cast<const PanelSource*>(&from) : &elements;
    }
    run_product(context, {of, windows, filters, std::move(turned), kernels, inputs.sums()});
}

void ConvolutionTensors::visit(const Step::Visitor& visitor) {
    inputs.visit(visitor);
    visitor(output, true);
}

MatrixPanels ConvolutionTensors::elements_of(const WindowPanels& from) const {
    MatrixTensor channel;
    channel.type = from.type();
    channel.rank = most_spatial;
    std::ranges::copy(sizes, channel.sizes.begin());
    std::ranges::copy(from.strides, channel.strides.begin());
    channel.join_dimensions();
    if (!from.windows().is_element(sizes) || channel.rank > 1) {
        return {};
    }
    return {from.data, channel.type, {from.batch[0], from.batch[1]}, channel.strides[0], from.channel};
}

// Images as lines, group by group.
RowPanels ConvolutionTensors::images_of(const WindowPanels& from) const {
    MatrixTensor images;
    images.data = const_cast<std::byte*>(from.data);
    images.type = from.type();
    images.batch = {0, from.batch[1]};
    images.row = from.batch[0];
    images.rank = 1 + most_spatial;
    images.sizes[0] = channels;
    images.strides[0] = from.channel;
    std::ranges::copy(sizes, images.sizes.begin() + 1);
    std::ranges::copy(from.strides, images.strides.begin() + 1);
    return RowPanels(images);
}

// The elements of a phase of a tensor of the output's sizes.
MatrixTensor ConvolutionTensors::tensor(const RunContext& context, const View& view, const Phase& phase) const {
    const Tensor found = context.tensor(view);
    const Spatial strides = spatial(found.strides, outer_rank, found.rank, 0);
    MatrixTensor result;
    result.data = found.data;
    result.type = found.type;
    result.row = found.strides[1];
    result.batch = {found.strides[0], found.strides[1] * outputs};
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
