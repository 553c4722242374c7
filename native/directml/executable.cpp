#include "directml/executable.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "directml/compile.h"
#include "directml/names.h"
#include "directml/recording.h"

namespace dmlgraph {
namespace {

using namespace abi;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr double worth_cancelling = 0.01;  // seconds

constexpr DML_BINDING_DESC no_binding{DML_BINDING_TYPE_NONE, nullptr};

DML_BINDING_DESC binding_desc(const DML_BUFFER_BINDING& binding) {
    return binding.Buffer ? DML_BINDING_DESC{DML_BINDING_TYPE_BUFFER, &binding} : no_binding;
}

std::vector<DML_BINDING_DESC> binding_descs(const std::vector<DML_BUFFER_BINDING>& bindings) {
    std::vector<DML_BINDING_DESC> descs(bindings.size());
    std::ranges::transform(bindings, descs.begin(), binding_desc);
    return descs;
}

// A whole buffer of a lease; no buffer for a need that does not exist.
DML_BUFFER_BINDING binding_of(const BufferPool::Lease& lease, std::optional<std::size_t> need, std::uint64_t bytes) {
    return need ? DML_BUFFER_BINDING{&lease[*need].resource(), 0, bytes} : DML_BUFFER_BINDING{};
}

std::vector<std::uint64_t> sizes_of(const std::vector<GraphOutput>& outputs) {
    std::vector<std::uint64_t> bytes(outputs.size());
    std::ranges::transform(outputs, bytes.begin(), &GraphOutput::bytes);
    return bytes;
}

void require_count(std::size_t count, std::size_t expected, const char* what) {
    if (count != expected) {
        throw Error(ErrorKind::use, "expected data for " + std::to_string(expected) + " " + what + ", got " +
                                        std::to_string(count));
    }
}

// Buffers have whole 32-bit words; the bytes after the last element need not be there.
void require_bytes(std::size_t bytes, std::uint64_t expected, const std::string& what) {
    if (bytes > expected || bytes + 4 <= expected) {
        throw Error(ErrorKind::use,
                    what + " needs " + std::to_string(expected) + " bytes, got " + std::to_string(bytes));
    }
}

}  // namespace

struct Executable::Held {
    // Which buffers a run needs, and which of them are for what.
    struct Layout {
        std::vector<BufferNeed> needs;
        TensorMemory inputs;
        TensorMemory outputs;
        std::optional<std::size_t> temporary;
    };

    Held(Device& device, ComPtr<IDMLCompiledOperator> compiled, Layout layout, std::shared_ptr<Buffer> persistent)
        : compiled(std::move(compiled)),
          layout(std::move(layout)),
          member(device.memory(), this->layout.needs),
          persistent(std::move(persistent)) {}

    DML_BUFFER_BINDING persistent_binding() const {
        return persistent ? DML_BUFFER_BINDING{&persistent->resource(), 0, persistent->bytes()} : DML_BUFFER_BINDING{};
    }

    ComPtr<IDMLCompiledOperator> compiled;
    Layout layout;
    BufferPool::Member member;
    std::shared_ptr<Buffer> persistent;          // null for zero bytes
    std::optional<Recording> execution;          // recorded before the first run
    std::vector<std::uint64_t> recorded_with{};  // the buffers that it was recorded with
    bool initialized = false;
};

Executable::Executable(std::shared_ptr<Device> device, GraphDesc graph, ExecutableOptions options)
    : device_(std::move(device)), graph_(std::move(graph)), timed_(options.timed) {
    for (const GraphInput& input : graph_.inputs) {
        require_buffer_size(input.bytes, "input '" + input.name + "'", place());
    }
    for (const GraphOutput& output : graph_.outputs) {
        require_buffer_size(output.bytes, "output '" + output.name + "'", place());
    }

    const bool shared = options.shared ? *options.shared : device_->shares_memory();
    const auto start = Clock::now();
    ComPtr<IDMLCompiledOperator> compiled = compile(*device_, graph_, options.flags);
    set_name(*compiled, graph_.name);
    stats_.compile_seconds = seconds_since(start);
    connected_.resize(graph_.inputs.size());
    for (const InputEdge& edge : graph_.input_edges) {
        connected_[edge.input] = true;
    }
    graph_.nodes = {};
    graph_.input_edges = {};
    graph_.output_edges = {};
    graph_.intermediate_edges = {};

    const DML_BINDING_PROPERTIES properties = compiled->GetBindingProperties();
    stats_.descriptor_count = properties.RequiredDescriptorCount;
    stats_.temporary_bytes = properties.TemporaryResourceSize;
    stats_.persistent_bytes = properties.PersistentResourceSize;
    require_buffer_size(properties.TemporaryResourceSize, "the temporary buffer", place());
    require_buffer_size(properties.PersistentResourceSize, "the persistent buffer", place());

    const auto access = shared ? Access::shared : Access::staged;
    std::vector<BufferNeed> needs;
    TensorMemory inputs(Direction::upload, access, input_bytes(false), "the inputs", needs);
    TensorMemory outputs(Direction::readback, access, sizes_of(graph_.outputs), "the outputs", needs);
    std::optional<std::size_t> temporary;
    if (stats_.temporary_bytes) {
        temporary = needs.size();
        needs.push_back({BufferKind::device, stats_.temporary_bytes, "the temporary buffer"});
    }
    std::shared_ptr<Buffer> persistent;
    if (stats_.persistent_bytes) {
        persistent = device_->memory().create(BufferKind::device, stats_.persistent_bytes,
                                              label("the persistent buffer"), place());
    }
    held_.reset(new Held(*device_, std::move(compiled),
                         {std::move(needs), std::move(inputs), std::move(outputs), temporary},
                         std::move(persistent)));
    held_->member.lease({}, place());  // now, not at the first run, the memory must be there
    stats_.budget = query_memory_budget(device_->adapter());
}

Executable::~Executable() = default;

std::vector<std::uint64_t> Executable::input_bytes(bool owned) const {
    std::vector<std::uint64_t> bytes;
    for (const GraphInput& input : graph_.inputs) {
        if (input.owned == owned) {
            bytes.push_back(input.bytes);
        }
    }
    return bytes;
}

// The index of an input among the owned inputs, or among the others if it is not owned.
std::size_t Executable::position(std::size_t input) const {
    const auto first = graph_.inputs.begin();
    const bool owned = graph_.inputs[input].owned;
    return static_cast<std::size_t>(
        std::count_if(first, first + static_cast<std::ptrdiff_t>(input),
                      [&](const GraphInput& other) { return other.owned == owned; }));
}

void Executable::write_inputs(bool owned, std::span<const std::span<const std::byte>> data,
                              const TensorMemory& memory, const BufferPool::Lease& lease) const {
    require_count(data.size(), graph_.inputs.size(), "inputs");
    for (std::size_t i = 0; i < data.size(); ++i) {
        const GraphInput& input = graph_.inputs[i];
        if (input.owned == owned) {
            require_bytes(data[i].size(), input.bytes, "input '" + input.name + "'");
            memory.write(*device_, lease, position(i), data[i], place());
        }
    }
}

void Executable::initialize(std::span<const std::span<const std::byte>> data, const Cancellation* cancellation) {
    const std::lock_guard lock(mutex_);
    Held& held = this->held();
    device_->require_alive(place());
    const auto start = Clock::now();

    ComPtr<IDMLOperatorInitializer> initializer;
    IDMLCompiledOperator* operators[] = {held.compiled.get()};
    device_->check(device_->directml().CreateOperatorInitializer(1, operators, IDMLOperatorInitializer::iid,
                                                                 initializer.put()),
                   "CreateOperatorInitializer", place());
    set_name(*initializer, label("initializer"));

    // DirectML copies the owned inputs from upload memory into its persistent buffer: they are in the adapter's
    // memory once.
    std::vector<BufferNeed> needs;
    const TensorMemory owned(Direction::upload, Access::upload, input_bytes(true), "the owned inputs", needs);
    const std::uint64_t temporary_bytes = initializer->GetBindingProperties().TemporaryResourceSize;
    std::optional<std::size_t> temporary;
    if (temporary_bytes) {
        temporary = needs.size();
        needs.push_back({BufferKind::device, temporary_bytes, "the temporary buffer of the initialisation"});
    }
    BufferPool::Member member(device_->memory(), std::move(needs));
    const BufferPool::Lease lease = member.lease({}, place());
    write_inputs(true, data, owned, lease);

    Recording recording(*device_, *initializer, label("initialisation"), false, place());
    record_initialization(recording, lease, owned, binding_of(lease, temporary, temporary_bytes), held);
    held.initialized = false;
    execute(recording.list(), stats_.initialize_dispatches, cancellation);
    held.initialized = true;
    stats_.initialize_seconds = seconds_since(start);
}

void Executable::record_initialization(Recording& recording, const BufferPool::Lease& lease, const TensorMemory& owned,
                                       const DML_BUFFER_BINDING& temporary, const Held& held) const {
    for (const auto& buffer : lease.buffers()) {
        recording.activate(*buffer);
    }
    if (held.persistent) {
        recording.activate(*held.persistent);
    }
    if (temporary.Buffer) {
        const DML_BINDING_DESC desc = binding_desc(temporary);
        recording.table().BindTemporaryResource(&desc);
    }
    const DML_BUFFER_BINDING persistent_binding = held.persistent_binding();
    if (persistent_binding.Buffer) {
        const DML_BINDING_DESC desc = binding_desc(persistent_binding);
        recording.table().BindOutputs(1, &desc);
    }
    std::vector<DML_BUFFER_BINDING> inputs(graph_.inputs.size());  // no buffer: nothing is bound
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (connected_[i] && graph_.inputs[i].owned) {
            inputs[i] = owned.binding(lease, position(i));
        }
    }
    const DML_BUFFER_ARRAY_BINDING all_inputs{static_cast<std::uint32_t>(inputs.size()), inputs.data()};
    if (std::ranges::any_of(inputs, [](const DML_BUFFER_BINDING& input) { return input.Buffer != nullptr; })) {
        const DML_BINDING_DESC desc{DML_BINDING_TYPE_BUFFER_ARRAY, &all_inputs};
        recording.table().BindInputs(1, &desc);
    }
    recording.dispatch();
    recording.close();
}

void Executable::record_execution(Held& held, const BufferPool::Lease& lease) const {
    held.execution.reset();
    held.recorded_with.clear();
    Recording recording(*device_, *held.compiled, label("run"), timed_, place());
    for (const auto& buffer : lease.buffers()) {
        recording.activate(*buffer);
    }
    std::vector<DML_BUFFER_BINDING> inputs(graph_.inputs.size());  // no buffer: nothing is bound
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (connected_[i] && !graph_.inputs[i].owned) {
            inputs[i] = held.layout.inputs.binding(lease, position(i));
        }
    }
    std::vector<DML_BUFFER_BINDING> outputs(graph_.outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        outputs[i] = held.layout.outputs.binding(lease, i);
    }

    const auto input_descs = binding_descs(inputs);
    const auto output_descs = binding_descs(outputs);
    recording.table().BindInputs(static_cast<std::uint32_t>(input_descs.size()), input_descs.data());
    recording.table().BindOutputs(static_cast<std::uint32_t>(output_descs.size()), output_descs.data());
    const DML_BUFFER_BINDING temporary = binding_of(lease, held.layout.temporary, stats_.temporary_bytes);
    if (temporary.Buffer) {
        const DML_BINDING_DESC desc = binding_desc(temporary);
        recording.table().BindTemporaryResource(&desc);
    }
    const DML_BUFFER_BINDING persistent = held.persistent_binding();
    if (persistent.Buffer) {
        const DML_BINDING_DESC desc = binding_desc(persistent);
        recording.table().BindPersistentResource(&desc);
    }
    held.layout.inputs.record_copies(recording.list(), lease);
    recording.dispatch();
    held.layout.outputs.record_copies(recording.list(), lease);
    recording.close();
    held.execution.emplace(std::move(recording));
    held.recorded_with = lease.ids();
}

void Executable::run(std::span<const std::span<const std::byte>> inputs, std::span<const std::span<std::byte>> outputs,
                     const Cancellation* cancellation) {
    const std::lock_guard lock(mutex_);
    Held& held = this->held();
    if (!held.initialized) {
        throw Error(ErrorKind::use, "an executable must be initialised before it is run");
    }
    require_count(outputs.size(), graph_.outputs.size(), "outputs");
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        require_bytes(outputs[i].size(), graph_.outputs[i].bytes, "output '" + graph_.outputs[i].name + "'");
    }
    device_->require_alive(place());

    const BufferPool::Lease lease = held.member.lease(held.recorded_with, place());
    if (!held.execution || lease.ids() != held.recorded_with) {
        record_execution(held, lease);
    }
    write_inputs(false, inputs, held.layout.inputs, lease);
    // A short run need not be cancellable.
    const bool may_last = stats_.runs == 0 || stats_.run_seconds > worth_cancelling;
    stats_.run_seconds =
        execute(held.execution->list(), stats_.dispatches, may_last ? cancellation : nullptr);
    ++stats_.runs;
    if (cancellation && cancellation->cancelled()) {
        Error error(ErrorKind::cancelled, "the run is cancelled");
        error.graph = graph_.name;
        throw error;
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        held.layout.outputs.read(*device_, lease, i, outputs[i], place());
    }
    stats_.device_seconds = held.execution->seconds();
}

// Returns the seconds it took.
double Executable::execute(ID3D12CommandList& list, std::optional<std::uint64_t>& dispatches,
                           const Cancellation* cancellation) {
    Library& library = device_->library();
    std::unique_lock counting(library.counting, std::defer_lock);
    if (library.has_counters()) {
        counting.lock();
    }
    const std::uint64_t before = library.counter("dispatches");
    const auto start = Clock::now();
    device_->execute(list, place(), cancellation);
    const double seconds = seconds_since(start);
    if (counting) {
        dispatches = library.counter("dispatches") - before;
    }
    return seconds;
}

void Executable::close() {
    const std::lock_guard lock(mutex_);
    held_.reset();
}

Executable::Held& Executable::held() {
    if (!held_) {
        Error error(ErrorKind::use, "the executable is closed");
        error.graph = graph_.name;
        throw error;
    }
    return *held_;
}

ExecutableStats Executable::stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
}

}  // namespace dmlgraph
