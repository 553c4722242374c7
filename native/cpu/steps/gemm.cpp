#include "cpu/steps/gemm.h"

#include <algorithm>
#include <array>
#include <memory>

#include "cpu/steps/gemm_tensors.h"
#include "cpu/steps/integer_gemm.h"

namespace dmlgraph::cpu {
namespace {

// Of floats.
class GemmStep final : public Step {
public:
    GemmStep(const StepTensors& tensors, const GemmParameters& parameters) : tensors_(tensors, parameters) {}

    void prepare(const RunContext& fixed) override {
        tensors_.prepare(fixed);
        pack(fixed, panels_);
    }

    std::unique_ptr<const State> keep(const RunContext& kept) const override {
        auto result = std::make_unique<PackedSides>();
        pack(kept, result->panels);
        return result;
    }

    bool keeps(BufferId input) const override {
        const std::size_t side = tensors_.side_of(input);
        return side < panels_.size() && panels_[side] != nullptr;
    }

    void unpack(BufferId input, const RunContext& to) const override {
        const std::size_t side = tensors_.side_of(input);
        panels_[side]->unpack(tensors_.matrices(to, side));
    }

    void run(RunContext& context) const override {
        if (tensors_.output.buffer == no_buffer) {
            return;
        }
        const MatrixPanels a = tensors_.matrices(context, 0), b = tensors_.matrices(context, 1);
        tensors_.multiply(context, {panels_in(context, 0), &a, &a}, {panels_in(context, 1), &b, &b}, true, nullptr);
    }

    Kind kind() const override { return Kind::native; }
    double cost() const override { return tensors_.cost(); }
    std::size_t scratch_bytes() const override { return tensors_.scratch_bytes(); }
    void visit(const Visitor& visitor) override { tensors_.visit(visitor); }

private:
    using SidePanels = std::array<std::shared_ptr<const Panels>, GemmTensors::sides>;

    // Those that stay the same for several runs.
    struct PackedSides final : State {
        SidePanels panels;
    };

    // Packs the sides whose memory is known, unless that was done before all runs.
    void pack(const RunContext& fixed, SidePanels& panels) const {
        for (std::size_t side = 0; side < panels.size(); ++side) {
            if (panels_[side] != nullptr || !tensors_.inputs.known(fixed, tensors_.port_of(side))) {
                continue;
            }
            const MatrixPanels from = tensors_.matrices(fixed, side);
            if (!reads_in_place(from, side)) {
                panels[side] = shared_panels(fixed, from, tensors_.packing(from, side));
            }
        }
    }

    // The panels of a side, or null.
    const Panels* panels_in(const RunContext& context, std::size_t side) const {
        const auto* const kept = static_cast<const PackedSides*>(context.state);
        return (panels_[side] != nullptr || kept == nullptr ? panels_ : kept->panels)[side].get();
    }

    // Whether an operand is read as fast from where it lies: few rows, and columns that they are multiplied by along the memory.
    bool reads_in_place(const MatrixPanels& matrix, std::size_t side) const {
        const ProductSizes& sizes = tensors_.sizes;
        if (sizes.m > most_streamed_rows) {
            return false;
        }
        const bool repeats = std::all_of(matrix.batch.begin(), matrix.batch.begin() + sizes.rank, [](std::int64_t step) { return step == 0; });
        return side == 0 || (matrix.lies_along() && adds_along(sizes.m, sizes.k) && (!repeats || sizes.m * sizes.count() <= most_streamed_rows));
    }

    GemmTensors tensors_;
    SidePanels panels_;  // of the sides that are the same in all runs
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const GemmParameters& parameters) {
    if (is_byte(tensors.inputs.at(0).type)) {
        return make_integer_step(tensors, parameters);
    }
    return std::make_unique<GemmStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
