#include <functional>

#include "harness.h"

// Offsets: t0 at 4 (explicit), u1 behind it, b0 behind that, u0 at 0.
constexpr D3D12_DESCRIPTOR_RANGE1 scattered[] = {
    {D3D12_DESCRIPTOR_RANGE_TYPE_SRV, 1, 0, 0, {}, 4},
    {D3D12_DESCRIPTOR_RANGE_TYPE_UAV, 1, 1, 0, {}, descriptor_range_offset_append},
    {D3D12_DESCRIPTOR_RANGE_TYPE_CBV, 1, 0, 0, {}, descriptor_range_offset_append},
    {D3D12_DESCRIPTOR_RANGE_TYPE_UAV, 1, 0, 0, {}, 0},
};

ADAPTER_CHECK(descriptor_tables) {
    Bench bench;
    auto signature = bench.table_signature(scattered);
    auto pipeline = bench.pipeline("describe_views", signature.get());
    auto source = bench.upload(std::vector<uint32_t>{10, 11, 12, 13, 14, 15, 16, 17});
    auto constant_buffer = bench.upload(std::vector<uint32_t>(64, 77));
    auto out = bench.buffer(48);
    auto heap = bench.descriptors(8);
    bench.write_uav(heap.get(), 0, out.get(), DXGI_FORMAT_R32_TYPELESS, 0, 12);
    bench.write_srv(heap.get(), 4, source.get(), DXGI_FORMAT_R32_TYPELESS, 4, 4);
    bench.write_uav(heap.get(), 5, source.get(), DXGI_FORMAT_UNKNOWN, 2, 2, 8);
    const D3D12_CONSTANT_BUFFER_VIEW_DESC cbv_desc{constant_buffer->GetGPUVirtualAddress(), 256};
    bench.device->CreateConstantBufferView(&cbv_desc, bench.at(heap.get(), 6));
    bench.dispatch(pipeline.get(), signature.get(), heap.get(), 1);
    bench.execute();
    const std::vector<uint32_t> expected = {16, 1, 0, 14, 16, 8, 0, 14, 256, 1, 0, 77};
    CHECK(bench.read<uint32_t>(out.get()) == expected);
    CHECK_OK(bench.device->GetDeviceRemovedReason());
}

ADAPTER_CHECK(null_descriptors) {
    Bench bench;
    auto signature = bench.table_signature(scattered);
    auto pipeline = bench.pipeline("describe_views", signature.get());
    auto out = bench.upload(std::vector<uint32_t>(12, 5));
    auto heap = bench.descriptors(8);
    bench.write_uav(heap.get(), 0, out.get(), DXGI_FORMAT_R32_TYPELESS, 0, 12);
    bench.write_srv(heap.get(), 4, nullptr, DXGI_FORMAT_R32_TYPELESS, 0, 100);
    bench.device->CreateConstantBufferView(nullptr, bench.at(heap.get(), 6));
    bench.dispatch(pipeline.get(), signature.get(), heap.get(), 1);
    bench.execute();
    const std::vector<uint32_t> expected = {0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0};  // u1 was never written
    CHECK(bench.read<uint32_t>(out.get()) == expected);
}

ADAPTER_CHECK(registers_of_a_range) {
    Bench bench;
    const D3D12_DESCRIPTOR_RANGE1 ranges[] = {one_uav,
                                              {D3D12_DESCRIPTOR_RANGE_TYPE_SRV, UINT32_MAX, 2, 0, {}, 1}};
    auto signature = bench.table_signature(ranges);
    auto pipeline = bench.pipeline("gather_registers", signature.get());
    auto source = bench.upload(std::vector<uint32_t>{20, 0, 0, 0, 21, 0, 0, 0, 22, 0, 0, 0});
    auto out = bench.buffer(12);
    auto heap = bench.descriptors(6);
    bench.write_uav(heap.get(), 0, out.get(), DXGI_FORMAT_R32_TYPELESS, 0, 3);
    for (uint32_t i = 0; i < 3; ++i) {  // t4, t5 and t6 are the third descriptor and after of t2...
        bench.write_srv(heap.get(), 3 + i, source.get(), DXGI_FORMAT_R32_TYPELESS, 4 * i, 4);
    }
    bench.dispatch(pipeline.get(), signature.get(), heap.get(), 1);
    bench.execute();
    CHECK((bench.read<uint32_t>(out.get()) == std::vector<uint32_t>{20, 21, 22}));
}

ADAPTER_CHECK(refused_descriptor_heaps) {
    auto device = create_device();
    auto create = [&](D3D12_DESCRIPTOR_HEAP_TYPE type, uint32_t count) {
        const D3D12_DESCRIPTOR_HEAP_DESC desc{type, count, D3D12_DESCRIPTOR_HEAP_FLAG_SHADER_VISIBLE, 0};
        ComPtr<ID3D12DescriptorHeap> heap;
        return device->CreateDescriptorHeap(&desc, ID3D12DescriptorHeap::iid, heap.put());
    };
    CHECK_OK(create(D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV, 1'000'000));
    CHECK_EQUAL(create(D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV, 1'000'001), E_INVALIDARG);
    CHECK_EQUAL(create(D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV, 0), E_INVALIDARG);
    CHECK_EQUAL(create(D3D12_DESCRIPTOR_HEAP_TYPE_SAMPLER, 1), E_NOTIMPL);
}

ADAPTER_CHECK(copied_descriptors) {
    Bench bench;
    OneBuffer one(bench, "double_words", 4);
    auto data = bench.upload(std::vector<uint32_t>{1, 2, 3, 4});
    auto staging = bench.descriptors(3, false);
    CHECK_EQUAL(staging->GetGPUDescriptorHandleForHeapStart().ptr, 0);
    bench.write_uav(staging.get(), 2, data.get(), DXGI_FORMAT_R32_TYPELESS, 0, 4);
    bench.device->CopyDescriptorsSimple(1, bench.at(one.heap.get(), 0), bench.at(staging.get(), 2),
                                        D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV);
    one.dispatch(bench, 1);
    bench.execute();
    CHECK((bench.read<uint32_t>(data.get()) == std::vector<uint32_t>{2, 4, 6, 8}));

    // Two ranges of one and two descriptors from one of three.
    auto target = bench.descriptors(4, false);
    const D3D12_CPU_DESCRIPTOR_HANDLE targets[] = {bench.at(target.get(), 3), bench.at(target.get(), 0)};
    const uint32_t target_sizes[] = {1, 2};
    const D3D12_CPU_DESCRIPTOR_HANDLE sources[] = {bench.at(staging.get(), 0)};
    const uint32_t source_sizes[] = {3};
    bench.device->CopyDescriptors(2, targets, target_sizes, 1, sources, source_sizes,
                                  D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV);
    bench.device->CopyDescriptorsSimple(1, bench.at(one.heap.get(), 0), bench.at(target.get(), 1),
                                        D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV);
    one.dispatch(bench, 1);
    bench.execute();
    CHECK((bench.read<uint32_t>(data.get()) == std::vector<uint32_t>{4, 8, 12, 16}));
}

// A descriptor may change between recording and execution.
ADAPTER_CHECK(volatile_descriptors) {
    Bench bench;
    OneBuffer one(bench, "double_words", 2);
    auto late = bench.upload(std::vector<uint32_t>{7, 9});
    one.dispatch(bench, 1);
    bench.write_uav(one.heap.get(), 0, late.get(), DXGI_FORMAT_R32_TYPELESS, 0, 2);
    bench.execute();
    CHECK((bench.read<uint32_t>(late.get()) == std::vector<uint32_t>{14, 18}));
}

ADAPTER_CHECK(root_arguments) {
    Bench bench;
    D3D12_ROOT_PARAMETER1 parameters[4]{};
    parameters[0].ParameterType = D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS;
    parameters[0].Constants = {0, 0, 3};
    parameters[1].ParameterType = D3D12_ROOT_PARAMETER_TYPE_UAV;
    parameters[1].Descriptor = {0, 0, {}};
    parameters[2].ParameterType = D3D12_ROOT_PARAMETER_TYPE_SRV;
    parameters[2].Descriptor = {0, 0, {}};
    parameters[3].ParameterType = D3D12_ROOT_PARAMETER_TYPE_UAV;
    parameters[3].Descriptor = {1, 0, {}};
    auto signature = bench.root_signature(parameters);
    auto pipeline = bench.pipeline("describe_views", signature.get());
    auto out = bench.buffer(48);
    auto source = bench.upload(std::vector<uint32_t>{30, 31, 32, 33});
    bench.list->SetPipelineState(pipeline.get());
    bench.list->SetComputeRootSignature(signature.get());
    const uint32_t values[] = {51, 52};
    bench.list->SetComputeRoot32BitConstant(0, 50, 0);
    bench.list->SetComputeRoot32BitConstants(0, 2, values, 1);
    bench.list->SetComputeRootUnorderedAccessView(1, out->GetGPUVirtualAddress());
    bench.list->SetComputeRootShaderResourceView(2, source->GetGPUVirtualAddress() + 8);
    bench.list->SetComputeRootUnorderedAccessView(3, source->GetGPUVirtualAddress() + 4);
    bench.list->SetComputeRootSignature(signature.get());  // the same again keeps the arguments
    bench.list->Dispatch(1, 1, 1);
    bench.list->SetComputeRoot32BitConstant(0, 99, 0);  // too late for the dispatch above
    bench.execute();
    const auto got = bench.read<uint32_t>(out.get());
    // A root view goes to the end of the memory, which comes in pages of 64 KiB; constants in rows of 16
    // bytes.
    const std::vector<uint32_t> expected = {65528, 1, 0, 32, 65532, 8, 0, 31, 16, 1, 0, 50};
    CHECK(got == expected);
}

ADAPTER_CHECK(root_constant_buffer) {
    Bench bench;
    D3D12_ROOT_PARAMETER1 parameters[2]{};
    parameters[0].ParameterType = D3D12_ROOT_PARAMETER_TYPE_CBV;
    const D3D12_DESCRIPTOR_RANGE1 ranges[] = {{D3D12_DESCRIPTOR_RANGE_TYPE_UAV, 2, 0, 0, {}, 0},
                                              {D3D12_DESCRIPTOR_RANGE_TYPE_SRV, 1, 0, 0, {}, 2}};
    parameters[1].DescriptorTable = {2, ranges};
    auto signature = bench.root_signature(parameters);
    auto pipeline = bench.pipeline("describe_views", signature.get());
    auto out = bench.buffer(48);
    auto constants_source = bench.upload(std::vector<uint32_t>(65536, 3));
    auto heap = bench.descriptors(3);
    bench.write_uav(heap.get(), 0, out.get(), DXGI_FORMAT_R32_TYPELESS, 0, 12);
    bench.list->SetPipelineState(pipeline.get());
    bench.list->SetComputeRootSignature(signature.get());
    bench.list->SetComputeRootConstantBufferView(0, constants_source->GetGPUVirtualAddress());
    bench.list->SetComputeRootDescriptorTable(1, heap->GetGPUDescriptorHandleForHeapStart());
    bench.list->Dispatch(1, 1, 1);
    bench.execute();
    const auto got = bench.read<uint32_t>(out.get());
    CHECK_EQUAL(got[8], 65536);  // a constant buffer has at most 64 KiB
    CHECK_EQUAL(got[11], 3);
}

// A pipeline is compiled for each combination of view formats that it meets, once.
ADAPTER_CHECK(view_formats) {
    Bench bench;
    sw_reset_counters();
    compiled_formats.clear();
    auto signature = bench.table_signature(scattered);
    auto pipeline = bench.pipeline("typed_views", signature.get());
    auto source = bench.upload(std::vector<uint32_t>{1, 2, 3, 4});
    auto out = bench.buffer(48);
    auto heap = bench.descriptors(8);
    bench.write_uav(heap.get(), 0, out.get(), DXGI_FORMAT_R32_TYPELESS, 0, 12);
    bench.write_uav(heap.get(), 5, source.get(), DXGI_FORMAT_R16G16_FLOAT, 1, 2);
    for (const auto format : {DXGI_FORMAT_R8_UINT, DXGI_FORMAT_R32_FLOAT, DXGI_FORMAT_R8_UINT}) {
        bench.write_srv(heap.get(), 4, source.get(), format, 2, 2);
        bench.dispatch(pipeline.get(), signature.get(), heap.get(), 1);
        bench.execute();
    }
    const std::vector<std::vector<uint32_t>> expected = {
        {0, DXGI_FORMAT_R8_UINT, DXGI_FORMAT_R16G16_FLOAT, 0},
        {0, DXGI_FORMAT_R32_FLOAT, DXGI_FORMAT_R16G16_FLOAT, 0}};
    CHECK(compiled_formats == expected);
    CHECK_EQUAL(sw_counter("kernels_compiled"), 2);
    CHECK_EQUAL(sw_counter("pipelines_compiled"), 1);
    const auto got = bench.read<uint32_t>(out.get());
    CHECK_EQUAL(got[0], 2);  // two elements of one byte
    CHECK_EQUAL(got[1], 1);
    CHECK_EQUAL(got[2], DXGI_FORMAT_R8_UINT);
    CHECK_EQUAL(got[4], 8);
    CHECK_EQUAL(got[5], 4);
    CHECK_EQUAL(got[7], 2);
}

static HRESULT removed_by(const std::function<void(Bench&, ID3D12Resource*, ID3D12DescriptorHeap*)>& action) {
    Bench bench;
    auto buffer = bench.buffer(1024);
    auto heap = bench.descriptors(1);
    action(bench, buffer.get(), heap.get());
    return bench.device->GetDeviceRemovedReason();
}

// Methods that create views return nothing: a view that cannot be loses the device.
ADAPTER_CHECK(impossible_views) {
    auto uav_case = [](DXGI_FORMAT format, uint64_t first, uint32_t count, uint32_t stride) {
        return removed_by([=](Bench& bench, ID3D12Resource* buffer, ID3D12DescriptorHeap* heap) {
            bench.write_uav(heap, 0, buffer, format, first, count, stride);
        });
    };
    CHECK_OK(uav_case(DXGI_FORMAT_R32_TYPELESS, 0, 256, 0));
    CHECK_OK(uav_case(DXGI_FORMAT_UNKNOWN, 1, 84, 12));
    CHECK_OK(uav_case(DXGI_FORMAT_R32G32B32_FLOAT, 84, 1, 0));
    CHECK_EQUAL(uav_case(DXGI_FORMAT_R32_TYPELESS, 0, 257, 0), DXGI_ERROR_INVALID_CALL);
    CHECK_EQUAL(uav_case(DXGI_FORMAT_R32_TYPELESS, 2, 1, 0), DXGI_ERROR_INVALID_CALL);
    CHECK_EQUAL(uav_case(DXGI_FORMAT_R32_TYPELESS, UINT64_MAX, 1, 0), DXGI_ERROR_INVALID_CALL);
    CHECK_EQUAL(uav_case(DXGI_FORMAT_UNKNOWN, 1, 85, 12), DXGI_ERROR_INVALID_CALL);
    CHECK_EQUAL(uav_case(DXGI_FORMAT_UNKNOWN, 0, 1, 0), DXGI_ERROR_INVALID_CALL);
    CHECK_EQUAL(uav_case(DXGI_FORMAT_R8_UINT, 0, 1025, 0), DXGI_ERROR_INVALID_CALL);
    CHECK_EQUAL(removed_by([](Bench& bench, ID3D12Resource* buffer, ID3D12DescriptorHeap* heap) {
                    const D3D12_CONSTANT_BUFFER_VIEW_DESC desc{buffer->GetGPUVirtualAddress(), 1 << 20};
                    bench.device->CreateConstantBufferView(&desc, bench.at(heap, 0));
                }),
                DXGI_ERROR_INVALID_CALL);
    CHECK_EQUAL(removed_by([](Bench& bench, ID3D12Resource* buffer, ID3D12DescriptorHeap* heap) {
                    bench.device->CreateUnorderedAccessView(buffer, nullptr, nullptr, bench.at(heap, 0));
                }),
                DXGI_ERROR_INVALID_CALL);
}
