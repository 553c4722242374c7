#include "cpu/steps/convolution.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "cpu/products/borders.h"
#include "cpu/products/depthwise.h"
#include "cpu/products/filters.h"
#include "cpu/products/product.h"
#include "cpu/steps/product_inputs.h"

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

// A product of the convolution, and the filters that it reads.
struct Part {
    Phase phase;
    ProductSizes sizes;
    bool by_channel = false;  // whether an output channel has one input channel
    Panels panels;            // of filters that stay the same
};

class ConvolutionStep final : public Step {
public:
    ConvolutionStep(const StepTensors& tensors, const ConvolutionParameters& parameters)
        : inputs_(tensors),
          output_(tensors.outputs.at(0)),
          groups_(parameters.groups),
          backward_(parameters.backward),
          epilogue_(parameters.epilogue, output_.type, inputs_.size(), inputs_.sums()),
          kernels_(product_kernels()) {
        const View &x = inputs_[0], &filters = inputs_[filters_port];
        if (x.rank <= outer_rank || x.rank > outer_rank + most_spatial || filters.rank != x.rank) {
            throw std::invalid_argument("a convolution has one to three spatial dimensions");
        }
        x_sizes_ = spatial(x.sizes, x.rank, 1);
        outputs_ = backward_ ? filters.sizes[1] : filters.sizes[0] / groups_;
        const Windows windows = windows_of(parameters, filters);
        for (Phase& phase : backward_ ? backward_phases(windows, x_sizes_) : std::vector<Phase>{{.windows = windows}}) {
            add_part(std::move(phase), x.sizes[1] / groups_);
        }
    }

    void prepare(const RunContext& fixed) override {
        for (Part& part : parts_) {
            if (inputs_.known(fixed, filters_port) && !part.by_channel && part.sizes.k > 0) {
                const FilterPanels filters = filters_in(fixed, part);
                part.panels = Panels(filters, part.sizes.rank, {1, groups_}, part.sizes.k, rows_of(part.sizes, tiles()), false, kernels_);
            }
        }
    }

    void run(RunContext& context) const override {
        if (output_.buffer == no_buffer) {
            return;
        }
        for (const Part& part : parts_) {
            run_part(context, part);
        }
    }

    Kind kind() const override { return Kind::native; }
    double cost() const override {
        double cost = 0;
        for (const Part& part : parts_) {
            cost += product_cost(part.sizes);
        }
        return cost;
    }
    std::size_t scratch_bytes() const override {
        const std::size_t operands = inputs_.size() - first_operand;
        std::size_t most = 0;
        for (const Part& part : parts_) {
            most = std::max(most, part.by_channel ? depthwise_scratch(part.phase.windows, operands, epilogue_, kernels_)
                                                  : product_scratch(part.sizes, operands, epilogue_, tiles()));
        }
        return most;
    }
    void visit(const Visitor& visitor) override {
        inputs_.visit(visitor);
        visitor(output_, true);
    }

private:
    const Tiles& tiles() const { return tiles_for(inputs_.sums(), kernels_); }

    Windows windows_of(const ConvolutionParameters& parameters, const View& filters) const {
        const int rank = filters.rank;
        return {.taps = spatial(filters.sizes, rank, 1),
                .strides = spatial(parameters.strides, rank, 1),
                .dilations = spatial(parameters.dilations, rank, 1),
                .padding = spatial(parameters.padding, rank, 0),
                .counts = spatial(output_.sizes, rank, 1),
                .mirrored = parameters.mirrored};
    }

    void add_part(Phase phase, std::int64_t channels) {
        Part part;
        part.sizes.rank = 2;
        part.sizes.batch = {inputs_[0].sizes[0], groups_};
        part.sizes.m = outputs_;
        part.sizes.n = phase.windows.count();
        const std::int64_t depths = inputs_.integers() ? (channels + depths_of_word - 1) / depths_of_word : channels;
        part.sizes.k = depths * phase.windows.tap_count();
        const bool exact = !inputs_.integers() || phase.windows.tap_count() <= most_exact_taps;
        part.by_channel = channels == 1 && outputs_ <= few_outputs && part.sizes.k > 0 && exact && is_flat(phase.windows, x_sizes_);
        part.phase = std::move(phase);
        parts_.push_back(std::move(part));
    }

    void run_part(RunContext& context, const Part& part) const {
        const FilterPanels filters = filters_in(context, part);
        WindowPanels windows = windows_in(context.tensor(inputs_[0]), part);
        windows.zeros = inputs_.zero_points(context, 0);
        const Borders borders(filters, windows, kernels_);
        const WholeSums whole;
        Target to = target(context, part);
        to.correction = backward_ && part.sizes.k > 0 ? &borders : nullptr;
        if (part.by_channel) {
            if (inputs_.integers()) {
                to.correction = &whole;
            }
            return run_depthwise(context, {inputs_[0].sizes[0], groups_, outputs_, &windows, &filters, std::move(to), &kernels_});
        }
        const MatrixPanels elements = elements_of(windows);
        Product product;
        product.sizes = part.sizes;
        product.a = {part.panels.present() ? &part.panels : nullptr, &filters, nullptr};
        product.b.source = &windows;
        if (elements.data != nullptr) {
            product.b.source = product.b.matrix = &elements;
        }
        product.target = std::move(to);
        product.kernels = &kernels_;
        product.sums = inputs_.sums();
        run_product(context, product);
    }

    FilterPanels filters_in(const RunContext& context, const Part& part) const {
        FilterPanels result(context.tensor(inputs_[filters_port]), groups_, backward_, part.phase);
        result.zeros = inputs_.zero_points(context, filters_port);
        result.as_words = inputs_.integers() && !part.by_channel;
        return result;
    }

    WindowPanels windows_in(const Tensor& x, const Part& part) const {
        WindowPanels result(part.phase.windows, x_sizes_, x.type);
        result.data = x.data;
        result.batch = {x.strides[0], x.strides[1] * (x.sizes[1] / groups_)};
        result.channels = x.sizes[1] / groups_;
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
        if (!windows.windows().is_element(x_sizes_) || channel.rank > 1) {
            return {};
        }
        MatrixPanels result(windows.data, channel.type, {windows.batch[0], windows.batch[1]}, channel.strides[0], windows.channel);
        result.depths = windows.channels;
        result.zeros = windows.zeros;
        return result;
    }

    Target target(const RunContext& context, const Part& part) const {
        Target result{tensor(context, output_, part), {}, &epilogue_, nullptr};
        for (std::size_t i = first_operand; i < inputs_.size(); ++i) {
            result.operands.push_back(tensor(context, inputs_[i], part));
        }
        return result;
    }

    // The elements of a part of a tensor of the output's sizes.
    MatrixTensor tensor(const RunContext& context, const View& view, const Part& part) const {
        const Tensor found = context.tensor(view);
        const Spatial strides = spatial(found.strides, found.rank, 0);
        MatrixTensor result;
        result.data = found.data;
        result.type = found.type;
        result.row = found.strides[1];
        result.batch = {found.strides[0], found.strides[1] * outputs_};
        result.rank = most_spatial;
        for (std::size_t d = 0; d < most_spatial; ++d) {
            result.data += part.phase.first[d] * strides[d];
            result.sizes[d] = part.phase.windows.counts[d];
            result.strides[d] = part.phase.step[d] * strides[d];
        }
        result.join_dimensions();
        return result;
    }

    ProductInputs inputs_;
    View output_;
    std::int64_t groups_;
    bool backward_;
    Epilogue epilogue_;
    const ProductKernels& kernels_;
    Spatial x_sizes_{};
    std::int64_t outputs_ = 0;  // of a group
    std::vector<Part> parts_;
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const ConvolutionParameters& parameters) {
    return std::make_unique<ConvolutionStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
