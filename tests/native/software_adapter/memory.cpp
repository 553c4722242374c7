#include <algorithm>

#include "harness.h"

ADAPTER_CHECK(heaps_and_buffers) {
    Bench bench;
    const D3D12_HEAP_DESC heap_desc{1 << 20, heap_of(D3D12_HEAP_TYPE_DEFAULT), 0,
                                    D3D12_HEAP_FLAG_ALLOW_ONLY_BUFFERS};
    ComPtr<ID3D12Heap> heap;
    CHECK_OK(bench.device->CreateHeap(&heap_desc, ID3D12Heap::iid, heap.put()));
    CHECK_EQUAL(heap->GetDesc().SizeInBytes, 1 << 20);
    auto place = [&](uint64_t offset, uint64_t size, ComPtr<ID3D12Resource>& result) {
        const auto desc = buffer_desc(size, D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS);
        return bench.device->CreatePlacedResource(heap.get(), offset, &desc, D3D12_RESOURCE_STATE_COMMON,
                                                  nullptr, ID3D12Resource::iid, result.put());
    };
    ComPtr<ID3D12Resource> low, high, alias;
    CHECK_OK(place(0, 65536, low));
    CHECK_OK(place(65536, (1 << 20) - 65536, high));
    CHECK_OK(place(65536, 16, alias));
    CHECK_EQUAL(high->GetGPUVirtualAddress(), low->GetGPUVirtualAddress() + 65536);
    CHECK_EQUAL(alias->GetGPUVirtualAddress(), high->GetGPUVirtualAddress());
    ComPtr<ID3D12Resource> bad;
    CHECK_EQUAL(place(256, 16, bad), E_INVALIDARG);
    CHECK_EQUAL(place(65536, 1 << 20, bad), E_INVALIDARG);
    CHECK_EQUAL(place(1 << 20, 1, bad), E_INVALIDARG);
    heap = nullptr;  // the resources keep it
    CHECK(bench.read<uint32_t>(low.get()) == std::vector<uint32_t>(16384, 0));

    D3D12_HEAP_PROPERTIES properties{};
    D3D12_HEAP_FLAGS flags{};
    CHECK_OK(high->GetHeapProperties(&properties, &flags));
    CHECK_EQUAL(properties.Type, D3D12_HEAP_TYPE_DEFAULT);
    CHECK_EQUAL(flags, D3D12_HEAP_FLAG_ALLOW_ONLY_BUFFERS);

    void* data = nullptr;
    CHECK_EQUAL(low->Map(0, nullptr, &data), E_INVALIDARG);
    CHECK_OK(bench.buffer(16, D3D12_HEAP_TYPE_READBACK)->Map(0, nullptr, &data));

    const D3D12_RESOURCE_DESC descs[] = {buffer_desc(1, {}), buffer_desc(65537, {})};
    CHECK_EQUAL(bench.device->GetResourceAllocationInfo(0, 2, descs).SizeInBytes, 3 * 65536);
}

ADAPTER_CHECK(custom_heap) {
    Bench bench;
    auto properties = bench.device->GetCustomHeapProperties(0, D3D12_HEAP_TYPE_UPLOAD);
    CHECK_EQUAL(properties.Type, D3D12_HEAP_TYPE_CUSTOM);
    const auto desc = buffer_desc(64, D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS);
    ComPtr<ID3D12Resource> buffer;
    void* data = nullptr;
    CHECK_OK(bench.device->CreateCommittedResource(&properties, {}, &desc, D3D12_RESOURCE_STATE_COMMON,
                                                   nullptr, ID3D12Resource::iid, buffer.put()));
    CHECK_OK(buffer->Map(0, nullptr, &data));
    properties = bench.device->GetCustomHeapProperties(0, D3D12_HEAP_TYPE_DEFAULT);
    CHECK_OK(bench.device->CreateCommittedResource(&properties, {}, &desc, D3D12_RESOURCE_STATE_COMMON,
                                                   nullptr, ID3D12Resource::iid, buffer.put()));
    CHECK_EQUAL(buffer->Map(0, nullptr, &data), E_INVALIDARG);
}

ADAPTER_CHECK(refused_buffers) {
    auto device = create_device();
    auto create = [&](D3D12_RESOURCE_DESC desc, D3D12_HEAP_TYPE type = D3D12_HEAP_TYPE_DEFAULT,
                      D3D12_RESOURCE_STATES state = D3D12_RESOURCE_STATE_COMMON) {
        const auto properties = heap_of(type);
        ComPtr<ID3D12Resource> result;
        return device->CreateCommittedResource(&properties, {}, &desc, state, nullptr, ID3D12Resource::iid,
                                               result.put());
    };
    auto texture = buffer_desc(64, {});
    texture.Dimension = D3D12_RESOURCE_DIMENSION_TEXTURE2D;
    auto tall = buffer_desc(64, {});
    tall.Height = 2;
    CHECK_OK(create(buffer_desc(1, {})));
    CHECK_EQUAL(create(buffer_desc(0, {})), E_INVALIDARG);
    CHECK_EQUAL(create(texture), E_INVALIDARG);
    CHECK_EQUAL(create(tall), E_INVALIDARG);
    CHECK_EQUAL(create(buffer_desc(uint64_t{1} << 39, {})), E_OUTOFMEMORY);
    CHECK_EQUAL(create(buffer_desc(uint64_t{1} << 50, {})), E_OUTOFMEMORY);
    CHECK_EQUAL(create(buffer_desc(64, {}), D3D12_HEAP_TYPE_UPLOAD), E_INVALIDARG);
    CHECK_EQUAL(create(buffer_desc(64, D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS), D3D12_HEAP_TYPE_READBACK,
                       D3D12_RESOURCE_STATE_COPY_DEST),
                E_INVALIDARG);
    CHECK_OK(device->GetDeviceRemovedReason());
    CHECK_EQUAL(sw_counter("live_bytes"), 0);
}

ADAPTER_CHECK(unordered_access_view_of_a_buffer_that_allows_none) {
    Bench bench;
    const auto buffer = bench.buffer(64, D3D12_HEAP_TYPE_UPLOAD);
    D3D12_DESCRIPTOR_HEAP_DESC heap_desc{D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV, 1, {}, 0};
    ComPtr<ID3D12DescriptorHeap> heap;
    CHECK_OK(bench.device->CreateDescriptorHeap(&heap_desc, ID3D12DescriptorHeap::iid, heap.put()));
    D3D12_UNORDERED_ACCESS_VIEW_DESC view{DXGI_FORMAT_R32_UINT, D3D12_UAV_DIMENSION_BUFFER, {}};
    view.Buffer.NumElements = 4;
    bench.device->CreateUnorderedAccessView(buffer.get(), nullptr, &view, heap->GetCPUDescriptorHandleForHeapStart());
    CHECK_EQUAL(bench.device->GetDeviceRemovedReason(), DXGI_ERROR_INVALID_CALL);
}
