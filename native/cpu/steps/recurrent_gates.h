// What follows the products of a recurrent network's step: activations of the gates, and the next state.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "cpu/kernels/gates.h"
#include "cpu/plan/plan.h"

namespace dmlgraph::cpu {

class Gates {
public:
    // Activations f and, if the cell has them, g and h of a direction, whose arguments are clipped to ± the bound.
    // Throws std::invalid_argument for instructions that do not make a float32 of one.
    Gates(const InstructionSpec* activations, std::size_t count, std::optional<float> bound, bool couples_input_forget);

    // Runs one of the kernels for some lines.
    void run(GateKernel GateKernels::* kernel, const GateLines& lines) const;

private:
    std::vector<InstructionSpec> activations_;
    std::optional<float> bound_;
    bool couples_input_forget_;
    const GateKernels& kernels_;
};

}  // namespace dmlgraph::cpu
