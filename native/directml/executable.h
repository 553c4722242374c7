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
#include "directml/run.h"
#include "directml/run_copies.h"

namespace dmlgraph {

class CommandLists;
class Dispatch;

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
    std::uint64_t runs = 0;         // the steps of all executions
    std::optional<std::uint64_t> initialize_dispatches;
    // Of the last execution.
    std::optional<std::uint64_t> dispatches;
    std::uint64_t submissions = 0;
    std::uint64_t waits = 0;
    std::uint64_t uploaded_bytes = 0;   // written by the processor, for the adapter
    std::uint64_t read_bytes = 0;       // of outputs, by the processor
};

struct ExecutableOptions {
    abi::DML_EXECUTION_FLAGS flags = abi::DML_EXECUTION_FLAG_NONE;
    bool timed = false;                    // the adapter times every execution
    std::optional<bool> shared = {};       // whether tensors lie in shared memory, if not as the device decides
};

// Owns the compiled operator, its persistent buffer and recorded command lists, which are submitted again with the same
// buffers. Safe to use from several threads, which then take turns.
class Executable {
public:
    // Compiles the graph, and sees that there is memory for a run. Throws Error.
    Executable(std::shared_ptr<Device> device, GraphDesc graph, ExecutableOptions options);
    ~Executable();

    // Initialises the operator with its owned inputs: before the first run, and again whenever one of them changes or
    // an initialisation fails. `data` has one element per graph input, which is empty for inputs that are not owned.
    // Up to three bytes at the end of an input's data may be missing: they belong to no element.
    void initialize(std::span<const std::span<const std::byte>> data, const Cancellation* cancellation = nullptr);

    // Runs the graph. As above, up to three bytes may be missing, but not where there are bytes for every step. Steps
    // are submitted together, up to a limit. Throws Error; then nothing is written but outputs of every step, outputs on
    // the device, what later tensors of a chain hold, and rows that do not count yet.
    void run(const Run& run, const Cancellation* cancellation = nullptr);

    // A tensor for an output that stays on the device, which a run writes. Throws Error.
    std::unique_ptr<Resident> keep(std::size_t output);

    // Frees everything held on the device; afterwards only stats() may be called.
    void close();

    ExecutableStats stats() const;
    const std::shared_ptr<Device>& device() const { return device_; }
    Place place() const { return {graph_.name, {}}; }

private:
    struct Bound;  // a dispatch with its buffers
    struct Held;   // everything that is on the device

    Held& held();
    std::string label(std::string_view what) const { return graph_.name + ": " + std::string(what); }
    void write_owned(std::span<const std::span<const std::byte>> data, const TensorMemory& memory,
                     const BufferPool::Lease& lease) const;
    // Writes the inputs; of those that have a value for every step, that of a step.
    void write_inputs(const Run& run, const BufferPool::Lease& lease, std::size_t step);
    void read_outputs(const Run& run, const BufferPool::Lease& lease);
    void record_initialization(CommandLists& lists, const Dispatch& dispatch, const BufferPool::Lease& lease,
                               const TensorMemory& owned, const abi::DML_BUFFER_BINDING& temporary,
                               const Held& held) const;
    // The dispatch with the buffers that a step reads and writes.
    std::shared_ptr<Bound> bound(Held& held, const Run& run, const BufferPool::Lease& lease, std::size_t step) const;
    // `tensors`: those of inputs and outputs that are not in the lease.
    void bind(const Held& held, std::span<const Resident* const> tensors, const BufferPool::Lease& lease,
              abi::IDMLBindingTable& table) const;
    void run_once(Held& held, const Run& run, const BufferPool::Lease& lease, const Cancellation* cancellation);
    void run_steps(Held& held, const Run& run, const BufferPool::Lease& lease, std::size_t first, std::size_t count,
                   const Cancellation* cancellation);
    void execute_counted(std::span<abi::ID3D12CommandList* const> lists, const Cancellation* cancellation);
    // Returns the seconds it took.
    double execute(std::span<abi::ID3D12CommandList* const> lists, std::optional<std::uint64_t>& dispatches,
                   const Cancellation* cancellation);

    std::shared_ptr<Device> device_;
    GraphDesc graph_;              // names, inputs and outputs; nodes and edges are dropped once compiled
    bool timed_;
    std::vector<bool> connected_;  // by input: DirectML does not accept a binding for an input without edges
    ExecutableStats stats_;
    double step_seconds_ = 0;      // of the last execution
    mutable std::mutex mutex_;  // guards the members below and stats_
    std::unique_ptr<Held> held_;
};

}  // namespace dmlgraph
