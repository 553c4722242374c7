#include "cpu/steps/convolution.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "cpu/products/borders.h"
#include "cpu/products/channel_block.h"
#include "cpu/products/contributions.h"
#include "cpu/products/depthwise.h"
#include "cpu/products/direct.h"
#include "cpu/products/filters.h"
#include "cpu/runtime/processors.h"
#include "cpu/steps/convolution_tensors.h"
#include "cpu/steps/integer_convolution.h"

namespace dmlgraph::cpu {
namespace {

// A product of the convolution.
struct Part {
    Phase phase;
    ProductSizes sizes;
    bool by_channel = false;            // whether an output channel has one input channel
    std::optional<CellPlane> blocked;   // if it is then computed in blocks of channels
    bool few = false;                   // whether windows are its rows, since there are few
    std::optional<DirectShape> direct;  // if its windows are read from planes
};

// Of floats.
class ConvolutionStep final : public Step {
public:
    ConvolutionStep(const StepTensors& tensors, const ConvolutionParameters& parameters)
        : tensors_(tensors, parameters), planes_(convolution_kernels(chosen_level())), blocks_(channel_block_kernels(chosen_level())) {
        if (tensors_.backward) {
            add_backward();
        } else {
            add_part({.windows = tensors_.windows});
        }
    }

    void prepare(const RunContext& fixed) override { pack(fixed, panels_); }

    std::unique_ptr<const State> keep(const RunContext& kept) const override {
        auto result = std::make_unique<PackedFilters>();
        pack(kept, result->panels);
        return result;
    }

    // Backward convolutions read filters again where sums are NaN, blocks of channels where pictures lie in another way.
    bool keeps(BufferId input) const override {
        return !tensors_.backward && !panels_.empty() && panels_.front() != nullptr && !parts_.front().blocked &&
               tensors_.inputs.only_operand(input, ConvolutionTensors::filters_port);
    }

    void unpack(BufferId, const RunContext& to) const override { panels_.front()->unpack(filters_in(to, parts_.front())); }

    void run(RunContext& context) const override {
        if (tensors_.output.buffer == no_buffer) {
            return;
        }
        if (contributions_) {
            return run_all_taps(context);
        }
        const auto* const kept = static_cast<const PackedFilters*>(context.state);
        const PartPanels& panels = panels_.empty() && kept != nullptr ? kept->panels : panels_;
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            run_part(context, parts_[i], panels.empty() ? nullptr : panels[i].get());
        }
    }

    Kind kind() const override { return Kind::native; }
    double cost() const override {
        double cost = contributions_ ? product_cost(sizes_of_contributions()) : 0;
        for (const Part& part : parts_) {
            cost += product_cost(part.sizes);
        }
        return cost;
    }
    std::size_t scratch_bytes() const override {
        const std::size_t operands = tensors_.inputs.size() - first_operand;
        const Epilogue& epilogue = tensors_.epilogue;
        std::size_t most = contributions_ ? contributions_scratch(*contributions_, operands, epilogue, tensors_.tiles()) : 0;
        for (const Part& part : parts_) {
            const Windows& windows = part.phase.windows;
            most = std::max(most, part.by_channel ? depthwise_scratch(windows, tensors_.sizes, operands, epilogue, planes_)
                                  : part.direct   ? direct_scratch(windows, *part.direct, operands, epilogue, planes_)
                                                  : product_scratch(part.sizes, operands, epilogue, tensors_.tiles()));
            if (part.blocked) {
                most = std::max(most, blocked_depthwise_scratch(windows, *part.blocked, planes_.lanes, operands, epilogue));
            }
            if (part.few) {  // unless the output's layout allows it
                most = std::max(most, product_scratch(tensors_.sizes_of(windows, 1), operands, epilogue, tensors_.tiles()));
            }
        }
        return most;
    }
    void visit(const Visitor& visitor) override { tensors_.visit(visitor); }

private:
    // By part, or one of all taps; null: without terms. Empty if the filters are unknown.
    using PartPanels = std::vector<std::shared_ptr<const Panels>>;

    // Of filters that stay the same for several runs.
    struct PackedFilters final : State {
        PartPanels panels;
    };

    // Of a backward convolution: one product of all taps, or one for each phase.
    void add_backward() {
        const Windows& windows = tensors_.windows;
        std::vector<Phase> phases = backward_phases(windows, tensors_.sizes);
        const bool has_terms = tensors_.channels > 0 && tensors_.outputs > 0 && windows.tap_count() > 0 && windows.count() > 0;
        if (has_terms && contributions_pay(windows, tensors_.sizes, tensors_.channels, tensors_.outputs, phases)) {
            contributions_.emplace(windows, tensors_.sizes, tensors_.channels, tensors_.outputs, tensors_.tiles(), second_cache_bytes());
            return;
        }
        std::ranges::for_each(phases, [&](Phase& phase) { add_part(std::move(phase)); });
    }

    ProductSizes sizes_of_contributions() const {
        ProductSizes sizes = tensors_.sizes_of(tensors_.windows, 1);
        sizes.m *= tensors_.windows.tap_count();
        sizes.n = tensors_.sizes[0] * tensors_.sizes[1] * tensors_.sizes[2];
        sizes.k = tensors_.channels;
        return sizes;
    }

    void run_all_taps(RunContext& context) const {
        const auto* const kept = static_cast<const PackedFilters*>(context.state);
        const PartPanels& packed = panels_.empty() && kept != nullptr ? kept->panels : panels_;
        const std::shared_ptr<const Panels> panels = packed.empty() ? panels_of_all_taps(context) : packed.front();
        const WindowPanels elements = tensors_.windows_in(tensors_.grouped(context), {.counts = tensors_.sizes});
        const MatrixPanels matrix = tensors_.elements_of(elements);
        const bool is_matrix = matrix.data != nullptr;
        run_contributions(context,
                          {tensors_.inputs[0].sizes[0], tensors_.groups, &*contributions_, is_matrix ? static_cast<const PanelSource*>(&matrix) : &elements,
                           is_matrix ? &matrix : nullptr, panels.get(), tensors_.target(context, {.windows = tensors_.windows}),
                           tensors_.kernels, contributions_kernel(chosen_level())},
                          product_cost(sizes_of_contributions()));
    }

    std::shared_ptr<const Panels> panels_of_all_taps(const RunContext& context) const {
        const Tensor filters = filters_tensor(context);
        return context.made<Panels>(std::tuple(filters, tensors_.groups, contributions_->unit, contributions_->lines, tensors_.kernels), [&] {
            return contribution_panels(filters, tensors_.groups, *contributions_, *tensors_.kernels);
        });
    }

    Tensor filters_tensor(const RunContext& context) const { return context.tensor(tensors_.inputs[ConvolutionTensors::filters_port]); }

    void add_part(Phase phase) {
        Part part;
        part.sizes = tensors_.sizes_of(phase.windows, 1);
        part.by_channel = tensors_.is_by_channel(phase.windows);
        const bool sums = !part.by_channel && part.sizes.k > 0 && part.sizes.n > 0;
        if (part.by_channel && tensors_.outputs == 1 && !tensors_.backward && CellPlane::pays(phase.windows, tensors_.sizes, planes_.lanes)) {
            part.blocked.emplace(phase.windows, tensors_.sizes, planes_.lanes);
        }
        part.few = sums && tensors_.has_few(phase.windows);
        if (part.few) {
            part.sizes = tensors_.sizes_of_few(phase.windows);
        }
        // Single elements lie side by side as they are.
        if (sums && !part.few && has_planes(phase.windows) && !phase.windows.is_element(tensors_.sizes)) {
            part.direct.emplace(phase.windows, tensors_.channels, tensors_.outputs, planes_);
        }
        part.phase = std::move(phase);
        parts_.push_back(std::move(part));
    }

    // Packs the filters if their memory is known, unless that was done before all runs.
    void pack(const RunContext& fixed, PartPanels& panels) const {
        if (!panels_.empty() || !tensors_.inputs.known(fixed, ConvolutionTensors::filters_port)) {
            return;
        }
        if (contributions_) {
            panels.push_back(panels_of_all_taps(fixed));
        }
        for (const Part& part : parts_) {
            panels.emplace_back();
            if (part.sizes.k > 0) {
                if (part.blocked) {
                    panels.back() = shared_panels(fixed, filters_of_channels(fixed, part),
                                                  {1, {1}, part.sizes.k, {tensors_.groups, planes_.lanes}, true, tensors_.kernels});
                    continue;
                }
                const RowPanels filters = filters_in(fixed, part);
                const bool lines = part.by_channel || streams(part);
                const bool padded = (part.few && !lines) || (part.direct && part.direct->along);
                const Division division = lines         ? Division{tensors_.outputs, 1}
                                          : part.direct ? part.direct->filters
                                          : part.few    ? columns_of(part.sizes, tensors_.tiles())
                                                        : rows_of(part.sizes, tensors_.tiles());
                panels.back() = shared_panels(fixed, filters, {part.sizes.rank, {1, tensors_.groups}, part.sizes.k, division, padded, tensors_.kernels});
            }
        }
    }

    void run_part(RunContext& context, const Part& part, const Panels* panels) const {
        const RowPanels filters = filters_in(context, part);
        const WindowPanels windows = tensors_.windows_in(tensors_.grouped(context), part.phase.windows);
        const Borders borders(filters, windows, *tensors_.kernels);
        const std::int64_t batch = part.sizes.batch[0], groups = tensors_.groups;
        Target to = tensors_.target(context, part.phase);
        to.correction = tensors_.backward && part.sizes.k > 0 ? &borders : nullptr;
        if (part.blocked && has_pictures(windows.type(), windows.sizes(), windows.strides, windows.batch[1])) {
            const RowPanels of_channels = filters_of_channels(context, part);
            run_blocked_depthwise(context, {batch, groups, &*part.blocked, &windows, panels, &of_channels, by_channels(std::move(to)), tensors_.kernels, &blocks_});
        } else if (part.by_channel) {
            panels = part.blocked ? nullptr : panels;
            run_depthwise(context, {batch, groups, tensors_.outputs, &windows, panels, &filters, std::move(to), tensors_.kernels, &planes_});
        } else if (part.direct) {
            run_direct(context, {batch, groups, &*part.direct, &windows, panels, &filters, std::move(to), &planes_, &blocks_, tensors_.kernels},
                       product_cost(part.sizes));
        } else if (part.few) {
            MatrixPanels matrix = filters.matrix();
            Side columns{panels, &filters, nullptr};
            Panels lines;
            if (streams(part)) {
                if (panels == nullptr && (matrix.data == nullptr || !matrix.lies_along())) {
                    lines = pack_lines(filters, part);
                    panels = &lines;
                }
                if (panels != nullptr) {
                    matrix = panels->lines();  // which begin where a line of the cache does
                }
                columns = {nullptr, &matrix, &matrix};
            }
            tensors_.multiply_few(context, part.sizes, columns, windows, std::move(to));
        } else {
            tensors_.multiply(context, part.sizes, {panels, &filters, nullptr}, windows, std::move(to));
        }
    }

    // Of a convolution whose groups have one channel: a line for each.
    RowPanels filters_of_channels(const RunContext& context, const Part& part) const {
        return filter_panels(filters_tensor(context), 1, false, part.phase);
    }

    // Its channels as rows.
    static Target by_channels(Target to) {
        const auto turn = [](MatrixTensor& tensor) { tensor.row = tensor.batch[1]; };
        turn(to.out);
        std::ranges::for_each(to.operands, turn);
        return to;
    }

    // Whether filters are read one after the other by few windows. In memory they may lie in another way: then they are
    // packed before, since the order of a sum's terms must not depend on it.
    static bool streams(const Part& part) { return part.few && part.sizes.m <= most_streamed_rows; }

    Panels pack_lines(const RowPanels& filters, const Part& part) const {
        return {filters, {part.sizes.rank, {1, tensors_.groups}, part.sizes.k, {tensors_.outputs, 1}, false, tensors_.kernels}};
    }

    RowPanels filters_in(const RunContext& context, const Part& part) const {
        return filter_panels(filters_tensor(context), tensors_.groups, tensors_.backward, part.phase);
    }

    ConvolutionTensors tensors_;
    const ConvolutionKernels& planes_;
    const ChannelBlockKernels& blocks_;
    std::optional<ContributionShape> contributions_;  // of all taps; else there are parts
    std::vector<Part> parts_;
    PartPanels panels_;  // of filters that are the same in all runs
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const ConvolutionParameters& parameters) {
    if (is_byte(tensors.inputs.at(0).type)) {
        return make_integer_step(tensors, parameters);
    }
    return std::make_unique<ConvolutionStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
