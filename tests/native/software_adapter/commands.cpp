#include <algorithm>
#include <bit>
#include <cmath>

#include "harness.h"

ADAPTER_CHECK(copies) {
    Bench bench;
    sw_reset_counters();
    auto source = bench.upload(std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7});
    auto target = bench.buffer(32);
    bench.list->CopyBufferRegion(target.get(), 4, source.get(), 8, 12);
    bench.execute();
    CHECK((bench.read<uint32_t>(target.get()) == std::vector<uint32_t>{0, 2, 3, 4, 0, 0, 0, 0}));
    bench.list->CopyBufferRegion(source.get(), 4, source.get(), 0, 28);  // onto itself
    bench.execute();
    CHECK((bench.read<uint32_t>(source.get()) == std::vector<uint32_t>{0, 0, 1, 2, 3, 4, 5, 6}));
    CHECK_EQUAL(sw_counter("bytes_copied"), 32 + 12 + 32 + 28 + 32);
}

ADAPTER_CHECK(large_copy) {
    Bench bench;
    sw_set_threads(3);
    std::vector<uint32_t> values(5'000'001);
    for (uint32_t i = 0; i < values.size(); ++i) {
        values[i] = i * 2654435761u;
    }
    auto buffer = bench.upload(values);
    CHECK(bench.read<uint32_t>(buffer.get()) == values);
}

// What cannot be recorded fails at Close, nothing of the list runs, and it can be used again after Reset.
ADAPTER_CHECK(recording_errors) {
    Bench bench;
    auto small = bench.buffer(16);
    auto large = bench.buffer(32);
    OneBuffer one(bench, "double_words", 4);
    auto other_signature = bench.root_signature({});
    auto closes_with = [&](auto record) {
        record(*bench.list.get());
        const HRESULT result = bench.list->Close();
        bench.reset();
        return result;
    };
    CHECK_OK(closes_with([](ID3D12GraphicsCommandList&) {}));
    CHECK_EQUAL(closes_with([&](auto& list) { list.CopyBufferRegion(small.get(), 8, large.get(), 0, 9); }),
                E_INVALIDARG);
    CHECK_EQUAL(
        closes_with([&](auto& list) { list.CopyBufferRegion(large.get(), 0, small.get(), UINT64_MAX, 2); }),
        E_INVALIDARG);
    CHECK_EQUAL(closes_with([&](auto& list) { list.CopyResource(small.get(), large.get()); }), E_INVALIDARG);
    CHECK_EQUAL(closes_with([&](auto& list) { list.Dispatch(1, 1, 1); }), E_INVALIDARG);
    CHECK_EQUAL(closes_with([&](auto&) { one.dispatch(bench, 65536); }), E_INVALIDARG);
    CHECK_OK(closes_with([&](auto&) { one.dispatch(bench, 65535); }));
    CHECK_EQUAL(closes_with([&](auto& list) {
                    one.dispatch(bench, 1);
                    list.SetComputeRootSignature(other_signature.get());
                    list.Dispatch(1, 1, 1);
                }),
                E_INVALIDARG);
    CHECK_EQUAL(closes_with([&](auto& list) {
                    list.SetPipelineState(one.pipeline.get());
                    list.SetComputeRootSignature(one.signature.get());
                    list.Dispatch(1, 1, 1);  // its table is not set
                }),
                E_INVALIDARG);
    CHECK_EQUAL(closes_with([&](auto& list) {
                    list.SetComputeRootSignature(one.signature.get());
                    list.SetComputeRoot32BitConstant(0, 1, 0);  // a table
                }),
                E_INVALIDARG);

    auto values = bench.upload(std::vector<uint32_t>{1, 2, 3, 4});
    bench.write_uav(one.heap.get(), 0, values.get(), DXGI_FORMAT_R32_TYPELESS, 0, 4);
    one.dispatch(bench, 1);
    bench.list->CopyResource(small.get(), large.get());
    CHECK_EQUAL(bench.list->Close(), E_INVALIDARG);
    bench.submit();
    bench.wait();
    bench.reset();
    CHECK((bench.read<uint32_t>(values.get()) == std::vector<uint32_t>{1, 2, 3, 4}));
    CHECK_OK(bench.device->GetDeviceRemovedReason());
}

ADAPTER_CHECK(closing_and_resetting) {
    Bench bench;
    CHECK_EQUAL(bench.list->Reset(bench.allocator.get(), nullptr), E_FAIL);
    CHECK_OK(bench.list->Close());
    CHECK_EQUAL(bench.list->Close(), E_FAIL);
    CHECK_EQUAL(bench.list->Reset(nullptr, nullptr), E_INVALIDARG);
    ComPtr<ID3D12CommandAllocator> direct;
    CHECK_OK(bench.device->CreateCommandAllocator(D3D12_COMMAND_LIST_TYPE_DIRECT, ID3D12CommandAllocator::iid,
                                                  direct.put()));
    CHECK_EQUAL(bench.list->Reset(direct.get(), nullptr), E_INVALIDARG);
    CHECK_OK(bench.list->Reset(bench.allocator.get(), nullptr));
    bench.submit();  // open
    CHECK_EQUAL(bench.device->GetDeviceRemovedReason(), DXGI_ERROR_INVALID_CALL);

    auto device = create_device();
    ComPtr<ID3D12GraphicsCommandList> closed;
    CHECK_OK(device.as<ID3D12Device4>()->CreateCommandList1(0, D3D12_COMMAND_LIST_TYPE_COMPUTE,
                                                            D3D12_COMMAND_LIST_FLAG_NONE,
                                                            ID3D12GraphicsCommandList::iid, closed.put()));
    CHECK_EQUAL(closed->Close(), E_FAIL);
    CHECK_EQUAL(closed->GetType(), D3D12_COMMAND_LIST_TYPE_COMPUTE);
}

ADAPTER_CHECK(closed_list_runs_often) {
    Bench bench;
    OneBuffer one(bench, "double_words", 2);
    auto values = bench.upload(std::vector<uint32_t>{1, 3});
    bench.write_uav(one.heap.get(), 0, values.get(), DXGI_FORMAT_R32_TYPELESS, 0, 2);
    one.dispatch(bench, 1);
    one.dispatch(bench, 1);
    CHECK_OK(bench.list->Close());
    ID3D12CommandList* twice[] = {bench.list.get(), bench.list.get()};
    bench.queue->ExecuteCommandLists(2, twice);
    bench.submit();
    bench.wait();
    bench.reset();
    CHECK((bench.read<uint32_t>(values.get()) == std::vector<uint32_t>{64, 192}));
}

ADAPTER_CHECK(clears_with_integers) {
    Bench bench;
    auto heap = bench.descriptors(1, false);
    const uint32_t values[] = {0x12345678, 0x9abcdef0, 0x11223344, 0x55667788};
    auto clear = [&](DXGI_FORMAT format, uint64_t first, uint32_t count,
                     std::span<const D3D12_RECT> rects = {}) {
        auto buffer = bench.upload(std::vector<uint8_t>(64, 0xee));
        bench.write_uav(heap.get(), 0, buffer.get(), format, first, count);
        bench.list->ClearUnorderedAccessViewUint({}, bench.at(heap.get(), 0), buffer.get(), values,
                                                 static_cast<uint32_t>(rects.size()), rects.data());
        bench.execute();
        return bench.read<uint8_t>(buffer.get());
    };
    auto expected = [](size_t from, std::vector<uint8_t> bytes) {
        std::vector<uint8_t> all(64, 0xee);
        std::ranges::copy(bytes, all.begin() + static_cast<ptrdiff_t>(from));
        return all;
    };
    CHECK(clear(DXGI_FORMAT_R32_TYPELESS, 4, 2) ==
          expected(16, {0x78, 0x56, 0x34, 0x12, 0x78, 0x56, 0x34, 0x12}));
    CHECK(clear(DXGI_FORMAT_R8_UINT, 3, 5) == expected(3, {0x78, 0x78, 0x78, 0x78, 0x78}));
    CHECK(clear(DXGI_FORMAT_R16G16_UINT, 2, 2) ==
          expected(8, {0x78, 0x56, 0xf0, 0xde, 0x78, 0x56, 0xf0, 0xde}));
    CHECK(clear(DXGI_FORMAT_R32G32B32_UINT, 1, 1) ==
          expected(12, {0x78, 0x56, 0x34, 0x12, 0xf0, 0xde, 0xbc, 0x9a, 0x44, 0x33, 0x22, 0x11}));
    const D3D12_RECT rects[] = {{1, 0, 2, 1}, {4, 0, 100, 1}, {3, 0, 3, 1}};
    CHECK(clear(DXGI_FORMAT_R8_UINT, 0, 6, rects) == expected(0, {0xee, 0x78, 0xee, 0xee, 0x78, 0x78}));
    CHECK_EQUAL(sw_counter("bytes_cleared"), 8 + 5 + 8 + 12 + 3);
}

ADAPTER_CHECK(clears_with_floats) {
    Bench bench;
    auto heap = bench.descriptors(1, false);
    auto clear = [&](DXGI_FORMAT format, float value) {
        auto buffer = bench.buffer(16);
        const float values[] = {value, value, value, value};
        bench.write_uav(heap.get(), 0, buffer.get(), format, 0, 1);
        bench.list->ClearUnorderedAccessViewFloat({}, bench.at(heap.get(), 0), buffer.get(), values, 0,
                                                  nullptr);
        bench.execute();
        return bench.read<uint32_t>(buffer.get())[0];
    };
    CHECK_EQUAL(clear(DXGI_FORMAT_R32_FLOAT, -1.5f), std::bit_cast<uint32_t>(-1.5f));
    CHECK_EQUAL(clear(DXGI_FORMAT_R8_UNORM, 0.5f), 128);
    CHECK_EQUAL(clear(DXGI_FORMAT_R8_UNORM, 7.0f), 255);
    CHECK_EQUAL(clear(DXGI_FORMAT_R8_SNORM, -1.0f), 0x81);
    CHECK_EQUAL(clear(DXGI_FORMAT_R16_SINT, -3.7f), 0xfffd);
    CHECK_EQUAL(clear(DXGI_FORMAT_R8_UINT, NAN), 0);
    CHECK_EQUAL(clear(DXGI_FORMAT_R8G8_UNORM, 1.0f), 0xffff);
    // float16 of every kind of value: the compiler's own conversion says what it is.
    for (uint32_t i = 0; i < 70000; ++i) {
        const auto value = std::bit_cast<float>(i * 61357u);
        const auto expected = std::bit_cast<uint16_t>(static_cast<_Float16>(value));
        if (i % 700 == 0 && !std::isnan(value)) {
            CHECK_EQUAL(clear(DXGI_FORMAT_R16_FLOAT, value), expected);
        }
    }
    for (const float value : {65504.0f, 65519.996f, 65520.0f, 0x1p-24f, 0x1p-25f, 0x1.8p-25f, 0x1.ffcp-15f,
                              0x1p-14f, 1.00048828125f, 1.00146484375f, -0.0f, INFINITY}) {
        CHECK_EQUAL(clear(DXGI_FORMAT_R16_FLOAT, value),
                    std::bit_cast<uint16_t>(static_cast<_Float16>(value)));
    }
}

ADAPTER_CHECK(timestamps) {
    Bench bench;
    const D3D12_QUERY_HEAP_DESC desc{D3D12_QUERY_HEAP_TYPE_TIMESTAMP, 4, 0};
    ComPtr<ID3D12QueryHeap> heap;
    CHECK_OK(bench.device->CreateQueryHeap(&desc, ID3D12QueryHeap::iid, heap.put()));
    OneBuffer one(bench, "double_words", 1 << 20);
    auto result = bench.buffer(40, D3D12_HEAP_TYPE_READBACK);
    uint64_t frequency = 0;
    uint64_t gpu = 0;
    uint64_t cpu = 0;
    CHECK_OK(bench.queue->GetTimestampFrequency(&frequency));
    CHECK_EQUAL(frequency, 1'000'000'000);
    CHECK_OK(bench.queue->GetClockCalibration(&gpu, &cpu));
    bench.list->EndQuery(heap.get(), D3D12_QUERY_TYPE_TIMESTAMP, 1);
    one.dispatch(bench, 1);
    bench.list->EndQuery(heap.get(), D3D12_QUERY_TYPE_TIMESTAMP, 2);
    bench.list->ResolveQueryData(heap.get(), D3D12_QUERY_TYPE_TIMESTAMP, 1, 2, result.get(), 8);
    bench.execute();
    void* data = nullptr;
    CHECK_OK(result->Map(0, nullptr, &data));
    const auto* times = static_cast<uint64_t*>(data);
    CHECK_EQUAL(times[0], 0);
    CHECK(gpu < times[1]);
    CHECK(times[2] - times[1] > 10'000);  // a million multiplications take more than 10 microseconds
    CHECK(times[2] - times[1] < 60'000'000'000);
    CHECK_EQUAL(times[3], 0);

    bench.list->EndQuery(heap.get(), D3D12_QUERY_TYPE_TIMESTAMP, 4);
    CHECK_EQUAL(bench.list->Close(), E_INVALIDARG);
    bench.reset();
    bench.list->ResolveQueryData(heap.get(), D3D12_QUERY_TYPE_TIMESTAMP, 0, 4, result.get(), 16);
    CHECK_EQUAL(bench.list->Close(), E_INVALIDARG);
    bench.reset();
    const D3D12_QUERY_HEAP_DESC occlusion{static_cast<D3D12_QUERY_HEAP_TYPE>(0), 4, 0};
    CHECK_EQUAL(bench.device->CreateQueryHeap(&occlusion, ID3D12QueryHeap::iid, heap.put()), E_INVALIDARG);
}
