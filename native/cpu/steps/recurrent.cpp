#include "cpu/steps/recurrent.h"

#include <utility>
#include <vector>

#include "cpu/runtime/packing_step.h"
#include "cpu/steps/only_reader.h"
#include "cpu/steps/recurrent_network.h"
#include "cpu/steps/recurrent_run.h"

namespace dmlgraph::cpu {
namespace {

class RecurrentStep final : public PackingStep {
public:
    RecurrentStep(const StepTensors& tensors, const RecurrentParameters& parameters) : network_(tensors, parameters) {}

    bool keeps(BufferId buffer) const override {
        return keeps(buffer, Network::weights) || keeps(buffer, Network::recurrence);
    }

    void unpack(BufferId buffer, const RunContext& to) const override {
        for (std::int64_t d = 0; d < network_.sizes.directions; ++d) {
            if (keeps(buffer, Network::weights)) {
                static_cast<const Panels*>(own(network_.packed_index(Network::weights, d)))
                    ->unpack(network_.matrix(to, Network::weights, d));
            } else {
                static_cast<const Recurrence*>(own(network_.packed_index(Network::recurrence, d)))
                    ->unpack(network_.matrix(to, Network::recurrence, d));
            }
        }
    }

    void run(RunContext& context) const override {
        std::vector<const Weights*> packed(packed_count());
        for (std::size_t i = 0; i < packed.size(); ++i) {
            packed[i] = weights(context, i);
        }
        RecurrentRun(network_, std::move(packed), context).compute();
    }

    double cost() const override {
        const RecurrentSizes& sizes = network_.sizes;
        return static_cast<double>(sizes.steps) *
               (product_cost(network_.projection(1)) + product_cost(network_.carried(sizes.batch))) *
               static_cast<double>(sizes.directions);
    }
    std::size_t scratch_bytes() const override {
        return scratch_of<RecurrentMemory>(network_.sizes) + RecurrentRun::projection_scratch(network_);
    }
    void visit(const Visitor& visitor) override {
        for (View& each : network_.inputs) {
            visitor(each, false);
        }
        for (View& each : network_.outputs) {
            visitor(each, true);
        }
    }

private:
    using Network = RecurrentNetwork;

    bool keeps(BufferId buffer, std::size_t port) const {
        return reads_only_at(network_.inputs, port, buffer) && own(network_.packed_index(port, 0)) != nullptr;
    }

    std::size_t packed_count() const override { return network_.packed_count(); }

    std::shared_ptr<const Weights> pack(const RunContext& fixed, std::size_t index) const override {
        const auto direction = static_cast<std::int64_t>(index % network_.parameters.backward.size());
        const std::size_t port =
            index < network_.packed_index(Network::recurrence, 0) ? Network::weights : Network::recurrence;
        return fixed.has(network_.inputs[port]) ? network_.pack(fixed, port, direction) : nullptr;
    }

    RecurrentNetwork network_;
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const RecurrentParameters& parameters) {
    return std::make_unique<RecurrentStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
