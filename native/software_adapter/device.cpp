#include "software_adapter/device.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "abi/dxcore.h"
#include "abi/dxgi.h"
#include "software_adapter/adapter_identity.h"
#include "software_adapter/command_list.h"
#include "software_adapter/descriptors.h"
#include "software_adapter/features.h"
#include "software_adapter/fence.h"
#include "software_adapter/log.h"
#include "software_adapter/permanent.h"
#include "software_adapter/pipeline.h"
#include "software_adapter/planted_fault.h"
#include "software_adapter/queue.h"
#include "software_adapter/resource.h"

namespace dmlgraph::software {
namespace {

// All existing devices.
std::mutex devices_mutex;
std::vector<Device*>& devices() {
    static auto* list = new std::vector<Device*>;  // never destroyed: objects may outlive static storage
    return *list;
}

// The most entries in a descriptor or query heap.
constexpr uint32_t max_heap_entries = 1'000'000;

bool is_heap_size(uint32_t count) { return count > 0 && count <= max_heap_entries; }

bool is_list_type(D3D12_COMMAND_LIST_TYPE type) {
    return type == D3D12_COMMAND_LIST_TYPE_DIRECT || type == D3D12_COMMAND_LIST_TYPE_COMPUTE ||
           type == D3D12_COMMAND_LIST_TYPE_COPY;
}

// The identity of an adapter from DXCore or DXGI.
std::optional<LUID> find_luid(IUnknown& adapter) {
    ComPtr<IDXCoreAdapter> dxcore;
    LUID luid{};
    if (succeeded(adapter.QueryInterface(IDXCoreAdapter::iid, dxcore.put())) &&
        succeeded(dxcore->GetProperty(DXCoreAdapterProperty::InstanceLuid, sizeof luid, &luid))) {
        return luid;
    }
    ComPtr<IDXGIAdapter1> dxgi;
    DXGI_ADAPTER_DESC1 desc{};
    if (succeeded(adapter.QueryInterface(IDXGIAdapter1::iid, dxgi.put())) && succeeded(dxgi->GetDesc1(&desc))) {
        return desc.AdapterLuid;
    }
    return std::nullopt;
}

class DebugLayer final : public Permanent<ID3D12Debug1, ID3D12Debug> {
public:
    void SetEnableGPUBasedValidation(BOOL enable) override { counters.gpu_validation += enable ? 1 : 0; }
    void SetEnableSynchronizedCommandQueueValidation(BOOL) override {}
    void EnableDebugLayer() override {
        Device::remove_all(DXGI_ERROR_DEVICE_REMOVED, "the debug layer was switched on after the device was made",
                           [](const Strictness& strict) { return strict.late_debug; });
    }
};

class RemovalSettings final : public Permanent<ID3D12DeviceRemovedExtendedDataSettings> {
public:
    void SetAutoBreadcrumbsEnablement(D3D12_DRED_ENABLEMENT enablement) override {
        set_notes_progress(enablement == D3D12_DRED_ENABLEMENT_FORCED_ON);
    }
    // Addresses are not checked, and there are no dumps.
    void SetPageFaultEnablement(D3D12_DRED_ENABLEMENT) override {}
    void SetWatsonDumpEnablement(D3D12_DRED_ENABLEMENT) override {}
};

uint64_t round_up(uint64_t value, uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

HRESULT RemovalData::GetAutoBreadcrumbsOutput(D3D12_DRED_AUTO_BREADCRUMBS_OUTPUT* output) {
    return state_.removed() ? state_.progress.output(output) : DXGI_ERROR_NOT_FOUND;
}

void* Device::find_interface(const IID& riid) {
    if (riid == ID3D12InfoQueue::iid && state_.validation) {
        return &info_queue_;
    }
    return riid == ID3D12DeviceRemovedExtendedData::iid ? &removal_data_ : nullptr;
}

// The text follows the struct.
HRESULT InfoQueue::GetMessage(uint64_t index, D3D12_MESSAGE* message, size_t* size) {
    const auto messages = state_.messages();
    if (index >= messages.size() || !size) {
        return E_INVALIDARG;
    }
    const std::string& text = messages[index];
    const size_t needed = sizeof *message + text.size() + 1;
    const size_t room = std::exchange(*size, needed);
    if (!message) {
        return S_FALSE;
    }
    if (room < needed) {
        return E_INVALIDARG;
    }
    char* const copy = reinterpret_cast<char*>(message + 1);
    std::memcpy(copy, text.c_str(), text.size() + 1);
    *message = {0, D3D12_MESSAGE_SEVERITY_ERROR, 0, copy, text.size() + 1};
    return S_OK;
}

Device::Device(std::size_t adapter) : state_(adapter) {
    const std::lock_guard lock(devices_mutex);
    devices().push_back(this);
}

Device::~Device() {
    const std::lock_guard lock(devices_mutex);
    std::erase(devices(), this);
}

HRESULT Device::open(std::size_t adapter, const IID& riid, void** device) {
    if (!strictness(adapter).one_device) {
        return create<Device>(riid, device, adapter);
    }
    static std::mutex opening;  // two threads must not create two devices
    const std::lock_guard lock(opening);
    if (const ComPtr<Device> existing = find(adapter)) {
        if (existing->state_.removed()) {
            log("D3D12CreateDevice: the removed device of this adapter still exists");
            return DXGI_ERROR_DEVICE_REMOVED;
        }
        return device ? existing->QueryInterface(riid, device) : S_FALSE;
    }
    return create<Device>(riid, device, adapter);
}

ComPtr<Device> Device::find(std::size_t adapter) {
    const std::lock_guard lock(devices_mutex);
    for (auto* device : devices()) {
        if (device->state_.adapter == adapter && device->add_ref_if_alive()) {
            return ComPtr<Device>::attach(device);
        }
    }
    return {};
}

void Device::remove_all(HRESULT reason, const std::string& why, bool (*concerns)(const Strictness&)) {
    // Without the lock: the references that a lost device releases may include the last one to it.
    std::vector<ComPtr<Device>> alive;
    {
        const std::lock_guard lock(devices_mutex);
        for (auto* device : devices()) {
            if ((!concerns || concerns(device->state_.strict)) && device->add_ref_if_alive()) {
                alive.push_back(ComPtr<Device>::attach(device));
            }
        }
    }
    for (const auto& device : alive) {
        device->state_.remove(reason, why);
    }
}

template <class T, class... Arguments>
HRESULT Device::make(const IID& riid, void** object, const Arguments&... arguments) {
    const HRESULT fault = state_.fault();
    if (failed(fault)) {
        return fault;
    }
    return state_.removed() ? DXGI_ERROR_DEVICE_REMOVED : create<T>(riid, object, owner(), arguments...);
}

LUID Device::GetAdapterLuid() { return luid_of(state_.adapter); }

HRESULT Device::CheckFeatureSupport(D3D12_FEATURE feature, void* data, uint32_t size) {
    return check_feature(state_.strict, feature, data, size);
}

void Device::RemoveDevice() { state_.remove(DXGI_ERROR_DEVICE_REMOVED, "RemoveDevice was called"); }

// Queues, lists, fences and queries

HRESULT Device::CreateCommandQueue(const D3D12_COMMAND_QUEUE_DESC* desc, const IID& riid, void** queue) {
    if (desc && state_.strict.gpu_timeout && desc->Flags & D3D12_COMMAND_QUEUE_FLAG_DISABLE_GPU_TIMEOUT) {
        return E_ACCESSDENIED;
    }
    return desc && is_list_type(desc->Type) ? make<CommandQueue>(riid, queue, *desc) : E_INVALIDARG;
}

HRESULT Device::CreateCommandAllocator(D3D12_COMMAND_LIST_TYPE type, const IID& riid, void** allocator) {
    return is_list_type(type) ? make<CommandAllocator>(riid, allocator, type) : E_INVALIDARG;
}

HRESULT Device::CreateCommandList(uint32_t, D3D12_COMMAND_LIST_TYPE type, ID3D12CommandAllocator* allocator,
                                  ID3D12PipelineState* pipeline, const IID& riid, void** list) {
    if (!is_list_type(type) || !allocator || static_cast<CommandAllocator*>(allocator)->type() != type) {
        return E_INVALIDARG;
    }
    auto* const own = static_cast<CommandAllocator*>(allocator);
    if (state_.validation && own->use()->recording) {
        state_.report("CreateCommandList: " + own->live()->describe() + " is used by another list that is open");
        return E_INVALIDARG;
    }
    return make<CommandList>(riid, list, type, own, static_cast<PipelineState*>(pipeline));
}

HRESULT Device::CreateCommandList1(uint32_t, D3D12_COMMAND_LIST_TYPE type, D3D12_COMMAND_LIST_FLAGS, const IID& riid,
                                   void** list) {
    return is_list_type(type) ? make<CommandList>(riid, list, type, nullptr, nullptr) : E_INVALIDARG;
}

HRESULT Device::CreateFence(uint64_t value, D3D12_FENCE_FLAGS, const IID& riid, void** fence) {
    return make<Fence>(riid, fence, value);
}

HRESULT Device::CreateQueryHeap(const D3D12_QUERY_HEAP_DESC* desc, const IID& riid, void** heap) {
    const bool timestamps = desc && (desc->Type == D3D12_QUERY_HEAP_TYPE_TIMESTAMP ||
                                     desc->Type == D3D12_QUERY_HEAP_TYPE_COPY_QUEUE_TIMESTAMP);
    return timestamps && is_heap_size(desc->Count) ? make<QueryHeap>(riid, heap, desc->Count) : E_INVALIDARG;
}

// Pipelines

HRESULT Device::CreateRootSignature(uint32_t, const void* blob, size_t size, const IID& riid, void** signature) {
    if (!blob) {
        return E_INVALIDARG;
    }
    try {
        return make<RootSignature>(riid, signature, parse({static_cast<const std::byte*>(blob), size}));
    } catch (const RootSignatureError& error) {
        log(std::string("creating a root signature: ") + error.what());
        return E_INVALIDARG;
    }
}

HRESULT Device::CreateComputePipelineState(const D3D12_COMPUTE_PIPELINE_STATE_DESC* desc, const IID& riid,
                                           void** pipeline) {
    if (!desc) {
        return E_INVALIDARG;
    }
    return state_.removed() ? DXGI_ERROR_DEVICE_REMOVED : create_compute_pipeline(owner(), *desc, riid, pipeline);
}

HRESULT Device::EnumerateMetaCommands(uint32_t* count, D3D12_META_COMMAND_DESC*) {
    if (!count) {
        return E_INVALIDARG;
    }
    *count = 0;
    return S_OK;
}

// Descriptors

HRESULT Device::CreateDescriptorHeap(const D3D12_DESCRIPTOR_HEAP_DESC* desc, const IID& riid, void** heap) {
    if (!desc || !is_heap_size(desc->NumDescriptors)) {
        return E_INVALIDARG;
    }
    if (desc->Type != D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV) {
        log("creating a descriptor heap: heaps for samplers and textures are not supported");
        return E_NOTIMPL;
    }
    return make<DescriptorHeap>(riid, heap, *desc);
}

uint32_t Device::GetDescriptorHandleIncrementSize(D3D12_DESCRIPTOR_HEAP_TYPE) { return descriptor_bytes; }

void Device::CreateConstantBufferView(const D3D12_CONSTANT_BUFFER_VIEW_DESC* desc, D3D12_CPU_DESCRIPTOR_HANDLE target) {
    write_constant_view(state_, desc, descriptor(target));
}

void Device::CreateShaderResourceView(ID3D12Resource* resource, const D3D12_SHADER_RESOURCE_VIEW_DESC* desc,
                                      D3D12_CPU_DESCRIPTOR_HANDLE target) {
    if (!desc || desc->ViewDimension != D3D12_SRV_DIMENSION_BUFFER) {
        state_.remove(DXGI_ERROR_INVALID_CALL, "creating a view: only views of buffers, with a desc, are supported");
        return;
    }
    const auto& buffer = desc->Buffer;
    const bool raw = (buffer.Flags & D3D12_BUFFER_SRV_FLAG_RAW) != 0;
    write_buffer_view(state_, static_cast<Resource*>(resource),
                      {desc->Format, buffer.FirstElement, buffer.NumElements, buffer.StructureByteStride, raw},
                      descriptor(target));
}

void Device::CreateUnorderedAccessView(ID3D12Resource* resource, ID3D12Resource* counter,
                                       const D3D12_UNORDERED_ACCESS_VIEW_DESC* desc,
                                       D3D12_CPU_DESCRIPTOR_HANDLE target) {
    if (!desc || desc->ViewDimension != D3D12_UAV_DIMENSION_BUFFER || counter) {
        state_.remove(DXGI_ERROR_INVALID_CALL,
                      "creating a view: only views of buffers, with a desc and without a counter, are supported");
        return;
    }
    const auto* target_buffer = static_cast<Resource*>(resource);
    if (target_buffer && !target_buffer->allows_unordered_access()) {
        state_.remove(DXGI_ERROR_INVALID_CALL,
                      "creating a view: an unordered access view of a buffer that does not allow them");
        return;
    }
    const auto& buffer = desc->Buffer;
    const bool raw = (buffer.Flags & D3D12_BUFFER_UAV_FLAG_RAW) != 0;
    write_buffer_view(state_, static_cast<Resource*>(resource),
                      {desc->Format, buffer.FirstElement, buffer.NumElements, buffer.StructureByteStride, raw},
                      descriptor(target));
}

void Device::CopyDescriptors(uint32_t target_count, const D3D12_CPU_DESCRIPTOR_HANDLE* targets,
                             const uint32_t* target_sizes, uint32_t source_count,
                             const D3D12_CPU_DESCRIPTOR_HANDLE* sources, const uint32_t* source_sizes,
                             D3D12_DESCRIPTOR_HEAP_TYPE) {
    // Two lists of ranges, traversed in parallel; without sizes, each range is one descriptor.
    auto size_of = [](const uint32_t* sizes, uint32_t i) { return sizes ? sizes[i] : 1; };
    uint32_t source = 0;
    uint32_t at = 0;
    for (uint32_t target = 0; target < target_count; ++target) {
        for (uint32_t i = 0; i < size_of(target_sizes, target); ++i) {
            while (source < source_count && at == size_of(source_sizes, source)) {
                ++source;
                at = 0;
            }
            if (source == source_count) {
                return;
            }
            descriptor(targets[target])[i] = descriptor(sources[source])[at++];
        }
    }
}

void Device::CopyDescriptorsSimple(uint32_t count, D3D12_CPU_DESCRIPTOR_HANDLE target,
                                   D3D12_CPU_DESCRIPTOR_HANDLE source, D3D12_DESCRIPTOR_HEAP_TYPE) {
    std::copy_n(descriptor(source), count, descriptor(target));
}

// Memory

HRESULT Device::CreateHeap(const D3D12_HEAP_DESC* desc, const IID& riid, void** heap) {
    if (!desc) {
        return E_INVALIDARG;
    }
    const HRESULT fault = check_heap(*desc);
    return failed(fault) ? fault : make<Heap>(riid, heap, *desc);
}

HRESULT Device::CreateCommittedResource(const D3D12_HEAP_PROPERTIES* properties, D3D12_HEAP_FLAGS flags,
                                        const D3D12_RESOURCE_DESC* desc, D3D12_RESOURCE_STATES state, const void*,
                                        const IID& riid, void** resource) {
    if (!properties || !desc) {
        return E_INVALIDARG;
    }
    for (const HRESULT fault :
         {check_heap_properties(*properties), check_buffer(*desc), check_initial_state(*properties, *desc, state)}) {
        if (failed(fault)) {
            return fault;
        }
    }
    return make<Resource>(riid, resource, *properties, flags, *desc);
}

HRESULT Device::CreatePlacedResource(ID3D12Heap* heap, uint64_t offset, const D3D12_RESOURCE_DESC* desc,
                                     D3D12_RESOURCE_STATES state, const void*, const IID& riid, void** resource) {
    if (!heap || !desc) {
        return E_INVALIDARG;
    }
    const auto heap_desc = heap->GetDesc();
    for (const HRESULT fault : {check_buffer(*desc), check_initial_state(heap_desc.Properties, *desc, state)}) {
        if (failed(fault)) {
            return fault;
        }
    }
    const bool inside = offset <= heap_desc.SizeInBytes && desc->Width <= heap_desc.SizeInBytes - offset;
    if (!inside || offset % resource_placement_alignment != 0) {
        return E_INVALIDARG;
    }
    if (state_.removed()) {
        return DXGI_ERROR_DEVICE_REMOVED;
    }
    return create<Resource>(riid, resource, owner(), static_cast<Heap&>(*heap), offset, *desc);
}

D3D12_RESOURCE_ALLOCATION_INFO Device::GetResourceAllocationInfo(uint32_t, uint32_t count,
                                                                 const D3D12_RESOURCE_DESC* descs) {
    D3D12_RESOURCE_ALLOCATION_INFO info{0, resource_placement_alignment};
    for (uint32_t i = 0; i < count; ++i) {
        if (failed(check_buffer(descs[i]))) {
            return {UINT64_MAX, resource_placement_alignment};
        }
        info.SizeInBytes += round_up(descs[i].Width, resource_placement_alignment);
    }
    return info;
}

D3D12_HEAP_PROPERTIES Device::GetCustomHeapProperties(uint32_t, D3D12_HEAP_TYPE type) {
    return custom_heap_properties(type);
}

}  // namespace dmlgraph::software

using namespace dmlgraph::software;

extern "C" {

SW_EXPORT HRESULT D3D12CreateDevice(IUnknown* adapter, D3D_FEATURE_LEVEL minimum, const IID& riid, void** device) {
    for (const std::string* error : {&strictness_error(), &fault_error()}) {
        if (!error->empty()) {
            log(*error);
            return E_INVALIDARG;
        }
    }
    std::optional<std::size_t> index = 0;
    if (adapter) {
        const auto luid = find_luid(*adapter);
        index = luid ? adapter_of(*luid) : std::nullopt;
    }
    if (!index) {
        return E_INVALIDARG;
    }
    return minimum > max_feature_level(strictness(*index)) ? DXGI_ERROR_UNSUPPORTED
                                                           : Device::open(*index, riid, device);
}

// There is a debug layer, which checks nothing, only if an adapter is strict about it.
SW_EXPORT HRESULT D3D12GetDebugInterface(const IID& riid, void** debug) {
    if (!debug) {
        return E_POINTER;
    }
    *debug = nullptr;
    if (riid == ID3D12DeviceRemovedExtendedDataSettings::iid) {
        static auto& settings = *new RemovalSettings;
        return settings.QueryInterface(riid, debug);
    }
    for (std::size_t adapter = 0; adapter < adapter_count(); ++adapter) {
        if (strictness(adapter).late_debug) {
            static auto& layer = *new DebugLayer;
            return layer.QueryInterface(riid, debug);
        }
    }
    return E_NOINTERFACE;
}

const char* sw_strictness_error() { return strictness_error().empty() ? nullptr : strictness_error().c_str(); }

void sw_remove_device() { Device::remove_all(DXGI_ERROR_DEVICE_REMOVED, "sw_remove_device was called"); }

}  // extern "C"
