// A compiled graph with everything needed to run it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "directml/device.h"
#include "directml/graph_desc.h"
#include "directml/tensor_memory.h"

namespace dmlgraph {

// Times in seconds. Dispatches are known only for a software adapter, which counts them.
struct ExecutableStats {
    std::uint32_t descriptor_count = 0;
    std::uint64_t temporary_bytes = 0;
    std::uint64_t persistent_bytes = 0;
    double compile_seconds = 0;
    double initialize_seconds = 0;  // of the last initialisation
    double run_seconds = 0;         // of the last execution
    std::uint64_t runs = 0;
    std::optional<std::uint64_t> initialize_dispatches;
    std::optional<std::uint64_t> dispatches;  // of the last execution
};

// Bytes that stay valid after their executable is closed.
struct HostTensor {
    std::shared_ptr<const TensorMemory> memory;
    std::span<std::byte> bytes;
};

// Owns the compiled operator, its buffers and one recorded command list, which every execution submits again.
// Safe to use from several threads, which then take turns; the caller must make writing inputs, execute() and
// reading outputs one critical section.
class Executable {
public:
    // Compiles the graph and allocates its buffers. Throws Error.
    Executable(std::shared_ptr<Device> device, GraphDesc graph, abi::DML_EXECUTION_FLAGS flags);
    ~Executable();

    // Initialises the operator with its owned inputs: before the first execution, and again whenever one of
    // them changes or an initialisation fails. `data` has one element per graph input, which is empty for inputs
    // that are not owned.
    void initialize(std::span<const std::span<const std::byte>> data, const Cancellation* cancellation = nullptr);

    // Runs the graph on the contents of the inputs; returns when the outputs are written.
    void execute(const Cancellation* cancellation = nullptr);

    // The processor's view of a tensor, in the layout of its desc; only for inputs that are not owned.
    HostTensor input(std::size_t index);
    HostTensor output(std::size_t index);

    // Frees everything held on the device; afterwards only stats() may be called.
    void close();

    ExecutableStats stats() const;
    const std::shared_ptr<Device>& device() const { return device_; }
    Place place() const { return {graph_.name, {}}; }

private:
    struct WorkBuffer;
    class Recording;
    struct Held;  // everything that is on the device

    Held& held();
    std::vector<std::uint64_t> input_bytes(bool owned) const;
    std::size_t position(std::size_t input) const;
    bool take_owned(std::span<const std::span<const std::byte>> data, TensorMemory& owned,
                    std::vector<abi::DML_BUFFER_BINDING>& bindings) const;
    void record_execution(Held& held) const;
    double execute(abi::ID3D12CommandList& list, std::optional<std::uint64_t>& dispatches,
                   const Cancellation* cancellation);

    std::shared_ptr<Device> device_;
    GraphDesc graph_;              // names, inputs and outputs; nodes and edges are dropped once compiled
    std::vector<bool> connected_;  // by input: DirectML does not accept a binding for an input without edges
    ExecutableStats stats_;
    mutable std::mutex mutex_;  // guards the members below and stats_
    std::unique_ptr<Held> held_;
};

}  // namespace dmlgraph
