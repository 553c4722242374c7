#include "cpu/steps/recurrent.h"

#include "cpu/steps/only_reader.h"
#include "cpu/steps/recurrent_network.h"
#include "cpu/steps/recurrent_run.h"

namespace dmlgraph::cpu {
namespace {

class RecurrentStep final : public Step {
public:
    RecurrentStep(const StepTensors& tensors, const RecurrentParameters& parameters) : network_(tensors, parameters) {}

    void prepare(const RunContext& fixed) override {
        const RecurrentSizes& sizes = network_.sizes;
        for (std::int64_t d = 0; d < sizes.directions; ++d) {
            if (fixed.has(network_.inputs[Network::weights])) {
                network_.packed_weights.push_back(network_.packed_weights_of(fixed, d));
            }
            if (fixed.has(network_.inputs[Network::recurrence])) {
                network_.packed_recurrences.push_back(network_.packed_recurrence(fixed, d));
            }
        }
    }

    bool keeps(BufferId buffer) const override {
        return (is_only(buffer, Network::weights) && !network_.packed_weights.empty()) ||
               (is_only(buffer, Network::recurrence) && !network_.packed_recurrences.empty());
    }

    void unpack(BufferId buffer, const RunContext& to) const override {
        for (std::int64_t d = 0; d < network_.sizes.directions; ++d) {
            const auto index = static_cast<std::size_t>(d);
            if (is_only(buffer, Network::weights)) {
                network_.packed_weights[index]->unpack(network_.matrix(to, Network::weights, d));
            } else {
                network_.packed_recurrences[index]->unpack(network_.matrix(to, Network::recurrence, d));
            }
        }
    }

    void run(RunContext& context) const override { RecurrentRun(network_, context).compute(); }

    Kind kind() const override { return Kind::native; }
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
    bool is_only(BufferId buffer, std::size_t port) const { return reads_only_at(network_.inputs, port, buffer); }

    RecurrentNetwork network_;
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const RecurrentParameters& parameters) {
    return std::make_unique<RecurrentStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
