#include "software_adapter/command_list.h"

#include <algorithm>
#include <cstring>

#include "software_adapter/log.h"
#include "software_adapter/pipeline.h"

namespace dmlgraph::software {
namespace {

// Root constants are read in rows of four.
constexpr size_t row = 4;
constexpr uint64_t max_constant_buffer = 65536;

size_t rows_of(uint32_t constants) {
    return (constants + row - 1) / row * row;
}

const RootParameter& parameter_of(const RootSignature& root_signature, const RootBinding& binding) {
    return root_signature.desc().parameters[binding.parameter];
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

CommandList::CommandList(const DeviceOwner& owner, D3D12_COMMAND_LIST_TYPE type, bool open,
                         PipelineState* pipeline)
    : DeviceChild(owner), type_(type), open_(open) {
    start(pipeline);
}

void CommandList::start(PipelineState* pipeline) {
    failed_ = false;
    commands_ = std::make_shared<Commands>();
    pipeline_ = pipeline;
    root_signature_ = nullptr;
    arguments_.clear();
}

HRESULT CommandList::Close() {
    if (!open_) {
        return E_FAIL;
    }
    open_ = false;
    if (failed_) {
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
    open_ = true;
    start(static_cast<PipelineState*>(pipeline));
    return S_OK;
}

void CommandList::ClearState(ID3D12PipelineState* pipeline) {
    pipeline_ = static_cast<PipelineState*>(pipeline);
    root_signature_ = nullptr;
    arguments_.clear();
}

void CommandList::fail(const std::string& reason) {
    failed_ = true;
    log("recording a command list: " + reason);
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
    if (auto* target = argument(parameter, D3D12_ROOT_PARAMETER_TYPE_DESCRIPTOR_TABLE,
                                "SetComputeRootDescriptorTable")) {
        target->value = base.ptr;
    }
}

void CommandList::SetComputeRoot32BitConstant(uint32_t parameter, uint32_t value, uint32_t offset) {
    SetComputeRoot32BitConstants(parameter, 1, &value, offset);
}

void CommandList::SetComputeRoot32BitConstants(uint32_t parameter, uint32_t count, const void* values,
                                               uint32_t offset) {
    auto* target =
        argument(parameter, D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS, "SetComputeRoot32BitConstants");
    if (!target || count == 0) {
        return;
    }
    const uint32_t available = root_signature_->desc().parameters[parameter].constants.Num32BitValues;
    if (!values || offset > available || count > available - offset) {
        fail("SetComputeRoot32BitConstants: root parameter " + std::to_string(parameter) + " has " +
             std::to_string(available) + " constants, not " + std::to_string(uint64_t{offset} + count));
        return;
    }
    target->constants.resize(rows_of(available));
    std::memcpy(target->constants.data() + offset, values, count * sizeof(uint32_t));
}

void CommandList::SetComputeRootConstantBufferView(uint32_t parameter, D3D12_GPU_VIRTUAL_ADDRESS address) {
    if (auto* target =
            argument(parameter, D3D12_ROOT_PARAMETER_TYPE_CBV, "SetComputeRootConstantBufferView")) {
        target->value = address;
    }
}

void CommandList::SetComputeRootShaderResourceView(uint32_t parameter, D3D12_GPU_VIRTUAL_ADDRESS address) {
    if (auto* target =
            argument(parameter, D3D12_ROOT_PARAMETER_TYPE_SRV, "SetComputeRootShaderResourceView")) {
        target->value = address;
    }
}

void CommandList::SetComputeRootUnorderedAccessView(uint32_t parameter, D3D12_GPU_VIRTUAL_ADDRESS address) {
    if (auto* target =
            argument(parameter, D3D12_ROOT_PARAMETER_TYPE_UAV, "SetComputeRootUnorderedAccessView")) {
        target->value = address;
    }
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
            const auto at = command.constants.insert(command.constants.end(), argument.constants.begin(),
                                                     argument.constants.end());
            view = {reinterpret_cast<char*>(std::to_address(at)),
                    argument.constants.size() * sizeof(uint32_t), 1, 0, 0};
        } else {
            view = root_view(device_state(), ranges[i], type, argument.value);
        }
        command.views.push_back(&view);
    }
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
    if (bind(command)) {
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
void CommandList::clear(const char* method, const SwView& view, const Value* values, uint32_t rect_count,
                        const D3D12_RECT* rects) {
    if (!can_record(method)) {
        return;
    }
    const auto* format = clear_format(view);
    if (!format || !values || (rect_count > 0 && !rects)) {
        fail(std::string(method) + ": the view is neither typed nor raw, or a pointer is null");
        return;
    }
    const auto element = pack(*format, values);
    const uint64_t elements = view.size / format->bytes();
    auto fill = [&](uint64_t first, uint64_t last) {
        commands_->push_back(
            FillCommand{view.data + first * format->bytes(), last - first, format->bytes(), element});
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

void CommandList::ClearUnorderedAccessViewUint(D3D12_GPU_DESCRIPTOR_HANDLE, D3D12_CPU_DESCRIPTOR_HANDLE view,
                                               ID3D12Resource*, const uint32_t* values, uint32_t rect_count,
                                               const D3D12_RECT* rects) {
    clear("ClearUnorderedAccessViewUint", *descriptor(view), values, rect_count, rects);
}

void CommandList::ClearUnorderedAccessViewFloat(D3D12_GPU_DESCRIPTOR_HANDLE, D3D12_CPU_DESCRIPTOR_HANDLE view,
                                                ID3D12Resource*, const float* values, uint32_t rect_count,
                                                const D3D12_RECT* rects) {
    clear("ClearUnorderedAccessViewFloat", *descriptor(view), values, rect_count, rects);
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
    commands_->push_back(TimestampCommand{queries->value(index)});
}

void CommandList::ResolveQueryData(ID3D12QueryHeap* heap, D3D12_QUERY_TYPE type, uint32_t first,
                                   uint32_t count, ID3D12Resource* target, uint64_t offset) {
    if (!can_record("ResolveQueryData") || count == 0) {
        return;
    }
    auto* queries = static_cast<QueryHeap*>(heap);
    const auto* to = static_cast<Resource*>(target);
    const uint64_t size = count * sizeof(uint64_t);
    if (!queries || type != D3D12_QUERY_TYPE_TIMESTAMP || first > queries->count() ||
        count > queries->count() - first || !to || offset % sizeof(uint64_t) != 0 ||
        !to->holds(offset, size)) {
        fail("ResolveQueryData: not timestamp queries, or they are not all in the heap or in the buffer");
        return;
    }
    commands_->push_back(
        CopyCommand{to->data() + offset, reinterpret_cast<char*>(queries->value(first)), size});
}

}  // namespace dmlgraph::software
