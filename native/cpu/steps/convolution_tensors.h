// The tensors of a convolution, as its products read and write them: of floats and of integers alike.
#pragma once

#include <cstdint>

#include "cpu/products/epilogue.h"
#include "cpu/products/filters.h"
#include "cpu/products/phases.h"
#include "cpu/products/product.h"
#include "cpu/products/windows.h"
#include "cpu/steps/convolution.h"
#include "cpu/steps/product_inputs.h"

namespace dmlgraph::cpu {

class ConvolutionTensors {
public:
    static constexpr std::size_t filters_port = 1;

    // Throws std::invalid_argument for tensors of other types and ranks.
    ConvolutionTensors(const StepTensors& tensors, const ConvolutionParameters& parameters);

    // The product of filters, and of windows, `depths_each` of whose channels are a depth.
    ProductSizes sizes_of(const Windows& windows, std::int64_t depths_each) const;
    // Whether a sum over the taps takes less time than a product.
    bool is_by_channel(const Windows& windows) const;
    const Tiles& tiles() const { return tiles_for(inputs.sums(), *kernels); }

    // The input {N, C, …} as {N, groups, C / groups, …}.
    Tensor grouped(const RunContext& context) const;
    // The windows of a tensor like that.
    WindowPanels windows_in(const Tensor& grouped, const Windows& windows) const;
    // The channels as rows of a matrix if every window is one element; else, or if the elements do not have one stride,
    // without data.
    MatrixPanels elements_of(const WindowPanels& from) const;
    // What a phase writes, and what its epilogue reads.
    Target target(const RunContext& context, const Phase& phase) const;
    void multiply(RunContext& context, const ProductSizes& sizes, const Side& filters, const WindowPanels& windows, Target to) const;

    // Whether the windows are rows of a product and the filters its columns: vectors lie along the columns, and windows are few.
    // The windows of several images are one product if they are the images, else one for each.
    bool has_few(const Windows& windows) const;
    ProductSizes sizes_of_few(const Windows& windows) const;
    // Like `multiply`, for such sizes. The filters are a product's columns.
    void multiply_few(RunContext& context, const ProductSizes& sizes, const Side& filters, const WindowPanels& windows, Target to) const;

    void visit(const Step::Visitor& visitor);

    ProductInputs inputs;
    View output;
    std::int64_t groups;
    bool backward;
    Epilogue epilogue;
    const ProductKernels* kernels;
    Windows windows;            // of the parameters
    Spatial sizes{};            // of the input
    std::int64_t channels = 0;  // of a group
    std::int64_t outputs = 0;   // of a group

private:
    RowPanels images_of(const WindowPanels& from) const;
    MatrixTensor tensor(const RunContext& context, const View& view, const Phase& phase) const;
};

}  // namespace dmlgraph::cpu
