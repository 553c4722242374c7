#include "software_adapter/command_list.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "software_adapter/enhanced_barriers.h"
#include "software_adapter/pipeline.h"

namespace dmlgraph::software {
namespace {

// Root constants are read in rows of four.
constexpr size_t row = 4;
constexpr uint64_t max_constant_buffer = 65536;

size_t rows_of(uint32_t constants) { return (constants + row - 1) / row * row; }

const RootParameter& parameter_of(const RootSignature& root_signature, const RootBinding& binding) {
    return root_signature.desc().parameters[binding.parameter];
}

// The state that a buffer must have for the views of a shader's range.
D3D12_RESOURCE_STATES state_for(const SwResourceRange& range) {
    constexpr D3D12_RESOURCE_STATES states[] = {
        D3D12_RESOURCE_STATE_NON_PIXEL_SHADER_RESOURCE, D3D12_RESOURCE_STATE_UNORDERED_ACCESS,
        D3D12_RESOURCE_STATE_VERTEX_AND_CONSTANT_BUFFER, D3D12_RESOURCE_STATE_COMMON};  // there are no samplers
    return states[range.resource_class];
}

// The use of a whole buffer by a copy.
Use use_of(const Resource& buffer, D3D12_RESOURCE_STATES state) {
    const BufferInfo& at = buffer.live()->buffer;
    return {buffer.live(), state, at.begin, at.end, state == D3D12_RESOURCE_STATE_COPY_DEST ? SW_WRITES : SW_READS};
}

// Whether an address is in the code of the DirectML library.
bool is_directml(const void* address) {
    Dl_info info{};
    return dladdr(address, &info) != 0 && info.dli_fname && std::strstr(info.dli_fname, "directml.so");
}

// The view for a buffer's address in the root arguments. It has no size of its own: it extends to the end of
// the memory.
SwView root_view(const DeviceState& device, const SwResourceRange& range, D3D12_ROOT_PARAMETER_TYPE type,
                 uint64_t address) {
    SwView view{};
    view.data = reinterpret_cast<char*>(address);
    view.size = address == 0 ? 0 : device.bytes_from(address);
    view.stride = range.stride > 0 ? range.stride : 1;
    if (type == D3D12_ROOT_PARAMETER_TYPE_CBV) {
        view.size = std::min(view.size, max_constant_buffer);
    }
    return view;
}

// The format that a clear writes: a raw view consists of 32-bit numbers.
const FormatInfo* clear_format(const SwView& view) {
    const bool raw = view.format == DXGI_FORMAT_UNKNOWN && view.stride == 1;
    return find_format(raw ? DXGI_FORMAT_R32_UINT : static_cast<DXGI_FORMAT>(view.format));
}

}  // namespace

HRESULT CommandAllocator::Reset() {
    if (const HRESULT fault = device_state().fault(); failed(fault)) {
        return fault;
    }
    if (device_state().validation && (use_->recording || live()->is_in_flight())) {
        device_state().report(live()->describe() + " is reset while " +
                              (use_->recording ? "a list that is open uses it"
                                               : "submitted work may still use it; no fence was waited for"));
        return E_FAIL;
    }
    ++use_->resets;
    return S_OK;
}

CommandList::CommandList(const DeviceOwner& owner, D3D12_COMMAND_LIST_TYPE type, CommandAllocator* allocator,
                         PipelineState* pipeline)
    : DeviceChild(owner), type_(type), open_(allocator != nullptr) {
    start(allocator, pipeline);
}

CommandList::~CommandList() { leave_allocator(); }

void CommandList::start(CommandAllocator* allocator, PipelineState* pipeline) {
    failed_ = false;
    commands_ = std::make_shared<Commands>();
    steps_.clear();
    if (allocator) {
        allocator_ = allocator->use();
        allocator_->recording = true;
        allocator_resets_ = allocator_->resets;
    }
    ClearState(pipeline);
}

void CommandList::leave_allocator() {
    if (open_ && allocator_) {
        allocator_->recording = false;
    }
}

HRESULT CommandList::Close() {
    if (!open_) {
        return E_FAIL;
    }
    if (const HRESULT fault = device_state().fault(); failed(fault)) {
        return fault;
    }
    leave_allocator();
    open_ = false;
    if (const Validation* const validation = device_state().validation.get()) {
        try {
            ResourceStates(ResourceStates::Time::closing, [&](uint64_t number) {
                return validation->find(number);
            }).follow(steps_, type_);
        } catch (const Refusal& refusal) {
            fail(refusal.what());
        }
    }
    if (failed_) {
        steps_.clear();
        commands_ = std::make_shared<Commands>();
        return E_INVALIDARG;
    }
    return S_OK;
}

HRESULT CommandList::Reset(ID3D12CommandAllocator* allocator, ID3D12PipelineState* pipeline) {
    if (!allocator || static_cast<CommandAllocator*>(allocator)->type() != type_) {
        return E_INVALIDARG;
    }
    if (open_) {
        return E_FAIL;
    }
    if (const HRESULT fault = device_state().fault(); failed(fault)) {
        return fault;
    }
    auto* const own = static_cast<CommandAllocator*>(allocator);
    if (device_state().validation && own->use()->recording) {
        fail("Reset: " + own->live()->describe() + " is used by another list that is open");
        return E_INVALIDARG;
    }
    open_ = true;
    start(own, static_cast<PipelineState*>(pipeline));
    return S_OK;
}

void CommandList::ClearState(ID3D12PipelineState* pipeline) {
    pipeline_ = static_cast<PipelineState*>(pipeline);
    root_signature_ = nullptr;
    arguments_.clear();
    heaps_.clear();
}

void CommandList::fail(const std::string& reason) {
    failed_ = true;
    device_state().report("recording " + live()->describe() + ": " + reason);
}

void CommandList::check_allocator() const {
    if (allocator_ && allocator_->resets != allocator_resets_) {
        throw Refusal("what was recorded is gone: " + allocator_->object->describe() + " was reset");
    }
}

void CommandList::add_flight(const std::shared_ptr<Flight>& flight) {
    if (allocator_) {
        allocator_->object->add_flight(flight);
    }
}

Step* CommandList::note(const char* method, const void* caller, std::vector<LiveRef> objects) {
    return device_state().validation ? &steps_.emplace_back(Step{method, is_directml(caller), std::move(objects)})
                                     : nullptr;
}

void CommandList::SetDescriptorHeaps(uint32_t count, ID3D12DescriptorHeap* const* heaps) {
    if (!device_state().validation || !can_record("SetDescriptorHeaps")) {
        return;
    }
    heaps_.clear();
    for (ID3D12DescriptorHeap* each : std::span(heaps, count)) {
        auto* const heap = static_cast<DescriptorHeap*>(each);
        if (!heap || !(heap->GetDesc().Flags & D3D12_DESCRIPTOR_HEAP_FLAG_SHADER_VISIBLE) || !heaps_.empty()) {
            fail("SetDescriptorHeaps: " + (heap ? heap->live()->describe() : "a heap") +
                 " is null, not visible to shaders, or the second of its type");
            continue;
        }
        heaps_.push_back({heap->live(), descriptor(heap->GetCPUDescriptorHandleForHeapStart()), heap->end()});
    }
}

const CommandList::SetHeap* CommandList::find_heap(const SwView* first, uint64_t count, const char* method) {
    for (const SetHeap& heap : heaps_) {
        if (heap.begin <= first && first < heap.end && count <= static_cast<uint64_t>(heap.end - first)) {
            return &heap;
        }
    }
    fail(std::string(method) + ": the descriptors are not all in the heap that is set, which is " +
         (heaps_.empty() ? "missing" : heaps_.front().object->describe()));
    return nullptr;
}

void CommandList::ResourceBarrier(uint32_t count, const D3D12_RESOURCE_BARRIER* barriers) {
    if (device_state().validation && can_record("ResourceBarrier")) {
        note_barriers("ResourceBarrier", __builtin_return_address(0), {barriers, count});
    }
}

void CommandList::Barrier(uint32_t count, const D3D12_BARRIER_GROUP* groups) {
    if (!device_state().validation || !can_record("Barrier")) {
        return;
    }
    for (const D3D12_BARRIER_GROUP& group : std::span(groups, count)) {
        try {
            note_barriers("Barrier", __builtin_return_address(0), as_legacy(group));
        } catch (const Refusal& refusal) {
            fail(std::string("Barrier: ") + refusal.what());
        }
    }
}

void CommandList::note_barriers(const char* method, const void* caller,
                                std::span<const D3D12_RESOURCE_BARRIER> barriers) {
    const auto live_of = [](ID3D12Resource* resource) {
        return resource ? static_cast<Resource*>(resource)->live() : nullptr;
    };
    for (const D3D12_RESOURCE_BARRIER& each : barriers) {
        const bool aliases = each.Type == D3D12_RESOURCE_BARRIER_TYPE_ALIASING;
        note(method, caller)->barrier =
            software::Barrier{each, aliases ? live_of(each.Aliasing.pResourceBefore) : nullptr,
                              live_of(aliases ? each.Aliasing.pResourceAfter
                                      : each.Type == D3D12_RESOURCE_BARRIER_TYPE_TRANSITION ? each.Transition.pResource
                                                                                            : each.UAV.pResource)};
    }
}

bool CommandList::can_record(const char* method) {
    if (!open_) {
        fail(std::string(method) + ": the list is closed");
    }
    return open_;
}

void CommandList::SetPipelineState(ID3D12PipelineState* pipeline) {
    if (can_record("SetPipelineState")) {
        pipeline_ = static_cast<PipelineState*>(pipeline);
    }
}

void CommandList::SetComputeRootSignature(ID3D12RootSignature* root_signature) {
    if (!can_record("SetComputeRootSignature") || root_signature == root_signature_) {
        return;
    }
    root_signature_ = static_cast<RootSignature*>(root_signature);
    arguments_.assign(root_signature_ ? root_signature_->desc().parameters.size() : 0, {});
}

CommandList::RootArgument* CommandList::argument(uint32_t parameter, D3D12_ROOT_PARAMETER_TYPE type,
                                                 const char* method) {
    if (!can_record(method)) {
        return nullptr;
    }
    if (parameter >= arguments_.size() || root_signature_->desc().parameters[parameter].type != type) {
        fail(std::string(method) + ": root parameter " + std::to_string(parameter) +
             " has a different type or is missing");
        return nullptr;
    }
    return &arguments_[parameter];
}

void CommandList::SetComputeRootDescriptorTable(uint32_t parameter, D3D12_GPU_DESCRIPTOR_HANDLE base) {
    constexpr auto method = "SetComputeRootDescriptorTable";
    if (!device_state().validation || find_heap(descriptor(base), 1, method)) {
        set_view(parameter, D3D12_ROOT_PARAMETER_TYPE_DESCRIPTOR_TABLE, base.ptr, method);
    }
}

void CommandList::set_view(uint32_t parameter, D3D12_ROOT_PARAMETER_TYPE type, uint64_t value, const char* method) {
    if (auto* target = argument(parameter, type, method)) {
        target->is_set = true;
        target->value = value;
    }
}

void CommandList::SetComputeRoot32BitConstant(uint32_t parameter, uint32_t value, uint32_t offset) {
    SetComputeRoot32BitConstants(parameter, 1, &value, offset);
}

void CommandList::SetComputeRoot32BitConstants(uint32_t parameter, uint32_t count, const void* values,
                                               uint32_t offset) {
    auto* target = argument(parameter, D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS, "SetComputeRoot32BitConstants");
    if (!target || count == 0) {
        return;
    }
    const uint32_t available = root_signature_->desc().parameters[parameter].constants.Num32BitValues;
    if (!values || offset > available || count > available - offset) {
        fail("SetComputeRoot32BitConstants: root parameter " + std::to_string(parameter) + " has " +
             std::to_string(available) + " constants, not " + std::to_string(uint64_t{offset} + count));
        return;
    }
    target->is_set = true;
    target->constants.resize(rows_of(available));
    std::memcpy(target->constants.data() + offset, values, count * sizeof(uint32_t));
}

void CommandList::SetComputeRootConstantBufferView(uint32_t parameter, D3D12_GPU_VIRTUAL_ADDRESS address) {
    set_view(parameter, D3D12_ROOT_PARAMETER_TYPE_CBV, address, "SetComputeRootConstantBufferView");
}

void CommandList::SetComputeRootShaderResourceView(uint32_t parameter, D3D12_GPU_VIRTUAL_ADDRESS address) {
    set_view(parameter, D3D12_ROOT_PARAMETER_TYPE_SRV, address, "SetComputeRootShaderResourceView");
}

void CommandList::SetComputeRootUnorderedAccessView(uint32_t parameter, D3D12_GPU_VIRTUAL_ADDRESS address) {
    set_view(parameter, D3D12_ROOT_PARAMETER_TYPE_UAV, address, "SetComputeRootUnorderedAccessView");
}

bool CommandList::bind(DispatchCommand& command) {
    const auto ranges = pipeline_->ranges();
    const auto bindings = pipeline_->bindings();
    // Set the sizes first: pointers into both vectors are taken below.
    size_t constants = 0;
    for (const auto& binding : bindings) {
        constants += arguments_[binding.parameter].constants.size();
    }
    command.constants.reserve(constants);
    command.root_views.reserve(bindings.size());
    command.views.reserve(bindings.size());
    for (size_t i = 0; i < bindings.size(); ++i) {
        const auto& binding = bindings[i];
        const auto& argument = arguments_[binding.parameter];
        const auto type = parameter_of(*root_signature_, binding).type;
        if (type == D3D12_ROOT_PARAMETER_TYPE_DESCRIPTOR_TABLE) {
            if (argument.value == 0) {
                fail("Dispatch: the descriptor table of root parameter " + std::to_string(binding.parameter) +
                     " is not set");
                return false;
            }
            // Volatile descriptors may still change: the kernel will read the view in the heap itself.
            command.views.push_back(descriptor(D3D12_GPU_DESCRIPTOR_HANDLE{argument.value}) + binding.offset);
            continue;
        }
        auto& view = command.root_views.emplace_back();
        if (type == D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS) {
            const auto at =
                command.constants.insert(command.constants.end(), argument.constants.begin(), argument.constants.end());
            view = {reinterpret_cast<char*>(std::to_address(at)), argument.constants.size() * sizeof(uint32_t), 1, 0,
                    0};
        } else {
            view = root_view(device_state(), ranges[i], type, argument.value);
        }
        command.views.push_back(&view);
    }
    return true;
}

bool CommandList::note_dispatch(const void* caller) {
    Step* const step = note("Dispatch", caller, {pipeline_->live(), root_signature_->live()});
    for (size_t i = 0; step && i < pipeline_->bindings().size(); ++i) {
        if (!note_binding(*step, pipeline_->ranges()[i], pipeline_->bindings()[i])) {
            return false;
        }
    }
    return true;
}

bool CommandList::note_binding(Step& step, const SwResourceRange& range, const RootBinding& binding) {
    const auto& argument = arguments_[binding.parameter];
    const auto type = parameter_of(*root_signature_, binding).type;
    const std::string parameter = "root parameter " + std::to_string(binding.parameter);
    if (!argument.is_set) {
        fail("Dispatch: " + parameter + " is not set");
        return false;
    }
    if (type == D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS) {
        return true;
    }
    const auto state = state_for(range);
    if (type == D3D12_ROOT_PARAMETER_TYPE_DESCRIPTOR_TABLE) {
        const SwView* const first = descriptor(D3D12_GPU_DESCRIPTOR_HANDLE{argument.value}) + binding.offset;
        const uint32_t count = range.count == UINT32_MAX ? 1 : range.count;
        const SetHeap* const heap = find_heap(first, count, "Dispatch");
        if (heap) {
            step.objects.push_back(heap->object);
            step.views.push_back({first, count, state, range.access, !binding.is_volatile});
        }
        return heap != nullptr;
    }
    const LiveRef buffer = device_state().validation->find_at(argument.value);
    if (!buffer) {
        fail("Dispatch: " + parameter + " is an address in no buffer");
        return false;
    }
    step.uses.push_back({buffer, state, argument.value, buffer->buffer.end, range.access});
    return true;
}

void CommandList::BeginEvent(uint32_t, const void*, uint32_t) {
    if (can_record("BeginEvent")) {
        commands_->push_back(EventCommand{true});
    }
}

void CommandList::EndEvent() {
    if (can_record("EndEvent")) {
        commands_->push_back(EventCommand{false});
    }
}

void CommandList::Dispatch(uint32_t x, uint32_t y, uint32_t z) {
    if (!can_record("Dispatch")) {
        return;
    }
    if (!pipeline_ || !root_signature_ || !pipeline_->root_signature().same_as(*root_signature_)) {
        fail("Dispatch: no pipeline or no root signature is set, or the root signature does not match the pipeline");
        return;
    }
    if (std::max({x, y, z}) > max_thread_groups_per_dimension) {
        fail("Dispatch: more than 65535 thread groups in one dimension");
        return;
    }
    DispatchCommand command{pipeline_, {x, y, z}, {}, {}, {}};
    if (note_dispatch(__builtin_return_address(0)) && bind(command)) {
        commands_->push_back(std::move(command));
    }
}

void CommandList::CopyBufferRegion(ID3D12Resource* target, uint64_t target_offset, ID3D12Resource* source,
                                   uint64_t source_offset, uint64_t size) {
    if (!can_record("CopyBufferRegion")) {
        return;
    }
    const auto* to = static_cast<Resource*>(target);
    const auto* from = static_cast<Resource*>(source);
    if (!to || !from || !to->holds(target_offset, size) || !from->holds(source_offset, size)) {
        fail("CopyBufferRegion: " + std::to_string(size) + " bytes are not all inside the two buffers");
        return;
    }
    if (Step* const step = note("CopyBufferRegion", __builtin_return_address(0))) {
        step->uses = {use_of(*to, D3D12_RESOURCE_STATE_COPY_DEST), use_of(*from, D3D12_RESOURCE_STATE_COPY_SOURCE)};
    }
    commands_->push_back(CopyCommand{to->data() + target_offset, from->data() + source_offset, size});
}

void CommandList::CopyResource(ID3D12Resource* target, ID3D12Resource* source) {
    const auto* to = static_cast<Resource*>(target);
    const auto* from = static_cast<Resource*>(source);
    if (!to || !from || to->size() != from->size()) {
        fail("CopyResource: the two buffers differ in size");
        return;
    }
    CopyBufferRegion(target, 0, source, 0, to->size());
}

template <class Value>
void CommandList::clear(const char* method, const void* caller, D3D12_GPU_DESCRIPTOR_HANDLE handle, const SwView& view,
                        ID3D12Resource* resource, const Value* values, uint32_t rect_count, const D3D12_RECT* rects) {
    if (!can_record(method)) {
        return;
    }
    const auto* format = clear_format(view);
    if (!format || !values || (rect_count > 0 && !rects)) {
        fail(std::string(method) + ": the view is neither typed nor raw, or a pointer is null");
        return;
    }
    if (device_state().validation) {
        const SetHeap* const heap = find_heap(descriptor(handle), 1, method);
        if (!heap || !resource || static_cast<Resource*>(resource)->live()->number() != view.resource) {
            fail(std::string(method) + ": the resource is not that of the view");
            return;
        }
        const auto begin = reinterpret_cast<uint64_t>(view.data);
        note(method, caller, {heap->object})
            ->uses.push_back({static_cast<Resource*>(resource)->live(), D3D12_RESOURCE_STATE_UNORDERED_ACCESS, begin,
                              begin + view.size, SW_WRITES});
    }
    const auto element = pack(*format, values);
    const uint64_t elements = view.size / format->bytes();
    auto fill = [&](uint64_t first, uint64_t last) {
        commands_->push_back(FillCommand{view.data + first * format->bytes(), last - first, format->bytes(), element});
    };
    if (rect_count == 0) {
        fill(0, elements);
    }
    for (uint32_t i = 0; i < rect_count; ++i) {  // for a buffer, only left and right matter
        const uint64_t left = std::clamp<int64_t>(rects[i].left, 0, static_cast<int64_t>(elements));
        const uint64_t right = std::clamp<int64_t>(rects[i].right, 0, static_cast<int64_t>(elements));
        if (left < right) {
            fill(left, right);
        }
    }
}

void CommandList::ClearUnorderedAccessViewUint(D3D12_GPU_DESCRIPTOR_HANDLE handle, D3D12_CPU_DESCRIPTOR_HANDLE view,
                                               ID3D12Resource* resource, const uint32_t* values, uint32_t rect_count,
                                               const D3D12_RECT* rects) {
    clear("ClearUnorderedAccessViewUint", __builtin_return_address(0), handle, *descriptor(view), resource, values,
          rect_count, rects);
}

void CommandList::ClearUnorderedAccessViewFloat(D3D12_GPU_DESCRIPTOR_HANDLE handle, D3D12_CPU_DESCRIPTOR_HANDLE view,
                                                ID3D12Resource* resource, const float* values, uint32_t rect_count,
                                                const D3D12_RECT* rects) {
    clear("ClearUnorderedAccessViewFloat", __builtin_return_address(0), handle, *descriptor(view), resource, values,
          rect_count, rects);
}

void CommandList::EndQuery(ID3D12QueryHeap* heap, D3D12_QUERY_TYPE type, uint32_t index) {
    if (!can_record("EndQuery")) {
        return;
    }
    auto* queries = static_cast<QueryHeap*>(heap);
    if (!queries || type != D3D12_QUERY_TYPE_TIMESTAMP || index >= queries->count()) {
        fail("EndQuery: not a timestamp query, or query " + std::to_string(index) + " is not in the heap");
        return;
    }
    note("EndQuery", __builtin_return_address(0), {queries->live()});
    commands_->push_back(TimestampCommand{queries->value(index)});
}

void CommandList::ResolveQueryData(ID3D12QueryHeap* heap, D3D12_QUERY_TYPE type, uint32_t first, uint32_t count,
                                   ID3D12Resource* target, uint64_t offset) {
    if (!can_record("ResolveQueryData") || count == 0) {
        return;
    }
    auto* queries = static_cast<QueryHeap*>(heap);
    const auto* to = static_cast<Resource*>(target);
    const uint64_t size = count * sizeof(uint64_t);
    if (!queries || type != D3D12_QUERY_TYPE_TIMESTAMP || first > queries->count() ||
        count > queries->count() - first || !to || offset % sizeof(uint64_t) != 0 || !to->holds(offset, size)) {
        fail("ResolveQueryData: not timestamp queries, or they are not all in the heap or in the buffer");
        return;
    }
    if (Step* const step = note("ResolveQueryData", __builtin_return_address(0), {queries->live()})) {
        step->uses = {use_of(*to, D3D12_RESOURCE_STATE_COPY_DEST)};
    }
    commands_->push_back(CopyCommand{to->data() + offset, reinterpret_cast<char*>(queries->value(first)), size});
}

}  // namespace dmlgraph::software
