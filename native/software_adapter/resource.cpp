#include "software_adapter/resource.h"

namespace dmlgraph::software {
namespace {

constexpr uint64_t max_size = uint64_t{1} << address_bits;

// D3D12_RESOURCE_DESC::Alignment and D3D12_HEAP_DESC::Alignment: 0 means the default.
bool is_default_alignment(uint64_t alignment) { return alignment == 0 || alignment == resource_placement_alignment; }

D3D12_RESOURCE_DESC with_alignment(D3D12_RESOURCE_DESC desc) {
    desc.Alignment = resource_placement_alignment;
    return desc;
}

// The only state of buffers in upload and readback heaps; COMMON for other heaps.
D3D12_RESOURCE_STATES fixed_state(D3D12_HEAP_TYPE type) {
    return type == D3D12_HEAP_TYPE_UPLOAD     ? D3D12_RESOURCE_STATE_GENERIC_READ
           : type == D3D12_HEAP_TYPE_READBACK ? D3D12_RESOURCE_STATE_COPY_DEST
                                              : D3D12_RESOURCE_STATE_COMMON;
}

}  // namespace

HRESULT check_heap_properties(const D3D12_HEAP_PROPERTIES& properties) {
    const bool unspecified = properties.CPUPageProperty == D3D12_CPU_PAGE_PROPERTY_UNKNOWN &&
                             properties.MemoryPoolPreference == D3D12_MEMORY_POOL_UNKNOWN;
    switch (properties.Type) {
        case D3D12_HEAP_TYPE_DEFAULT:
        case D3D12_HEAP_TYPE_UPLOAD:
        case D3D12_HEAP_TYPE_READBACK: return unspecified ? S_OK : E_INVALIDARG;
        case D3D12_HEAP_TYPE_CUSTOM:
            // All memory is shared, so pool L1 does not exist.
            return properties.CPUPageProperty != D3D12_CPU_PAGE_PROPERTY_UNKNOWN &&
                           properties.MemoryPoolPreference == D3D12_MEMORY_POOL_L0
                       ? S_OK
                       : E_INVALIDARG;
    }
    return E_INVALIDARG;
}

HRESULT check_heap(const D3D12_HEAP_DESC& desc) {
    const bool denies_buffers = (desc.Flags & D3D12_HEAP_FLAG_DENY_BUFFERS) != 0;
    if (desc.SizeInBytes == 0 || denies_buffers || !is_default_alignment(desc.Alignment)) {
        return E_INVALIDARG;
    }
    if (desc.SizeInBytes > max_size) {
        return E_OUTOFMEMORY;
    }
    return check_heap_properties(desc.Properties);
}

HRESULT check_buffer(const D3D12_RESOURCE_DESC& desc) {
    const bool is_buffer = desc.Dimension == D3D12_RESOURCE_DIMENSION_BUFFER && desc.Width > 0 && desc.Height == 1 &&
                           desc.DepthOrArraySize == 1 && desc.MipLevels == 1 && desc.Format == DXGI_FORMAT_UNKNOWN &&
                           desc.SampleDesc.Count == 1 && desc.SampleDesc.Quality == 0 &&
                           desc.Layout == D3D12_TEXTURE_LAYOUT_ROW_MAJOR && is_default_alignment(desc.Alignment);
    if (!is_buffer) {
        return E_INVALIDARG;
    }
    return desc.Width <= max_size ? S_OK : E_OUTOFMEMORY;
}

HRESULT check_initial_state(const D3D12_HEAP_PROPERTIES& properties, const D3D12_RESOURCE_DESC& desc,
                            D3D12_RESOURCE_STATES state) {
    const bool written = (desc.Flags & D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS) != 0;
    const auto fixed = fixed_state(properties.Type);
    return !fixed || (state == fixed && !written) ? S_OK : E_INVALIDARG;
}

D3D12_HEAP_PROPERTIES custom_heap_properties(D3D12_HEAP_TYPE type) {
    const bool mappable = type == D3D12_HEAP_TYPE_UPLOAD || type == D3D12_HEAP_TYPE_READBACK;
    return {D3D12_HEAP_TYPE_CUSTOM,
            mappable ? D3D12_CPU_PAGE_PROPERTY_WRITE_BACK : D3D12_CPU_PAGE_PROPERTY_NOT_AVAILABLE, D3D12_MEMORY_POOL_L0,
            1, 1};
}

Resource::Resource(const DeviceOwner& owner, const D3D12_HEAP_PROPERTIES& properties, D3D12_HEAP_FLAGS flags,
                   const D3D12_RESOURCE_DESC& desc)
    : DeviceChild(owner), properties_(properties), flags_(flags), desc_(with_alignment(desc)) {
    memory_.emplace(device_state(), desc.Width, properties.Type);
    data_ = memory_->data();
    begin(false);
}

Resource::Resource(const DeviceOwner& owner, Heap& heap, uint64_t offset, const D3D12_RESOURCE_DESC& desc)
    : DeviceChild(owner),
      properties_(heap.GetDesc().Properties),
      flags_(heap.GetDesc().Flags),
      desc_(with_alignment(desc)),
      heap_(&heap),
      data_(heap.data() + offset) {
    begin(true);
}

Resource::~Resource() {
    if (device_state().validation) {
        device_state().validation->forget(*live());
    }
}

void Resource::begin(bool is_placed) {
    const bool readback = properties_.Type == D3D12_HEAP_TYPE_READBACK;
    const bool write_back =
        properties_.Type == D3D12_HEAP_TYPE_CUSTOM && properties_.CPUPageProperty == D3D12_CPU_PAGE_PROPERTY_WRITE_BACK;
    if (device_state().strict.readback && (readback || write_back)) {
        cached_ = std::make_unique<CachedMapping>(device_state(), data_, size(), write_back);
    }
    if (device_state().validation) {
        const auto address = reinterpret_cast<uint64_t>(data_);
        live()->buffer = {address, address + size(), desc_.Flags, fixed_state(properties_.Type), is_placed};
        device_state().validation->add(live());
    }
}

void Resource::Unmap(uint32_t, const D3D12_RANGE* written_range) {
    if (cached_) {
        cached_->unmap(written_range);
    }
}

HRESULT Resource::Map(uint32_t subresource, const D3D12_RANGE* read_range, void** data) {
    const bool mappable = properties_.Type == D3D12_HEAP_TYPE_CUSTOM
                              ? properties_.CPUPageProperty != D3D12_CPU_PAGE_PROPERTY_NOT_AVAILABLE
                              : properties_.Type != D3D12_HEAP_TYPE_DEFAULT;
    if (subresource != 0 || !mappable) {
        return E_INVALIDARG;
    }
    if (device_state().removed()) {
        return DXGI_ERROR_DEVICE_REMOVED;
    }
    if (const HRESULT fault = device_state().fault(); failed(fault)) {
        return fault;
    }
    char* const seen = cached_ ? cached_->map(read_range) : data_;
    if (data) {
        *data = seen;
    }
    return S_OK;
}

HRESULT Resource::GetHeapProperties(D3D12_HEAP_PROPERTIES* properties, D3D12_HEAP_FLAGS* flags) {
    if (properties) {
        *properties = properties_;
    }
    if (flags) {
        *flags = flags_;
    }
    return S_OK;
}

}  // namespace dmlgraph::software
