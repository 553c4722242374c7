// What is copied before and behind the dispatches of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "directml/graph_desc.h"
#include "directml/run.h"
#include "directml/tensor_memory.h"

namespace dmlgraph {

// Which buffers a run needs, and which of them are for what.
struct RunLayout {
    std::vector<BufferNeed> needs;
    TensorMemory inputs;
    TensorMemory outputs;
    TensorMemory rows;  // that go into states
    std::optional<std::size_t> temporary;
};

// Of several steps: the values of inputs that have one for every step, and the outputs that are wanted of every step.
class StepMemory {
public:
    StepMemory(const GraphDesc& graph, const Run& run, std::size_t steps);

    const std::vector<BufferNeed>& needs() const { return needs_; }

    struct Placed {
        std::size_t slot;  // of the input or the output
        std::size_t need;
        std::uint64_t offset;  // of the first step's
        std::uint64_t bytes;   // of each step's
    };
    const std::vector<Placed>& inputs() const { return inputs_; }
    const std::vector<Placed>& outputs() const { return outputs_; }

private:
    std::vector<BufferNeed> needs_;
    std::vector<Placed> inputs_;
    std::vector<Placed> outputs_;
};

// Between command lists of one submission, all buffers that are copied are ready for dispatches, in the state
// UNORDERED_ACCESS: buffers return to the state COMMON only at the end of a submission.
class RunCopies {
public:
    RunCopies(const GraphDesc& graph, const RunLayout& layout, const BufferPool::Lease& lease, const Run& run);

    // Begins the use of all buffers; what was written into staging reaches what DirectML binds. `steps`: behind
    // several steps, inputs and outputs are copied too.
    void begin(abi::ID3D12GraphicsCommandList& list, const StepMemory* steps = nullptr) const;

    // Results reach their staging.
    void end(abi::ID3D12GraphicsCommandList& list) const;

    // The rows of a step go into their states.
    void append(abi::ID3D12GraphicsCommandList& list, std::size_t step) const;

    // Behind a step of several: rows, the outputs that are wanted of every step, and inputs that have another value in
    // the next step. `place`: which step of those that `steps` is for. After the last one, results reach their staging.
    void between(abi::ID3D12GraphicsCommandList& list, const StepMemory& steps, const BufferPool::Lease& step_lease,
                 std::size_t step, std::size_t place, bool is_last) const;

private:
    void copy_rows(abi::ID3D12GraphicsCommandList& list, std::size_t step) const;
    void move_states(Barriers& barriers, abi::D3D12_RESOURCE_STATES before, abi::D3D12_RESOURCE_STATES after) const;

    const RunLayout& layout_;
    const BufferPool::Lease& lease_;
    const Run& run_;
    TensorMemory::Used uploaded_;
    TensorMemory::Used returned_;
    TensorMemory::Used rows_;
};

}  // namespace dmlgraph
