#include "cpu/steps/recurrent_gates.h"

#include <array>
#include <stdexcept>

#include "cpu/kernels/level.h"

namespace dmlgraph::cpu {
namespace {

// Sigmoid for f, tanh for g and h, and for the f of RNN, which has no other.
bool are_usual(const std::vector<InstructionSpec>& activations) {
    for (std::size_t i = 0; i < activations.size(); ++i) {
        const Opcode opcode = i == 0 && activations.size() > 1 ? Opcode::SIGMOID : Opcode::TANH;
        if (activations[i].opcode != opcode) {
            return false;
        }
    }
    return true;
}

}  // namespace

Gates::Gates(const InstructionSpec* activations, std::size_t count, std::optional<float> bound,
             bool couples_input_forget)
    : activations_(activations, activations + count),
      bound_(bound),
      couples_input_forget_(couples_input_forget),
      kernels_(are_usual(activations_) ? chosen_level().gates.usual : chosen_level().gates.any) {
    for (const InstructionSpec& each : activations_) {
        if (each.kernel == nullptr || each.operands != std::vector<std::int16_t>{0} ||
            each.operand != DataType::float32 || each.result != DataType::float32) {
            throw std::invalid_argument("the activations of a recurrent network are not functions of one float32");
        }
    }
}

void Gates::run(GateKernel GateKernels::* kernel, const GateLines& lines) const {
    std::array<Activation, 3> activations;
    for (std::size_t i = 0; i < activations_.size(); ++i) {
        activations[i] = {activations_[i].kernel, activations_[i].immediates.data()};
    }
    const float bound = bound_.value_or(0.0f);
    (kernels_.*kernel)({lines, activations.data(), bound_.has_value(), -bound, bound, couples_input_forget_});
}

}  // namespace dmlgraph::cpu
