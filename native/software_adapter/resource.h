// Heaps and buffers.
#pragma once

#include <memory>
#include <optional>

#include "software_adapter/cached_mapping.h"
#include "software_adapter/memory.h"
#include "software_adapter/object.h"

namespace dmlgraph::software {

// The largest heap or buffer, in bytes: 40 bits of address.
constexpr unsigned address_bits = 40;

// S_OK, or the error that Direct3D returns for these parameters.
HRESULT check_heap(const D3D12_HEAP_DESC& desc);
HRESULT check_heap_properties(const D3D12_HEAP_PROPERTIES& properties);
HRESULT check_buffer(const D3D12_RESOURCE_DESC& desc);
// Upload and readback heaps never change their state, and shaders cannot write to them.
HRESULT check_initial_state(const D3D12_HEAP_PROPERTIES& properties, const D3D12_RESOURCE_DESC& desc,
                            D3D12_RESOURCE_STATES state);

// The memory for a heap of the given type on this device, whose memory is the processor's.
D3D12_HEAP_PROPERTIES custom_heap_properties(D3D12_HEAP_TYPE type);

class Heap final : public DeviceChild<ID3D12Heap, ID3D12Pageable> {
public:
    Heap(const DeviceOwner& owner, const D3D12_HEAP_DESC& desc)
        : DeviceChild(owner), desc_(desc), memory_(device_state(), desc.SizeInBytes, desc.Properties.Type) {}

    D3D12_HEAP_DESC GetDesc() override { return desc_; }

    char* data() const { return memory_.data(); }

private:
    D3D12_HEAP_DESC desc_;
    Memory memory_;
};

class Resource final : public DeviceChild<ID3D12Resource, ID3D12Pageable> {
public:
    // Committed: with its own memory.
    Resource(const DeviceOwner& owner, const D3D12_HEAP_PROPERTIES& properties, D3D12_HEAP_FLAGS flags,
             const D3D12_RESOURCE_DESC& desc);
    // Placed into a heap, which it keeps alive.
    Resource(const DeviceOwner& owner, Heap& heap, uint64_t offset, const D3D12_RESOURCE_DESC& desc);

    ~Resource() override;

    HRESULT Map(uint32_t subresource, const D3D12_RANGE* read_range, void** data) override;
    void Unmap(uint32_t, const D3D12_RANGE* written_range) override;
    D3D12_RESOURCE_DESC GetDesc() override { return desc_; }
    D3D12_GPU_VIRTUAL_ADDRESS GetGPUVirtualAddress() override { return reinterpret_cast<uint64_t>(data_); }
    HRESULT GetHeapProperties(D3D12_HEAP_PROPERTIES* properties, D3D12_HEAP_FLAGS* flags) override;

    char* data() const { return data_; }
    uint64_t size() const { return desc_.Width; }
    bool allows_unordered_access() const { return (desc_.Flags & D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS) != 0; }
    const D3D12_HEAP_PROPERTIES& heap_properties() const { return properties_; }
    // Whether the bytes first <= i < first + count are all inside.
    bool holds(uint64_t first, uint64_t count) const { return first <= size() && count <= size() - first; }

private:
    void begin(bool is_placed);

    D3D12_HEAP_PROPERTIES properties_;
    D3D12_HEAP_FLAGS flags_;
    D3D12_RESOURCE_DESC desc_;
    std::optional<Memory> memory_;
    ComPtr<Heap> heap_;
    char* data_;
    std::unique_ptr<CachedMapping> cached_;  // null unless the adapter is strict about it
};

}  // namespace dmlgraph::software
