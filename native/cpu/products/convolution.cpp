#include "cpu/products/convolution.h"

#include <span>
#include <utility>

#include "cpu/products/borders.h"
#include "cpu/products/channel_block.h"
#include "cpu/products/contributions.h"
#include "cpu/products/depthwise.h"
#include "cpu/products/direct.h"
#include "cpu/products/integer_depthwise.h"
#include "cpu/products/integer_windows.h"
#include "cpu/products/window_product.h"
#include "cpu/quotient.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t few_outputs = 4;  // of an input channel: for more, a product takes less time

template <class Method>
std::unique_ptr<ConvolutionMethod> make_if_it_fits(const Convolution& convolution) {
    return Method::fits(convolution) ? std::make_unique<Method>(convolution) : nullptr;
}

// The last one for each type fits always.
using MakeMethod = std::unique_ptr<ConvolutionMethod> (*)(const Convolution& convolution);
constexpr MakeMethod of_integers[] = {make_if_it_fits<IntegerDepthwise>, make_if_it_fits<IntegerWindows>};
constexpr MakeMethod of_floats[] = {
    make_if_it_fits<BlockedDepthwise>, make_if_it_fits<Depthwise>,     make_if_it_fits<FewWindows>,
    make_if_it_fits<Direct>,           make_if_it_fits<WindowProduct>,
};

std::unique_ptr<ConvolutionMethod> method_of(const Convolution& convolution) {
    const bool has_integers = convolution.sums == DataType::int32;
    for (const MakeMethod make : has_integers ? std::span<const MakeMethod>(of_integers) : of_floats) {
        if (std::unique_ptr<ConvolutionMethod> method = make(convolution)) {
            return method;
        }
    }
    return nullptr;
}

}  // namespace

ProductSizes Convolution::product(std::int64_t depths_each) const {
    return {2, {batch, groups}, outputs, windows().count(), quotient_up(channels, depths_each) * windows().tap_count()};
}

bool Convolution::is_by_channel() const {
    return channels == 1 && outputs <= few_outputs && windows().tap_count() > 0 && windows().is_flat(sizes);
}

WindowPanels Convolution::windows_in(const Tensor& input) const {
    constexpr int outer_rank = 3;  // batch, groups and channels
    WindowPanels result(windows(), sizes, input.type);
    result.data = input.data;
    result.batch = {input.strides[0], input.strides[1]};
    result.channels = input.sizes[2];
    result.channel = input.strides[2];
    result.strides = spatial(input.strides, outer_rank, input.rank, 0);
    return result;
}

std::shared_ptr<const Weights> FilterMethod::pack(const RunContext& fixed, const Tensor& filters,
                                                  const ZeroPoints*) const {
    return sizes_.k > 0 ? shared_panels(fixed, filters_in(filters), packing_) : nullptr;
}

void FilterMethod::unpack(const Weights& weights, const Tensor& filters) const {
    static_cast<const Panels&>(weights).unpack(filters_in(filters));
}

void FilterMethod::run(RunContext& context, ConvolutionRun& run) const {
    const WindowPanels windows = convolution_.windows_in(run.input);
    const RowPanels filters = filters_in(run.filters);
    const Borders borders(filters, windows, *convolution_.kernels);
    run.target.correction = convolution_.backward && sizes_.k > 0 ? &borders : nullptr;
    compute(context, {windows, filters, static_cast<const Panels*>(run.weights), run.target});
}

std::vector<std::unique_ptr<ConvolutionMethod>> methods_of(const Convolution& convolution) {
    std::vector<std::unique_ptr<ConvolutionMethod>> result;
    if (!convolution.backward) {
        result.push_back(method_of(convolution));
        return result;
    }
    Convolution part = convolution;
    const std::vector<Phase> phases = backward_phases(convolution.windows(), convolution.sizes);
    if (Contributions::fits(convolution, phases)) {
        result.push_back(std::make_unique<Contributions>(convolution));
        return result;
    }
    for (const Phase& phase : phases) {
        part.phase = phase;
        result.push_back(method_of(part));
    }
    return result;
}

}  // namespace dmlgraph::cpu
