#include "cpu/steps/native_step.h"

namespace dmlgraph::cpu {

std::unique_ptr<Step> make_native_step(const StepTensors& tensors, const StepParameters& parameters) {
    return std::visit([&](const auto& each) { return make_step(tensors, each); }, parameters);
}

}  // namespace dmlgraph::cpu
