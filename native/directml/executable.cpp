#include "directml/executable.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <utility>

#include "directml/compile.h"
#include "directml/flights.h"
#include "directml/names.h"
#include "directml/recording.h"

namespace dmlgraph {
namespace {

using namespace abi;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr double worth_cancelling = 0.01;  // seconds

// Each step has a command list while it runs. Even, so that chains go on alike.
constexpr std::size_t most_steps_at_a_time = 128;

// A set of states that is updated whole by several steps has six: each of three tensors before each other one.
constexpr std::size_t most_bound = 12;

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

// The bytes of those slots that fulfil a condition; 0 for the others.
template <class Slot, class Condition>
std::vector<std::uint64_t> sizes_of(const std::vector<Slot>& slots, const Condition& condition) {
    std::vector<std::uint64_t> bytes(slots.size());
    std::ranges::transform(slots, bytes.begin(), [&](const Slot& slot) { return condition(slot) ? slot.bytes : 0; });
    return bytes;
}

std::vector<std::uint64_t> owned_bytes(const GraphDesc& graph) {
    return sizes_of(graph.inputs, [](const GraphInput& input) { return input.owned; });
}

// Which tensors of chains a step has: the first step reads what no other one does, the later ones take turns.
constexpr std::size_t phases = 3;
std::size_t phase(const Run& run, std::size_t step) { return run.chains.empty() || step == 0 ? 0 : 1 + (step - 1) % 2; }

// What a step reads of a chain, and then what it writes.
const Resident& read_of(const Chain& chain, std::size_t step) {
    return *chain.tensors[step == 0 ? 0 : 1 + (step - 1) % 2];
}
const Resident& written_of(const Chain& chain, std::size_t step) { return read_of(chain, step + 1); }

}  // namespace

struct Executable::Held {
    Held(Device& device, ComPtr<IDMLCompiledOperator> compiled, RunLayout layout, std::shared_ptr<Buffer> persistent)
        : compiled(std::move(compiled)),
          layout(std::move(layout)),
          flights(device.memory(), this->layout.needs),
          persistent(std::move(persistent)) {}

    DML_BUFFER_BINDING persistent_binding() const {
        return persistent ? DML_BUFFER_BINDING{&persistent->resource(), 0, persistent->bytes()} : DML_BUFFER_BINDING{};
    }

    ComPtr<IDMLCompiledOperator> compiled;
    RunLayout layout;
    Flights flights;
    std::shared_ptr<Buffer> persistent;                            // null for zero bytes
    std::map<std::size_t, std::shared_ptr<Recycler>> recyclers{};  // of outputs that stay on the device
};

struct Executable::Flying {
    Held& held;
    const Run& run;
    Flights::Flight flight;
    ExecutableStats stats;
    const Cancellation* cancellation;  // null: it is short
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
    const auto going = [&](Target target) {
        return sizes_of(graph_.outputs, [target](const GraphOutput& output) { return output.target == target; });
    };
    std::vector<BufferNeed> needs;
    TensorMemory inputs(
        Direction::upload, access,
        sizes_of(graph_.inputs, [](const GraphInput& input) { return !input.owned && !input.resident; }), "the inputs",
        needs);
    TensorMemory outputs(Direction::readback, access, going(Target::back), "the outputs", needs);
    TensorMemory rows(Direction::readback, Access::device, going(Target::rows), "the rows of states", needs);
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
                         {std::move(needs), std::move(inputs), std::move(outputs), std::move(rows), temporary},
                         std::move(persistent)));
    held_->flights.begin(place());  // now, not at the first run, the memory must be there
    stats_.budget = query_memory_budget(device_->adapter());
}

Executable::~Executable() = default;

void Executable::write_owned(std::span<const std::span<const std::byte>> data, const TensorMemory& memory,
                             const BufferPool::Lease& lease) const {
    require_count(data.size(), graph_.inputs.size(), "inputs");
    for (std::size_t i = 0; i < data.size(); ++i) {
        const GraphInput& input = graph_.inputs[i];
        if (input.owned) {
            require_bytes(data[i].size(), input.bytes, "input '" + input.name + "'");
            memory.write(*device_, lease, i, data[i], place());
        }
    }
}

std::uint64_t Executable::initialize(std::span<const std::span<const std::byte>> data,
                                     const Cancellation* cancellation) {
    const std::lock_guard alone(initializing_);
    const std::shared_ptr<Held> kept = this->held();
    const Held& held = *kept;
    device_->require_alive(place());
    const auto start = Clock::now();

    ComPtr<IDMLOperatorInitializer> initializer;
    IDMLCompiledOperator* operators[] = {held.compiled.get()};
    device_->check(
        device_->directml().CreateOperatorInitializer(1, operators, IDMLOperatorInitializer::iid, initializer.put()),
        "CreateOperatorInitializer", place());
    set_name(*initializer, label("initializer"));

    // DirectML copies the owned inputs from upload memory into its persistent buffer: they are in the adapter's
    // memory once.
    std::vector<BufferNeed> needs;
    const TensorMemory owned(Direction::upload, Access::upload, owned_bytes(graph_), "the owned inputs", needs);
    const std::uint64_t temporary_bytes = initializer->GetBindingProperties().TemporaryResourceSize;
    std::optional<std::size_t> temporary;
    if (temporary_bytes) {
        temporary = needs.size();
        needs.push_back({BufferKind::device, temporary_bytes, "the temporary buffer of the initialisation"});
    }
    BufferPool::Member member(device_->memory(), std::move(needs));
    const BufferPool::Lease lease = member.lease({}, place());
    write_owned(data, owned, lease);

    const Dispatch dispatch(*device_, *initializer, label("initialisation"), place());
    CommandLists lists(*device_, label("initialisation"), place());
    record_initialization(lists, dispatch, lease, owned, binding_of(lease, temporary, temporary_bytes), held);
    initialization_ = 0;
    std::optional<std::uint64_t> dispatches;
    ID3D12CommandList* const list[] = {&lists[0]};
    execute(list, dispatches, cancellation);
    initialization_ = ++initializations_;
    const std::lock_guard lock(mutex_);
    stats_.initialize_dispatches = dispatches;
    stats_.initialize_seconds = seconds_since(start);
    return initialization_;
}

void Executable::record_initialization(CommandLists& lists, const Dispatch& dispatch, const BufferPool::Lease& lease,
                                       const TensorMemory& owned, const DML_BUFFER_BINDING& temporary,
                                       const Held& held) const {
    ID3D12GraphicsCommandList& list = lists.open();
    for (const auto& buffer : lease.buffers()) {
        activate(list, *buffer);
    }
    if (held.persistent) {
        activate(list, *held.persistent);
    }
    if (temporary.Buffer) {
        const DML_BINDING_DESC desc = binding_desc(temporary);
        dispatch.table().BindTemporaryResource(&desc);
    }
    const DML_BUFFER_BINDING persistent_binding = held.persistent_binding();
    if (persistent_binding.Buffer) {
        const DML_BINDING_DESC desc = binding_desc(persistent_binding);
        dispatch.table().BindOutputs(1, &desc);
    }
    std::vector<DML_BUFFER_BINDING> inputs(graph_.inputs.size());  // no buffer: nothing is bound
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (connected_[i] && graph_.inputs[i].owned) {
            inputs[i] = owned.binding(lease, i);
        }
    }
    const DML_BUFFER_ARRAY_BINDING all_inputs{static_cast<std::uint32_t>(inputs.size()), inputs.data()};
    if (std::ranges::any_of(inputs, [](const DML_BUFFER_BINDING& input) { return input.Buffer != nullptr; })) {
        const DML_BINDING_DESC desc{DML_BINDING_TYPE_BUFFER_ARRAY, &all_inputs};
        dispatch.table().BindInputs(1, &desc);
    }
    dispatch.record(list);
    lists.close();
}

std::shared_ptr<Bound> Executable::bound(Flying& flying, std::size_t step) const {
    const Run& run = flying.run;
    std::vector<const Resident*> tensors;
    tensors.reserve(run.inputs.size() + run.outputs.size());
    for (const RunInput& input : run.inputs) {
        tensors.push_back(input.resident);
    }
    for (const RunOutput& output : run.outputs) {
        tensors.push_back(output.resident);
    }
    for (const Chain& chain : run.chains) {
        tensors[chain.input] = &read_of(chain, step);
        tensors[run.inputs.size() + chain.output] = &written_of(chain, step);
    }
    std::vector<std::uint64_t> ids = flying.flight.lease().ids();
    for (const Resident* tensor : tensors) {
        ids.push_back(tensor ? tensor->buffer()->id() : 0);
    }
    std::vector<std::shared_ptr<Bound>>& all = flying.flight.bound();
    const auto found = std::ranges::find(all, ids, &Bound::ids);
    if (found != all.end()) {
        std::rotate(found, found + 1, all.end());
        return all.back();
    }
    auto made = std::make_shared<Bound>(*device_, *flying.held.compiled, label("run"), place());
    made->ids = std::move(ids);
    if (timed_) {
        made->times.emplace(*device_, label("run"), place());
    }
    bind(flying.held, tensors, flying.flight.lease(), made->dispatch.table());
    if (all.size() == most_bound) {
        all.erase(all.begin());
    }
    all.push_back(made);
    return made;
}

void Executable::bind(const Held& held, std::span<const Resident* const> tensors, const BufferPool::Lease& lease,
                      IDMLBindingTable& table) const {
    const auto resident = [](const Resident& tensor) {
        return DML_BUFFER_BINDING{&tensor.buffer()->resource(), 0, tensor.bytes()};
    };
    std::vector<DML_BUFFER_BINDING> inputs(graph_.inputs.size());  // no buffer: nothing is bound
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (connected_[i] && !graph_.inputs[i].owned) {
            inputs[i] = tensors[i] ? resident(*tensors[i]) : held.layout.inputs.binding(lease, i);
        }
    }
    std::vector<DML_BUFFER_BINDING> outputs(graph_.outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const Resident* tensor = tensors[inputs.size() + i];
        const bool is_rows = graph_.outputs[i].target == Target::rows;
        outputs[i] = tensor ? resident(*tensor) : (is_rows ? held.layout.rows : held.layout.outputs).binding(lease, i);
    }
    const auto input_descs = binding_descs(inputs);
    const auto output_descs = binding_descs(outputs);
    table.BindInputs(static_cast<std::uint32_t>(input_descs.size()), input_descs.data());
    table.BindOutputs(static_cast<std::uint32_t>(output_descs.size()), output_descs.data());
    const DML_BUFFER_BINDING temporary = binding_of(lease, held.layout.temporary, stats_.temporary_bytes);
    if (temporary.Buffer) {
        const DML_BINDING_DESC desc = binding_desc(temporary);
        table.BindTemporaryResource(&desc);
    }
    const DML_BUFFER_BINDING persistent = held.persistent_binding();
    if (persistent.Buffer) {
        const DML_BINDING_DESC desc = binding_desc(persistent);
        table.BindPersistentResource(&desc);
    }
}

bool Executable::run(std::uint64_t initialization, const Run& run, const Cancellation* cancellation) {
    const std::shared_lock with_others(initializing_);
    const std::shared_ptr<Held> held = this->held();
    if (initialization == 0 || initialization != initialization_) {
        return false;
    }
    require_valid(graph_, run, *device_);
    device_->require_alive(place());

    Flying flying{*held, run, held->flights.begin(place()), stats(), cancellation};
    ExecutableStats& now = flying.stats;
    {
        const std::lock_guard lock(mutex_);
        if (now.runs > 0 && step_seconds_ * static_cast<double>(run.steps) < worth_cancelling) {
            flying.cancellation = nullptr;
        }
    }
    now.submissions = now.waits = now.uploaded_bytes = now.read_bytes = 0;
    now.dispatches = std::nullopt;
    now.upload_seconds = now.run_seconds = now.readback_seconds = 0;
    try {
        if (run.steps == 1) {
            run_once(flying);
        } else {
            for (std::size_t first = 0; first < run.steps; first += most_steps_at_a_time) {
                run_steps(flying, first, std::min(most_steps_at_a_time, run.steps - first));
            }
        }
    } catch (...) {
        flying.flight.bound().clear();  // a list may not be complete
        throw;
    }
    if (cancellation && cancellation->cancelled()) {
        Error error(ErrorKind::cancelled, "the run is cancelled");
        error.graph = graph_.name;
        throw error;
    }
    read_outputs(flying);

    const std::lock_guard lock(mutex_);
    step_seconds_ = now.run_seconds / static_cast<double>(run.steps);
    now.runs = stats_.runs + run.steps;  // others may have ended in the meantime
    stats_ = now;
    return true;
}

void Executable::run_once(Flying& flying) const {
    const Run& run = flying.run;
    const BufferPool::Lease& lease = flying.flight.lease();
    const auto bound = this->bound(flying, 0);
    const RunCopies copies(graph_, flying.held.layout, lease, run);
    if (!bound->whole.count()) {
        ID3D12GraphicsCommandList& list = bound->whole.open();
        copies.begin(list);
        if (bound->times) {
            bound->times->begin(list);
        }
        bound->dispatch.record(list);
        if (bound->times) {
            bound->times->end(list);
        }
        copies.end(list);
        bound->whole.close();
    }
    std::vector<ID3D12CommandList*> lists{&bound->whole[0]};
    if (!run.appends.empty()) {
        bound->copies.restart();
        copies.append(bound->copies.open(), 0);
        bound->copies.close();
        lists.push_back(&bound->copies[0]);
    }
    write_inputs(flying, 0);
    execute(lists, flying);
    if (bound->times) {
        flying.stats.device_seconds = bound->times->seconds();
    }
}

void Executable::run_steps(Flying& flying, std::size_t first, std::size_t count) const {
    const Run& run = flying.run;
    const BufferPool::Lease& lease = flying.flight.lease();
    const StepMemory memory(graph_, run, count);
    BufferPool::Member member(device_->memory(), memory.needs());
    const BufferPool::Lease step_lease = member.lease({}, place());
    for (const StepMemory::Placed& each : memory.inputs()) {
        const auto bytes = run.inputs[each.slot].bytes.subspan(first * each.bytes, count * each.bytes);
        step_lease[each.need].write(*device_, each.offset, bytes.data(), bytes.size(), place());
        flying.stats.uploaded_bytes += bytes.size() - each.bytes;  // the first one is in the place of the input
    }
    write_inputs(flying, first);

    const RunCopies copies(graph_, flying.held.layout, lease, run);
    std::array<std::shared_ptr<Bound>, phases> bound;
    std::array<std::size_t, phases> used{};
    std::vector<ID3D12CommandList*> lists;
    for (std::size_t step = first; step < first + count; ++step) {
        const std::size_t index = phase(run, step);
        if (!bound[index]) {
            bound[index] = this->bound(flying, step);
            bound[index]->copies.restart();
        }
        Bound& now = *bound[index];
        const auto copied = [&](const auto& record) {
            record(now.copies.open());
            now.copies.close();
            lists.push_back(&now.copies[now.copies.count() - 1]);
        };
        if (step == first) {
            copied([&](ID3D12GraphicsCommandList& list) { copies.begin(list, &memory); });
        }
        if (used[index] == now.steps.count()) {
            now.dispatch.record(now.steps.open());
            now.steps.close();
        }
        lists.push_back(&now.steps[used[index]++]);
        copied([&](ID3D12GraphicsCommandList& list) {
            copies.between(list, memory, step_lease, step, step - first, step + 1 == first + count);
        });
    }
    execute(lists, flying);
    for (const StepMemory::Placed& each : memory.outputs()) {
        const auto bytes = run.outputs[each.slot].bytes.subspan(first * each.bytes, count * each.bytes);
        step_lease[each.need].read(*device_, each.offset, bytes.data(), bytes.size(), place());
        flying.stats.read_bytes += bytes.size();
    }
}

void Executable::write_inputs(Flying& flying, std::size_t step) const {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
        const GraphInput& input = graph_.inputs[i];
        if (input.owned || input.resident || flying.run.inputs[i].resident) {
            continue;
        }
        const std::span<const std::byte> given = flying.run.inputs[i].bytes;
        const bool changes = given.size() > input.bytes;
        const auto bytes = changes ? given.subspan(step * input.bytes, input.bytes) : given;
        flying.held.layout.inputs.write(*device_, flying.flight.lease(), i, bytes, place());
        flying.stats.uploaded_bytes += input.bytes;
    }
    flying.stats.upload_seconds += seconds_since(start);
}

void Executable::read_outputs(Flying& flying) const {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
        const GraphOutput& output = graph_.outputs[i];
        const std::span<std::byte> bytes = flying.run.outputs[i].bytes;
        if (output.target == Target::back && !flying.run.outputs[i].resident && bytes.size() <= output.bytes) {
            flying.held.layout.outputs.read(*device_, flying.flight.lease(), i, bytes, place());
            flying.stats.read_bytes += output.bytes;
        }
    }
    flying.stats.readback_seconds = seconds_since(start);
}

void Executable::execute(std::span<ID3D12CommandList* const> lists, Flying& flying) const {
    std::optional<std::uint64_t> dispatches;
    ExecutableStats& stats = flying.stats;
    ++stats.submissions;
    ++stats.waits;
    stats.run_seconds += execute(lists, dispatches, flying.cancellation);
    if (dispatches) {
        stats.dispatches = stats.dispatches.value_or(0) + *dispatches;
    }
}

double Executable::execute(std::span<ID3D12CommandList* const> lists, std::optional<std::uint64_t>& dispatches,
                           const Cancellation* cancellation) const {
    Library& library = device_->library();
    std::unique_lock counting(library.counting, std::defer_lock);
    if (library.has_counters()) {
        counting.lock();
    }
    const std::uint64_t before = library.counter("dispatches");
    const auto start = Clock::now();
    device_->execute(lists, place(), cancellation);
    const double seconds = seconds_since(start);
    if (counting) {
        dispatches = library.counter("dispatches") - before;
    }
    return seconds;
}

std::unique_ptr<Resident> Executable::keep(std::size_t output) {
    const GraphOutput& slot = graph_.outputs.at(output);
    const std::shared_ptr<Held> held = this->held();
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Recycler>& recycler = held->recyclers[output];
    if (!recycler) {
        recycler = std::make_shared<Recycler>();
    }
    return std::make_unique<Resident>(device_, slot.bytes, label("output '" + slot.name + "'"), recycler);
}

void Executable::close() {
    std::shared_ptr<Held> last;  // destroyed without the lock
    const std::lock_guard lock(mutex_);
    last.swap(held_);
}

std::shared_ptr<Executable::Held> Executable::held() {
    const std::lock_guard lock(mutex_);
    if (!held_) {
        Error error(ErrorKind::use, "the executable is closed");
        error.graph = graph_.name;
        throw error;
    }
    return held_;
}

ExecutableStats Executable::stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
}

}  // namespace dmlgraph
