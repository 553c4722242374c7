// The device.
#pragma once

#include "software_adapter/object.h"

namespace dmlgraph::software {

// What a device knows of its removal; a part of the device.
class RemovalData final : public ID3D12DeviceRemovedExtendedData {
public:
    RemovalData(IUnknown& device, DeviceState& state) : device_(device), state_(state) {}

    HRESULT QueryInterface(const IID& riid, void** object) override { return device_.QueryInterface(riid, object); }
    uint32_t AddRef() override { return device_.AddRef(); }
    uint32_t Release() override { return device_.Release(); }

    HRESULT GetAutoBreadcrumbsOutput(D3D12_DRED_AUTO_BREADCRUMBS_OUTPUT* output) override;
    // Addresses are not checked.
    HRESULT GetPageFaultAllocationOutput(D3D12_DRED_PAGE_FAULT_OUTPUT*) override { return DXGI_ERROR_NOT_FOUND; }

private:
    IUnknown& device_;
    DeviceState& state_;
};

// The messages of a device that validates; a part of the device.
class InfoQueue final : public ID3D12InfoQueue {
public:
    InfoQueue(IUnknown& device, DeviceState& state) : device_(device), state_(state) {}

    HRESULT QueryInterface(const IID& riid, void** object) override { return device_.QueryInterface(riid, object); }
    uint32_t AddRef() override { return device_.AddRef(); }
    uint32_t Release() override { return device_.Release(); }

    void ClearStoredMessages() override { state_.clear_messages(); }
    uint64_t GetNumStoredMessages() override { return state_.messages().size(); }
    HRESULT GetMessage(uint64_t index, D3D12_MESSAGE* message, size_t* size) override;
    // Messages are not filtered. DirectML pushes a filter of its own.
    HRESULT PushCopyOfStorageFilter() override { return S_OK; }
    HRESULT AddStorageFilterEntries(void*) override { return S_OK; }
    void PopStorageFilter() override {}

private:
    IUnknown& device_;
    DeviceState& state_;
};

class Device final
    : public Object<ID3D12Device5, ID3D12Device4, ID3D12Device3, ID3D12Device2, ID3D12Device1, ID3D12Device> {
public:
    explicit Device(std::size_t adapter);
    ~Device() override;

    // D3D12CreateDevice on the adapter with this index. On an adapter that is strict about `one_device` it returns the
    // existing device, and fails while a removed one still exists.
    static HRESULT open(std::size_t adapter, const IID& riid, void** device);

    // Loses the existing devices for which `concerns` is true.
    static void remove_all(HRESULT reason, const std::string& why, bool (*concerns)(const Strictness&) = nullptr);

    uint32_t GetNodeCount() override { return 1; }
    LUID GetAdapterLuid() override;
    HRESULT CheckFeatureSupport(D3D12_FEATURE feature, void* data, uint32_t size) override;
    HRESULT GetDeviceRemovedReason() override { return state_.removed_reason(); }
    void RemoveDevice() override;

    HRESULT CreateCommandQueue(const D3D12_COMMAND_QUEUE_DESC* desc, const IID& riid, void** queue) override;
    HRESULT CreateCommandAllocator(D3D12_COMMAND_LIST_TYPE type, const IID& riid, void** allocator) override;
    HRESULT CreateCommandList(uint32_t, D3D12_COMMAND_LIST_TYPE type, ID3D12CommandAllocator* allocator,
                              ID3D12PipelineState* pipeline, const IID& riid, void** list) override;
    HRESULT CreateCommandList1(uint32_t, D3D12_COMMAND_LIST_TYPE type, D3D12_COMMAND_LIST_FLAGS, const IID& riid,
                               void** list) override;
    HRESULT CreateFence(uint64_t value, D3D12_FENCE_FLAGS, const IID& riid, void** fence) override;
    HRESULT CreateQueryHeap(const D3D12_QUERY_HEAP_DESC* desc, const IID& riid, void** heap) override;

    HRESULT CreateRootSignature(uint32_t, const void* blob, size_t size, const IID& riid, void** signature) override;
    HRESULT CreateComputePipelineState(const D3D12_COMPUTE_PIPELINE_STATE_DESC* desc, const IID& riid,
                                       void** pipeline) override;
    // There are no meta commands.
    HRESULT EnumerateMetaCommands(uint32_t* count, D3D12_META_COMMAND_DESC*) override;

    HRESULT CreateDescriptorHeap(const D3D12_DESCRIPTOR_HEAP_DESC* desc, const IID& riid, void** heap) override;
    uint32_t GetDescriptorHandleIncrementSize(D3D12_DESCRIPTOR_HEAP_TYPE) override;
    void CreateConstantBufferView(const D3D12_CONSTANT_BUFFER_VIEW_DESC* desc,
                                  D3D12_CPU_DESCRIPTOR_HANDLE target) override;
    void CreateShaderResourceView(ID3D12Resource* resource, const D3D12_SHADER_RESOURCE_VIEW_DESC* desc,
                                  D3D12_CPU_DESCRIPTOR_HANDLE target) override;
    void CreateUnorderedAccessView(ID3D12Resource* resource, ID3D12Resource* counter,
                                   const D3D12_UNORDERED_ACCESS_VIEW_DESC* desc,
                                   D3D12_CPU_DESCRIPTOR_HANDLE target) override;
    void CopyDescriptors(uint32_t target_count, const D3D12_CPU_DESCRIPTOR_HANDLE* targets,
                         const uint32_t* target_sizes, uint32_t source_count,
                         const D3D12_CPU_DESCRIPTOR_HANDLE* sources, const uint32_t* source_sizes,
                         D3D12_DESCRIPTOR_HEAP_TYPE type) override;
    void CopyDescriptorsSimple(uint32_t count, D3D12_CPU_DESCRIPTOR_HANDLE target, D3D12_CPU_DESCRIPTOR_HANDLE source,
                               D3D12_DESCRIPTOR_HEAP_TYPE type) override;

    HRESULT CreateHeap(const D3D12_HEAP_DESC* desc, const IID& riid, void** heap) override;
    HRESULT CreateCommittedResource(const D3D12_HEAP_PROPERTIES* properties, D3D12_HEAP_FLAGS flags,
                                    const D3D12_RESOURCE_DESC* desc, D3D12_RESOURCE_STATES state, const void*,
                                    const IID& riid, void** resource) override;
    HRESULT CreatePlacedResource(ID3D12Heap* heap, uint64_t offset, const D3D12_RESOURCE_DESC* desc,
                                 D3D12_RESOURCE_STATES state, const void*, const IID& riid, void** resource) override;
    D3D12_RESOURCE_ALLOCATION_INFO GetResourceAllocationInfo(uint32_t, uint32_t count,
                                                             const D3D12_RESOURCE_DESC* descs) override;
    D3D12_RESOURCE_ALLOCATION_INFO GetResourceAllocationInfo1(uint32_t, uint32_t, const D3D12_RESOURCE_DESC*,
                                                              D3D12_RESOURCE_ALLOCATION_INFO1*) override
        DMLGRAPH_OPTIONAL D3D12_HEAP_PROPERTIES GetCustomHeapProperties(uint32_t, D3D12_HEAP_TYPE type) override;
    // Memory is always resident.
    HRESULT MakeResident(uint32_t, ID3D12Pageable* const*) override { return S_OK; }
    HRESULT Evict(uint32_t, ID3D12Pageable* const*) override { return S_OK; }
    HRESULT SetResidencyPriority(uint32_t, ID3D12Pageable* const*, const void*) override { return S_OK; }

private:
    // The adapter's device, null if there is none.
    static ComPtr<Device> find(std::size_t adapter);

    DeviceOwner owner() { return {ComPtr<ID3D12Device5>(this), &state_}; }

    // Makes a child; fails if the device is lost.
    template <class T, class... Arguments>
    HRESULT make(const IID& riid, void** object, const Arguments&... arguments);

    void* find_interface(const IID& riid) override;

    DeviceState state_;
    RemovalData removal_data_{*this, state_};
    InfoQueue info_queue_{*this, state_};
};

}  // namespace dmlgraph::software
