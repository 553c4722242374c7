// A run of a single step.
#pragma once

#include <cstddef>

#include "cpu/runtime/memory.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu::tests {

// With scratch memory for each worker.
class Context {
public:
    Context(std::size_t scratch, int workers) {
        const std::size_t stride = (scratch + 63) / 64 * 64;
        memory_ = Memory(stride * static_cast<std::size_t>(workers));
        context_.scratch_base = memory_.get();
        context_.scratch_stride = stride;
        context_.workers = workers;
    }
    RunContext& get() { return context_; }

private:
    Memory memory_;
    RunContext context_;
};

}  // namespace dmlgraph::cpu::tests
