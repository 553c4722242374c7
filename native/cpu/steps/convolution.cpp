#include "cpu/steps/convolution.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "cpu/steps/convolution_tensors.h"
#include "cpu/steps/packing_step.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::size_t filters_port = ConvolutionTensors::filters_port;

// Of floats or of integers. Each method packs the filters.
class ConvolutionStep final : public PackingStep {
public:
    ConvolutionStep(const StepTensors& tensors, const ConvolutionParameters& parameters)
        : tensors_(tensors, parameters), methods_(methods_of(tensors_.convolution)) {}

    bool keeps(BufferId input) const override {
        return methods_.size() == 1 && methods_.front()->keeps() && own(0) != nullptr && tensors_.inputs.only_operand(input, filters_port);
    }

    void unpack(BufferId, const RunContext& to) const override { methods_.front()->unpack(*own(0), filters(to)); }

    void run(RunContext& context) const override {
        if (tensors_.output.buffer == no_buffer) {
            return;
        }
        const std::optional<ZeroPoints> input_zeros = zeros(context, 0), filter_zeros = zeros(context, filters_port);
        ConvolutionRun part{tensors_.grouped(context), filters(context), {}, nullptr, pointer(input_zeros), pointer(filter_zeros)};
        for (std::size_t i = 0; i < methods_.size(); ++i) {
            part.target = tensors_.target(context, methods_[i]->phase());
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
    void visit(const Visitor& visitor) override { tensors_.visit(visitor); }

private:
    std::size_t packed_count() const override { return methods_.size(); }

    std::shared_ptr<const Weights> pack(const RunContext& fixed, std::size_t index) const override {
        if (!tensors_.inputs.known(fixed, filters_port)) {
            return nullptr;
        }
        const std::optional<ZeroPoints> filter_zeros = zeros(fixed, filters_port);
        return methods_[index]->pack(fixed, filters(fixed), pointer(filter_zeros));
    }

    Tensor filters(const RunContext& context) const { return context.tensor(tensors_.inputs[filters_port]); }

    // Of integers.
    std::optional<ZeroPoints> zeros(const RunContext& context, std::size_t port) const {
        return tensors_.inputs.integers() ? std::optional(tensors_.inputs.zero_points(context, port)) : std::nullopt;
    }
    static const ZeroPoints* pointer(const std::optional<ZeroPoints>& zeros) { return zeros ? &*zeros : nullptr; }

    ConvolutionTensors tensors_;
    std::vector<std::unique_ptr<ConvolutionMethod>> methods_;
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const ConvolutionParameters& parameters) {
    return std::make_unique<ConvolutionStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
