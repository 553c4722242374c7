// Descriptor heaps and the views in them.
//
// A descriptor is an SwView, and a handle (CPU or GPU) is its address: kernels read the heap itself.
#pragma once

#include <vector>

#include "software_adapter/object.h"
#include "software_adapter/shader_abi.h"

namespace dmlgraph::software {

class Resource;

constexpr uint32_t descriptor_bytes = sizeof(SwView);

inline SwView* descriptor(D3D12_CPU_DESCRIPTOR_HANDLE handle) { return reinterpret_cast<SwView*>(handle.ptr); }
inline SwView* descriptor(D3D12_GPU_DESCRIPTOR_HANDLE handle) { return reinterpret_cast<SwView*>(handle.ptr); }

class DescriptorHeap final : public DeviceChild<ID3D12DescriptorHeap, ID3D12Pageable> {
public:
    DescriptorHeap(const DeviceOwner& owner, const D3D12_DESCRIPTOR_HEAP_DESC& desc)
        : DeviceChild(owner), desc_(desc), views_(desc.NumDescriptors) {}

    D3D12_DESCRIPTOR_HEAP_DESC GetDesc() override { return desc_; }
    D3D12_CPU_DESCRIPTOR_HANDLE GetCPUDescriptorHandleForHeapStart() override {
        return {reinterpret_cast<size_t>(views_.data())};
    }
    D3D12_GPU_DESCRIPTOR_HANDLE GetGPUDescriptorHandleForHeapStart() override {
        const bool visible = (desc_.Flags & D3D12_DESCRIPTOR_HEAP_FLAG_SHADER_VISIBLE) != 0;
        return {visible ? reinterpret_cast<uint64_t>(views_.data()) : 0};
    }

    // Behind the last view.
    const SwView* end() const { return views_.data() + views_.size(); }

private:
    D3D12_DESCRIPTOR_HEAP_DESC desc_;
    std::vector<SwView> views_;
};

// The elements of a buffer view.
struct ViewElements {
    DXGI_FORMAT format;  // of a typed view; R32_TYPELESS for a raw one
    uint64_t first;
    uint32_t count;
    uint32_t stride;  // bytes per element of a structured view, else 0
    bool raw;
};

// Writes the view of `resource` (null: an unbound view). If the view is not valid, loses the device, as
// Direct3D does: the methods that create views return nothing.
void write_buffer_view(DeviceState& device, Resource* resource, const ViewElements& elements, SwView* target);
void write_constant_view(DeviceState& device, const D3D12_CONSTANT_BUFFER_VIEW_DESC* desc, SwView* target);

}  // namespace dmlgraph::software
