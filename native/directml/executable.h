// A compiled graph with everything needed to run it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "directml/device.h"
#include "directml/graph_desc.h"
#include "directml/memory_budget.h"
#include "directml/tensor_memory.h"

namespace dmlgraph {

class Recording;

// Times in seconds. Dispatches are known only for a software adapter, which counts them.
struct ExecutableStats {
    std::uint32_t descriptor_count = 0;
    std::uint64_t temporary_bytes = 0;
    std::uint64_t persistent_bytes = 0;
    std::optional<MemoryBudget> budget;  // of the adapter, when the graph was compiled
    double compile_seconds = 0;
    double initialize_seconds = 0;  // of the last initialisation
    double run_seconds = 0;         // of the last execution
    std::optional<double> device_seconds;  // of the last dispatch on the adapter, if executions are timed
    std::uint64_t runs = 0;
    std::optional<std::uint64_t> initialize_dispatches;
    std::optional<std::uint64_t> dispatches;  // of the last execution
};

struct ExecutableOptions {
    abi::DML_EXECUTION_FLAGS flags = abi::DML_EXECUTION_FLAG_NONE;
    bool timed = false;                    // the adapter times every execution
    std::optional<bool> shared = {};       // whether tensors lie in shared memory, if not as the device decides
};

// Owns the compiled operator, its persistent buffer and one recorded command list, which is submitted again as long as
// the device's pool gives the same buffers. Safe to use from several threads, which then take turns.
class Executable {
public:
    // Compiles the graph, and sees that there is memory for a run. Throws Error.
    Executable(std::shared_ptr<Device> device, GraphDesc graph, ExecutableOptions options);
    ~Executable();

    // Initialises the operator with its owned inputs: before the first run, and again whenever one of them changes or
    // an initialisation fails. `data` has one element per graph input, which is empty for inputs that are not owned.
    // Up to three bytes at the end of an input's data may be missing: they belong to no element.
    void initialize(std::span<const std::span<const std::byte>> data, const Cancellation* cancellation = nullptr);

    // Runs the graph. `inputs` has one element per graph input, which is empty for owned ones; `outputs` one per graph
    // output. As above, up to three bytes may be missing. Throws Error; if it is cancelled, before it writes outputs.
    void run(std::span<const std::span<const std::byte>> inputs, std::span<const std::span<std::byte>> outputs,
             const Cancellation* cancellation = nullptr);

    // Frees everything held on the device; afterwards only stats() may be called.
    void close();

    ExecutableStats stats() const;
    const std::shared_ptr<Device>& device() const { return device_; }
    Place place() const { return {graph_.name, {}}; }

private:
    struct Held;  // everything that is on the device

    Held& held();
    std::string label(std::string_view what) const { return graph_.name + ": " + std::string(what); }
    std::vector<std::uint64_t> input_bytes(bool owned) const;
    std::size_t position(std::size_t input) const;
    // Writes the inputs that are owned, or those that are not.
    void write_inputs(bool owned, std::span<const std::span<const std::byte>> data, const TensorMemory& memory,
                      const BufferPool::Lease& lease) const;
    void record_initialization(Recording& recording, const BufferPool::Lease& lease, const TensorMemory& owned,
                               const abi::DML_BUFFER_BINDING& temporary, const Held& held) const;
    void record_execution(Held& held, const BufferPool::Lease& lease) const;
    double execute(abi::ID3D12CommandList& list, std::optional<std::uint64_t>& dispatches,
                   const Cancellation* cancellation);

    std::shared_ptr<Device> device_;
    GraphDesc graph_;              // names, inputs and outputs; nodes and edges are dropped once compiled
    bool timed_;
    std::vector<bool> connected_;  // by input: DirectML does not accept a binding for an input without edges
    ExecutableStats stats_;
    mutable std::mutex mutex_;  // guards the members below and stats_
    std::unique_ptr<Held> held_;
};

}  // namespace dmlgraph
