#include "cpu/steps/gemm.h"

#include <algorithm>
#include <memory>

#include "cpu/runtime/packing_step.h"
#include "cpu/steps/gemm_tensors.h"
#include "cpu/steps/integer_gemm.h"

namespace dmlgraph::cpu {
namespace {

// Of floats. Each side is packed.
class GemmStep final : public PackingStep {
public:
    GemmStep(const StepTensors& tensors, const GemmParameters& parameters) : tensors_(tensors, parameters) {}

    void follow(const GrowingTensor& tensor) override { tensors_.follow(tensor); }
    bool leaves_out(BufferId buffer) const override { return tensors_.leaves_out(buffer); }

    bool keeps(BufferId input) const override { return own(tensors_.side_of(input)) != nullptr; }

    void unpack(BufferId input, const RunContext& to) const override {
        const std::size_t side = tensors_.side_of(input);
        static_cast<const Panels*>(own(side))->unpack(tensors_.matrices(to, side));
    }

    void run(RunContext& context) const override {
        if (tensors_.output.buffer == no_buffer) {
            return;
        }
        const MatrixPanels a = tensors_.matrices(context, 0), b = tensors_.matrices(context, 1);
        const auto panels = [&](std::size_t side) { return static_cast<const Panels*>(weights(context, side)); };
        tensors_.multiply(context, {panels(0), &a, &a}, {panels(1), &b, &b}, true, nullptr);
    }

    double cost() const override { return tensors_.cost(); }
    std::size_t scratch_bytes() const override { return tensors_.scratch_bytes(); }
    void visit(const Visitor& visitor) override { tensors_.visit(visitor); }

private:
    void choose(const RunContext& fixed) override { tensors_.choose(fixed); }
    std::size_t packed_count() const override { return GemmTensors::sides; }

    std::shared_ptr<const Weights> pack(const RunContext& fixed, std::size_t side) const override {
        if (!tensors_.inputs.known(fixed, tensors_.port_of(side))) {
            return nullptr;
        }
        const MatrixPanels from = tensors_.matrices(fixed, side);
        return reads_in_place(from, side) ? nullptr : shared_panels(fixed, from, tensors_.packing(from, side));
    }

    // Whether an operand is read as fast from where it lies: few rows, and columns that they are multiplied by along
    // the memory.
    bool reads_in_place(const MatrixPanels& matrix, std::size_t side) const {
        const ProductSizes& sizes = tensors_.sizes;
        if (sizes.m > most_streamed_rows) {
            return false;
        }
        const bool repeats = std::all_of(matrix.batch.begin(), matrix.batch.begin() + sizes.rank,
                                         [](std::int64_t step) { return step == 0; });
        return side == 0 || (matrix.lies_along() && adds_along(sizes.m, sizes.k) &&
                             (!repeats || sizes.m * sizes.count() <= most_streamed_rows));
    }

    GemmTensors tensors_;
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const GemmParameters& parameters) {
    if (is_byte(tensors.inputs.at(0).type)) {
        return make_integer_step(tensors, parameters);
    }
    return std::make_unique<GemmStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
