// A compiled graph with everything needed to run it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
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
struct Bound;

// Times in seconds. Dispatches are known only for a software adapter, which counts them.
struct ExecutableStats {
    std::uint32_t descriptor_count = 0;
    std::uint64_t temporary_bytes = 0;
    std::uint64_t persistent_bytes = 0;
    std::optional<MemoryBudget> budget;  // of the adapter, when the graph was compiled
    double compile_seconds = 0;
    double initialize_seconds = 0;         // of the last initialisation
    double upload_seconds = 0;             // of the last run: writing the inputs
    double run_seconds = 0;                // … from the submission until the adapter has finished
    double readback_seconds = 0;           // … reading the outputs
    std::optional<double> device_seconds;  // of the last dispatch on the adapter, if executions are timed
    std::uint64_t runs = 0;                // the steps of all runs
    std::optional<std::uint64_t> initialize_dispatches;
    // Of the last run.
    std::optional<std::uint64_t> dispatches;
    std::uint64_t submissions = 0;
    std::uint64_t waits = 0;
    std::uint64_t uploaded_bytes = 0;  // written by the processor, for the adapter
    std::uint64_t read_bytes = 0;      // of outputs, by the processor
};

struct ExecutableOptions {
    abi::DML_EXECUTION_FLAGS flags = abi::DML_EXECUTION_FLAG_NONE;
    bool timed = false;               // the adapter times every execution
    std::optional<bool> shared = {};  // whether tensors lie in shared memory, if not as the device decides
};

// Owns the compiled operator, its persistent buffer and recorded command lists, which are submitted again with the same
// buffers. Safe to use from several threads: their runs have buffers and lists of their own, and only the dispatches
// take turns.
class Executable {
public:
    // Compiles the graph, and sees that there is memory for a run. Throws Error.
    Executable(std::shared_ptr<Device> device, GraphDesc graph, ExecutableOptions options);
    ~Executable();

    // Initialises the operator with its owned inputs: before the first run, and again whenever one of them changes or
    // an initialisation fails. `data` has one element per graph input, which is empty for inputs that are not owned.
    // Up to three bytes at the end of an input's data may be missing: they belong to no element. Waits for the runs in
    // flight. Returns the number of this initialisation.
    std::uint64_t initialize(std::span<const std::span<const std::byte>> data,
                             const Cancellation* cancellation = nullptr);

    // Runs the graph. As above, up to three bytes may be missing, but not where there are bytes for every step. Steps
    // are submitted together, up to a limit. Returns false, and does nothing, if there was another initialisation since
    // the one with the given number. Throws Error; then nothing is written but outputs of every step, outputs on the
    // device, what later tensors of a chain hold, and rows that do not count yet.
    bool run(std::uint64_t initialization, const Run& run, const Cancellation* cancellation = nullptr);

    // A tensor for an output that stays on the device, which a run writes. Throws Error.
    std::unique_ptr<Resident> keep(std::size_t output);

    // Frees everything held on the device, now or after the runs in flight; afterwards only stats() may be called.
    void close();

    ExecutableStats stats() const;
    const std::shared_ptr<Device>& device() const { return device_; }
    Place place() const { return {graph_.name, {}}; }

private:
    struct Held;    // everything that is on the device
    struct Flying;  // a run in flight

    std::shared_ptr<Held> held();
    std::string label(std::string_view what) const { return graph_.name + ": " + std::string(what); }
    void write_owned(std::span<const std::span<const std::byte>> data, const TensorMemory& memory,
                     const BufferPool::Lease& lease) const;
    // Writes the inputs; of those that have a value for every step, that of a step.
    void write_inputs(Flying& flying, std::size_t step) const;
    void read_outputs(Flying& flying) const;
    void record_initialization(CommandLists& lists, const Dispatch& dispatch, const BufferPool::Lease& lease,
                               const TensorMemory& owned, const abi::DML_BUFFER_BINDING& temporary,
                               const Held& held) const;
    // The dispatch with the buffers that a step reads and writes.
    std::shared_ptr<Bound> bound(Flying& flying, std::size_t step) const;
    // `tensors`: those of inputs and outputs that are not in the lease.
    void bind(const Held& held, std::span<const Resident* const> tensors, const BufferPool::Lease& lease,
              abi::IDMLBindingTable& table) const;
    void run_once(Flying& flying) const;
    void run_steps(Flying& flying, std::size_t first, std::size_t count) const;
    void execute(std::span<abi::ID3D12CommandList* const> lists, Flying& flying) const;
    // Returns the seconds it took.
    double execute(std::span<abi::ID3D12CommandList* const> lists, std::optional<std::uint64_t>& dispatches,
                   const Cancellation* cancellation) const;

    std::shared_ptr<Device> device_;
    GraphDesc graph_;  // names, inputs and outputs; nodes and edges are dropped once compiled
    bool timed_;
    std::vector<bool> connected_;       // by input: DirectML does not accept a binding for an input without edges
    std::shared_mutex initializing_;    // shared by runs
    std::uint64_t initialization_ = 0;  // the number of the last one; 0: there was none, or it failed
    std::uint64_t initializations_ = 0;
    mutable std::mutex mutex_;  // guards the members below
    ExecutableStats stats_;
    double step_seconds_ = 0;     // of the last run
    std::shared_ptr<Held> held_;  // shared by runs in flight
};

}  // namespace dmlgraph
