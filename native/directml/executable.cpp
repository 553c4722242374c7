#include "directml/executable.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "directml/compile.h"

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

}  // namespace

// A buffer and its number of bound bytes; no buffer for zero bytes.
struct Executable::WorkBuffer {
    ComPtr<ID3D12Resource> resource;
    std::uint64_t bytes = 0;

    WorkBuffer() = default;
    WorkBuffer(Device& device, std::uint64_t bytes, std::string_view what, Place place) : bytes(bytes) {
        if (bytes) {
            resource = device.create_buffer(BufferKind::device, bytes, what, place);
        }
    }

    DML_BUFFER_BINDING binding() const { return {resource.get(), 0, bytes}; }
};

// A descriptor heap, a binding table in it and a command list for one dispatchable.
class Executable::Recording {
public:
    Recording(Device& device, IDMLDispatchable& dispatchable, Place place)
        : device_(device), dispatchable_(dispatchable), place_(place) {
        // A heap has at least one descriptor; a table may have none.
        const std::uint32_t count = std::max(1u, dispatchable.GetBindingProperties().RequiredDescriptorCount);
        D3D12_DESCRIPTOR_HEAP_DESC heap{};
        heap.Type = D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV;
        heap.NumDescriptors = count;
        heap.Flags = D3D12_DESCRIPTOR_HEAP_FLAG_SHADER_VISIBLE;
        device.check(device.d3d12().CreateDescriptorHeap(&heap, ID3D12DescriptorHeap::iid, heap_.put()),
                     "CreateDescriptorHeap", place);

        DML_BINDING_TABLE_DESC table{};
        table.Dispatchable = &dispatchable;
        table.CPUDescriptorHandle = heap_->GetCPUDescriptorHandleForHeapStart().ptr;
        table.GPUDescriptorHandle = heap_->GetGPUDescriptorHandleForHeapStart().ptr;
        table.SizeInDescriptors = count;
        device.check(device.directml().CreateBindingTable(&table, IDMLBindingTable::iid, table_.put()),
                     "CreateBindingTable", place);

        constexpr auto type = D3D12_COMMAND_LIST_TYPE_COMPUTE;
        device.check(
            device.d3d12().CreateCommandAllocator(type, ID3D12CommandAllocator::iid, allocator_.put()),
            "CreateCommandAllocator", place);
        device.check(device.d3d12().CreateCommandList(0, type, allocator_.get(), nullptr,
                                                      ID3D12GraphicsCommandList::iid, list_.put()),
                     "CreateCommandList", place);
    }

    IDMLBindingTable& table() const { return *table_; }
    ID3D12GraphicsCommandList& list() const { return *list_; }

    void dispatch() {
        ID3D12DescriptorHeap* heaps[] = {heap_.get()};
        list_->SetDescriptorHeaps(1, heaps);
        device_.recorder().RecordDispatch(list_.get(), &dispatchable_, table_.get());
    }

    // DirectML reports an error in a dispatch by removing the device.
    void close() {
        device_.check(list_->Close(), "ID3D12GraphicsCommandList::Close", place_);
        device_.check(device_.directml().GetDeviceRemovedReason(), "IDMLCommandRecorder::RecordDispatch",
                      place_);
    }

private:
    Device& device_;
    IDMLDispatchable& dispatchable_;
    Place place_;
    ComPtr<ID3D12DescriptorHeap> heap_;
    ComPtr<IDMLBindingTable> table_;
    ComPtr<ID3D12CommandAllocator> allocator_;
    ComPtr<ID3D12GraphicsCommandList> list_;
};

struct Executable::Held {
    ComPtr<IDMLCompiledOperator> compiled;
    std::shared_ptr<const TensorMemory> inputs;
    std::shared_ptr<const TensorMemory> outputs;
    WorkBuffer temporary;
    WorkBuffer persistent;
    std::optional<Recording> execution;  // recorded once the operator is initialised
    bool initialized = false;
};

Executable::Executable(std::shared_ptr<Device> device, GraphDesc graph, DML_EXECUTION_FLAGS flags)
    : device_(std::move(device)), graph_(std::move(graph)) {
    std::vector<std::uint64_t> output_bytes;
    for (const GraphInput& input : graph_.inputs) {
        require_buffer_size(input.bytes, "input '" + input.name + "'", place());
    }
    for (const GraphOutput& output : graph_.outputs) {
        require_buffer_size(output.bytes, "output '" + output.name + "'", place());
        output_bytes.push_back(output.bytes);
    }

    const auto start = Clock::now();
    ComPtr<IDMLCompiledOperator> compiled = compile(*device_, graph_, flags);
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

    held_.reset(new Held{
        std::move(compiled),
        std::make_shared<TensorMemory>(*device_, Direction::upload, input_bytes(false), "the inputs",
                                       place()),
        std::make_shared<TensorMemory>(*device_, Direction::readback, output_bytes, "the outputs", place()),
        WorkBuffer(*device_, properties.TemporaryResourceSize, "the temporary buffer", place()),
        WorkBuffer(*device_, properties.PersistentResourceSize, "the persistent buffer", place()),
        {},
    });
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

// Copies the owned inputs' bytes, and binds those that an edge leaves. Returns whether there are any.
bool Executable::take_owned(std::span<const std::span<const std::byte>> data, TensorMemory& owned,
                            std::vector<DML_BUFFER_BINDING>& bindings) const {
    bool any_owned = false;
    for (std::size_t i = 0; i < data.size(); ++i) {
        const GraphInput& input = graph_.inputs[i];
        if (!input.owned) {
            continue;
        }
        if (data[i].size() != input.bytes) {
            throw Error(ErrorKind::use, "input '" + input.name + "' needs " + std::to_string(input.bytes) +
                                            " bytes, got " + std::to_string(data[i].size()));
        }
        std::ranges::copy(data[i], owned.host(position(i)).begin());
        if (connected_[i]) {
            bindings[i] = owned.binding(position(i));
            any_owned = true;
        }
    }
    return any_owned;
}

void Executable::initialize(std::span<const std::span<const std::byte>> data, const Cancellation* cancellation) {
    const std::lock_guard lock(mutex_);
    Held& held = this->held();
    if (data.size() != graph_.inputs.size()) {
        throw Error(ErrorKind::use, "expected data for " + std::to_string(graph_.inputs.size()) +
                                        " inputs, got " + std::to_string(data.size()));
    }
    device_->require_alive(place());
    const auto start = Clock::now();

    TensorMemory owned(*device_, Direction::upload, input_bytes(true), "the owned inputs", place());
    std::vector<DML_BUFFER_BINDING> owned_bindings(graph_.inputs.size());  // no buffer: nothing is bound
    const bool any_owned = take_owned(data, owned, owned_bindings);

    ComPtr<IDMLOperatorInitializer> initializer;
    IDMLCompiledOperator* operators[] = {held.compiled.get()};
    device_->check(device_->directml().CreateOperatorInitializer(1, operators, IDMLOperatorInitializer::iid,
                                                                 initializer.put()),
                   "CreateOperatorInitializer", place());
    Recording recording(*device_, *initializer, place());
    const WorkBuffer temporary(*device_, initializer->GetBindingProperties().TemporaryResourceSize,
                               "the temporary buffer of the initialisation", place());
    const DML_BUFFER_BINDING temporary_binding = temporary.binding();
    if (temporary.bytes) {
        const DML_BINDING_DESC desc = binding_desc(temporary_binding);
        recording.table().BindTemporaryResource(&desc);
    }
    const DML_BUFFER_BINDING persistent_binding = held.persistent.binding();
    if (held.persistent.bytes) {
        const DML_BINDING_DESC desc = binding_desc(persistent_binding);
        recording.table().BindOutputs(1, &desc);
    }
    const DML_BUFFER_ARRAY_BINDING all_owned{static_cast<std::uint32_t>(owned_bindings.size()),
                                             owned_bindings.data()};
    if (any_owned) {
        const DML_BINDING_DESC desc{DML_BINDING_TYPE_BUFFER_ARRAY, &all_owned};
        recording.table().BindInputs(1, &desc);
    }
    owned.record_copies(recording.list());
    recording.dispatch();
    recording.close();
    held.initialized = false;
    execute(recording.list(), stats_.initialize_dispatches, cancellation);
    if (!held.execution) {
        record_execution(held);
    }
    held.initialized = true;
    stats_.initialize_seconds = seconds_since(start);
}

void Executable::record_execution(Held& held) const {
    Recording recording(*device_, *held.compiled, place());
    std::vector<DML_BUFFER_BINDING> inputs(graph_.inputs.size());  // no buffer: nothing is bound
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (connected_[i] && !graph_.inputs[i].owned) {
            inputs[i] = held.inputs->binding(position(i));
        }
    }
    std::vector<DML_BUFFER_BINDING> outputs(graph_.outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        outputs[i] = held.outputs->binding(i);
    }

    const auto input_descs = binding_descs(inputs);
    const auto output_descs = binding_descs(outputs);
    recording.table().BindInputs(static_cast<std::uint32_t>(input_descs.size()), input_descs.data());
    recording.table().BindOutputs(static_cast<std::uint32_t>(output_descs.size()), output_descs.data());
    const DML_BUFFER_BINDING temporary = held.temporary.binding();
    if (temporary.Buffer) {
        const DML_BINDING_DESC desc = binding_desc(temporary);
        recording.table().BindTemporaryResource(&desc);
    }
    const DML_BUFFER_BINDING persistent = held.persistent.binding();
    if (persistent.Buffer) {
        const DML_BINDING_DESC desc = binding_desc(persistent);
        recording.table().BindPersistentResource(&desc);
    }
    held.inputs->record_copies(recording.list());
    recording.dispatch();
    held.outputs->record_copies(recording.list());
    recording.close();
    held.execution.emplace(std::move(recording));
}

void Executable::execute(const Cancellation* cancellation) {
    const std::lock_guard lock(mutex_);
    Held& held = this->held();
    if (!held.initialized) {
        throw Error(ErrorKind::use, "an executable must be initialised before it is executed");
    }
    // A short run need not be cancellable.
    const bool may_last = stats_.runs == 0 || stats_.run_seconds > worth_cancelling;
    stats_.run_seconds =
        execute(held.execution->list(), stats_.dispatches, may_last ? cancellation : nullptr);
    ++stats_.runs;
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

HostTensor Executable::input(std::size_t index) {
    const std::lock_guard lock(mutex_);
    if (index >= graph_.inputs.size() || graph_.inputs[index].owned) {
        throw Error(ErrorKind::use,
                    "input " + std::to_string(index) + " does not exist, or is not given at every run");
    }
    const auto& memory = held().inputs;
    return {memory, memory->host(position(index))};
}

HostTensor Executable::output(std::size_t index) {
    const std::lock_guard lock(mutex_);
    if (index >= graph_.outputs.size()) {
        throw Error(ErrorKind::use, "output " + std::to_string(index) + " does not exist");
    }
    const auto& memory = held().outputs;
    return {memory, memory->host(index)};
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
