#include "cpu/steps/convolution.h"

#include <algorithm>
#include <stdexcept>

#include "cpu/products/depthwise.h"
#include "cpu/products/product.h"
#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {
namespace {

constexpr int outer_rank = 2;  // batch and channels come before the spatial dimensions
constexpr std::size_t filters_port = 1;
constexpr std::int64_t few_outputs = 4;  // of an input channel: for more, a product takes less time

// The last dimensions of a tensor; those that it lacks are `missing`.
Spatial spatial(const Sizes& of, int rank, std::int64_t missing) {
    Spatial result{missing, missing, missing};
    for (int d = outer_rank; d < rank; ++d) {
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
    return spatial(sizes, rank, missing);
}

// The filters as rows of a product, group by group.
class FilterPanels final : public PanelSource {
public:
    FilterPanels(const Tensor& filters, const ProductSizes& sizes) {
        const std::int64_t outputs = filters.strides[0];
        rows_.data = filters.data;
        rows_.type = filters.type;
        rows_.batch = {0, outputs * sizes.m};
        rows_.row = outputs;
        rows_.rank = filters.rank - 1;
        std::copy_n(filters.sizes.begin() + 1, rows_.rank, rows_.sizes.begin());
        std::copy_n(filters.strides.begin() + 1, rows_.rank, rows_.strides.begin());
        rows_.join_dimensions();
    }

    void pack(const PanelPart& part, float* out, const ProductKernels& kernels) const override {
        if (rows_.rank == 1) {
            return MatrixPanels(rows_.data, rows_.type, rows_.batch, rows_.row, rows_.strides[0]).pack(part, out, kernels);
        }
        const auto item = static_cast<std::int64_t>(item_size(rows_.type));
        const std::int64_t filter = rows_.row;
        for (std::int64_t i = 0; i < part.lines; ++i) {
            const std::byte* const row = rows_.data + part.batch[1] * rows_.batch[1] + (part.first + i) * filter;
            for (std::int64_t k = 0; k < part.depth; ++k) {
                std::byte number[sizeof(float)];
                gather(number, row, rows_.rank, rows_.sizes, rows_.strides, part.first_depth + k, 1, static_cast<int>(item));
                (rows_.type == DataType::float16 ? kernels.half_line : kernels.line)(out + k * part.width + i, number, item, 1);
            }
        }
    }

private:
    MatrixTensor rows_;
};

class ConvolutionStep final : public Step {
public:
    ConvolutionStep(const StepTensors& tensors, const ConvolutionParameters& parameters)
        : inputs_(tensors.inputs),
          output_(tensors.outputs.at(0)),
          groups_(parameters.groups),
          epilogue_(parameters.epilogue, output_.type, inputs_.size()),
          kernels_(product_kernels()) {
        const View &x = inputs_.at(0), &filters = inputs_.at(filters_port);
        if (x.rank <= outer_rank || x.rank > outer_rank + most_spatial || filters.rank != x.rank) {
            throw std::invalid_argument("a convolution has one to three spatial dimensions");
        }
        for (const View* const each : {&x, &filters}) {
            if (each->type != DataType::float32 && each->type != DataType::float16) {
                throw std::invalid_argument("the tensors of a convolution are float32 or float16");
            }
        }
        windows_.taps = spatial(filters.sizes, x.rank, 1);
        windows_.strides = spatial(parameters.strides, x.rank, 1);
        windows_.dilations = spatial(parameters.dilations, x.rank, 1);
        windows_.padding = spatial(parameters.padding, x.rank, 0);
        windows_.counts = spatial(output_.sizes, x.rank, 1);
        windows_.mirrored = parameters.mirrored;
        x_sizes_ = spatial(x.sizes, x.rank, 1);
        sizes_.rank = 2;
        sizes_.batch = {x.sizes[0], groups_};
        sizes_.m = filters.sizes[0] / groups_;
        sizes_.n = windows_.count();
        sizes_.k = filters.sizes[1] * windows_.tap_count();
        by_channel_ = filters.sizes[1] == 1 && sizes_.m <= few_outputs && is_flat(windows_, x_sizes_);
        while (inputs_.size() > first_operand && inputs_.back().buffer == no_buffer) {
            inputs_.pop_back();
        }
    }

    void prepare(const RunContext& fixed) override {
        if (fixed.has(inputs_[filters_port]) && !by_channel_) {
            const FilterPanels filters(fixed.tensor(inputs_[filters_port]), sizes_);
            panels_ = Panels(filters, sizes_.rank, {1, groups_}, sizes_.k, rows_of(sizes_, kernels_), false, kernels_);
        }
    }

    void run(RunContext& context) const override {
        if (output_.buffer == no_buffer) {
            return;
        }
        const FilterPanels filters(context.tensor(inputs_[filters_port]), sizes_);
        const WindowPanels windows = windows_in(context.tensor(inputs_[0]));
        if (by_channel_) {
            return run_depthwise(context, {inputs_[0].sizes[0], groups_, sizes_.m, &windows, &filters, target(context), &kernels_});
        }
        const MatrixPanels elements = elements_of(windows);
        Product product;
        product.sizes = sizes_;
        product.a = {panels_.present() ? &panels_ : nullptr, &filters, nullptr};
        product.b.source = &windows;
        if (elements.data != nullptr) {
            product.b.source = product.b.matrix = &elements;
        }
        product.target = target(context);
        product.kernels = &kernels_;
        run_product(context, product);
    }

    Kind kind() const override { return Kind::native; }
    double cost() const override { return product_cost(sizes_); }
    std::size_t scratch_bytes() const override {
        const std::size_t operands = inputs_.size() - first_operand;
        return by_channel_ ? depthwise_scratch(windows_, operands, epilogue_, kernels_)
                           : product_scratch(sizes_, operands, epilogue_, kernels_);
    }
    void visit(const Visitor& visitor) override {
        for (View& view : inputs_) {
            visitor(view, false);
        }
        visitor(output_, true);
    }

private:
    WindowPanels windows_in(const Tensor& x) const {
        WindowPanels result(windows_, x_sizes_, x.type);
        result.data = x.data;
        result.batch = {x.strides[0], x.strides[1] * (x.sizes[1] / groups_)};
        result.channel = x.strides[1];
        result.strides = spatial(x.strides, x.rank, 0);
        return result;
    }

    // The channels as rows of a matrix if every window is one element; else, or if the elements do not have one stride,
    // without data.
    MatrixPanels elements_of(const WindowPanels& windows) const {
        MatrixTensor channel;
        channel.type = inputs_[0].type;
        channel.rank = most_spatial;
        std::ranges::copy(x_sizes_, channel.sizes.begin());
        std::ranges::copy(windows.strides, channel.strides.begin());
        channel.join_dimensions();
        if (!windows_.is_element(x_sizes_) || channel.rank > 1) {
            return {};
        }
        return {windows.data, channel.type, {windows.batch[0], windows.batch[1]}, channel.strides[0], windows.channel};
    }

    Target target(const RunContext& context) const {
        Target result{tensor(context, output_), {}, &epilogue_};
        for (std::size_t i = first_operand; i < inputs_.size(); ++i) {
            result.operands.push_back(tensor(context, inputs_[i]));
        }
        return result;
    }

    // A tensor of the output's sizes.
    MatrixTensor tensor(const RunContext& context, const View& view) const {
        const Tensor found = context.tensor(view);
        MatrixTensor result;
        result.data = found.data;
        result.type = found.type;
        result.row = found.strides[1];
        result.batch = {found.strides[0], found.strides[1] * sizes_.m};
        result.rank = found.rank - outer_rank;
        std::copy_n(found.sizes.begin() + outer_rank, result.rank, result.sizes.begin());
        std::copy_n(found.strides.begin() + outer_rank, result.rank, result.strides.begin());
        result.join_dimensions();
        return result;
    }

    std::vector<View> inputs_;
    View output_;
    std::int64_t groups_;
    Epilogue epilogue_;
    const ProductKernels& kernels_;
    Windows windows_;
    Spatial x_sizes_{};
    ProductSizes sizes_;
    bool by_channel_ = false;  // whether an output channel has one input channel
    Panels panels_;            // of filters that stay the same
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const ConvolutionParameters& parameters) {
    return std::make_unique<ConvolutionStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
