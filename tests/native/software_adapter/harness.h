// What the checks of the software adapter share: CHECK, kernels in place of shaders, a device with a queue
// and a list.
//
// Shaders are names in place of DXBC: the compiler registered here knows the kernels in harness.cpp by name.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "abi/d3d12.h"
#include "software_adapter/shader_abi.h"

using namespace dmlgraph::abi;

extern "C" {
D3D12CreateDeviceFunction D3D12CreateDevice;
D3D12GetDebugInterfaceFunction D3D12GetDebugInterface;
D3D12SerializeVersionedRootSignatureFunction D3D12SerializeVersionedRootSignature;
}

inline void check_true(bool condition, const char* file, int line, const char* text) {
    if (!condition) {
        std::fprintf(stderr, "%s:%d: not true: %s\n", file, line, text);
        std::exit(1);
    }
}

template <class Value, class Expected>
void check_equal(Value value, Expected expected, const char* file, int line, const char* text) {
    if (value != static_cast<Value>(expected)) {
        std::fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", file, line, text, static_cast<long long>(value),
                     static_cast<long long>(expected));
        std::exit(1);
    }
}

// A check, run by its name, on an adapter with these restrictions (strictness.h).
struct Check {
    const char* name;
    void (*run)();
    const char* strict;

    Check(const char* check_name, void (*function)(), const char* restrictions);
};
#define STRICT_CHECK(name, restrictions)                        \
    static void name();                                         \
    static const Check name##_check(#name, name, restrictions); \
    static void name()
#define ADAPTER_CHECK(name) STRICT_CHECK(name, "")

// Where something is wrong, the check ends.
#define CHECK(condition) check_true((condition), __FILE__, __LINE__, #condition)
#define CHECK_EQUAL(value, expected) check_equal((value), (expected), __FILE__, __LINE__, #value)
#define CHECK_OK(call) CHECK_EQUAL(call, S_OK)

// The formats that kernels were compiled for, in order.
extern std::vector<std::vector<uint32_t>> compiled_formats;

inline D3D12_RESOURCE_DESC buffer_desc(uint64_t size, D3D12_RESOURCE_FLAGS flags) {
    D3D12_RESOURCE_DESC desc{};
    desc.Dimension = D3D12_RESOURCE_DIMENSION_BUFFER;
    desc.Width = size;
    desc.Height = desc.DepthOrArraySize = desc.MipLevels = desc.SampleDesc.Count = 1;
    desc.Layout = D3D12_TEXTURE_LAYOUT_ROW_MAJOR;
    desc.Flags = flags;
    return desc;
}

inline D3D12_HEAP_PROPERTIES heap_of(D3D12_HEAP_TYPE type) {
    return {type, {}, {}, 1, 1};
}

inline D3D12_RESOURCE_STATES first_state(D3D12_HEAP_TYPE type) {
    return type == D3D12_HEAP_TYPE_UPLOAD     ? D3D12_RESOURCE_STATE_GENERIC_READ
           : type == D3D12_HEAP_TYPE_READBACK ? D3D12_RESOURCE_STATE_COPY_DEST
                                              : D3D12_RESOURCE_STATE_COMMON;
}

// A device of the given level; the compiler of the kernels is registered.
ComPtr<ID3D12Device5> create_device(D3D_FEATURE_LEVEL minimum = D3D_FEATURE_LEVEL_11_0);

class Bench {
public:
    explicit Bench(ComPtr<ID3D12Device5> bench_device = create_device()) : device(std::move(bench_device)) {
        const D3D12_COMMAND_QUEUE_DESC desc{D3D12_COMMAND_LIST_TYPE_COMPUTE, 0, {}, 0};
        CHECK_OK(device->CreateCommandQueue(&desc, ID3D12CommandQueue::iid, queue.put()));
        CHECK_OK(device->CreateCommandAllocator(desc.Type, ID3D12CommandAllocator::iid, allocator.put()));
        CHECK_OK(device->CreateCommandList(0, desc.Type, allocator.get(), nullptr,
                                           ID3D12GraphicsCommandList::iid, list.put()));
        CHECK_OK(device->CreateFence(0, D3D12_FENCE_FLAG_NONE, ID3D12Fence::iid, fence.put()));
    }

    ComPtr<ID3D12Resource> buffer(uint64_t size, D3D12_HEAP_TYPE type = D3D12_HEAP_TYPE_DEFAULT) {
        const auto flags = type == D3D12_HEAP_TYPE_DEFAULT ? D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS
                                                           : D3D12_RESOURCE_FLAG_NONE;
        const auto properties = heap_of(type);
        const auto desc = buffer_desc(size, flags);
        ComPtr<ID3D12Resource> result;
        CHECK_OK(device->CreateCommittedResource(&properties, D3D12_HEAP_FLAG_NONE, &desc, first_state(type),
                                                 nullptr, ID3D12Resource::iid, result.put()));
        return result;
    }

    template <class T>
    ComPtr<ID3D12Resource> upload(const std::vector<T>& values) {
        const uint64_t size = values.size() * sizeof(T);
        auto staging = buffer(size, D3D12_HEAP_TYPE_UPLOAD);
        void* data = nullptr;
        CHECK_OK(staging->Map(0, nullptr, &data));
        std::memcpy(data, values.data(), size);
        staging->Unmap(0, nullptr);
        auto result = buffer(size);
        list->CopyBufferRegion(result.get(), 0, staging.get(), 0, size);
        execute();
        return result;
    }

    template <class T>
    std::vector<T> read(ID3D12Resource* resource) {
        const uint64_t size = resource->GetDesc().Width;
        auto staging = buffer(size, D3D12_HEAP_TYPE_READBACK);
        list->CopyResource(staging.get(), resource);
        execute();
        void* data = nullptr;
        CHECK_OK(staging->Map(0, nullptr, &data));
        std::vector<T> values(size / sizeof(T));
        std::memcpy(values.data(), data, values.size() * sizeof(T));
        return values;
    }

    void submit() {
        ID3D12CommandList* lists[] = {list.get()};
        queue->ExecuteCommandLists(1, lists);
    }

    void wait() {
        CHECK_OK(queue->Signal(fence.get(), ++fence_value));
        CHECK_OK(fence->SetEventOnCompletion(fence_value, nullptr));
        CHECK_EQUAL(fence->GetCompletedValue(), fence_value);
    }

    // Closes, runs and reopens the list.
    void execute() {
        CHECK_OK(list->Close());
        submit();
        wait();
        reset();
    }

    void reset() {
        CHECK_OK(allocator->Reset());
        CHECK_OK(list->Reset(allocator.get(), nullptr));
    }

    ComPtr<ID3D12DescriptorHeap> descriptors(uint32_t count, bool visible = true) {
        const D3D12_DESCRIPTOR_HEAP_DESC desc{
            D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV, count,
            visible ? D3D12_DESCRIPTOR_HEAP_FLAG_SHADER_VISIBLE : D3D12_DESCRIPTOR_HEAP_FLAG_NONE, 0};
        ComPtr<ID3D12DescriptorHeap> heap;
        CHECK_OK(device->CreateDescriptorHeap(&desc, ID3D12DescriptorHeap::iid, heap.put()));
        return heap;
    }

    D3D12_CPU_DESCRIPTOR_HANDLE at(ID3D12DescriptorHeap* heap, uint32_t index) {
        const auto step = device->GetDescriptorHandleIncrementSize(D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV);
        return {heap->GetCPUDescriptorHandleForHeapStart().ptr + size_t{index} * step};
    }

    static D3D12_UNORDERED_ACCESS_VIEW_DESC uav_desc(DXGI_FORMAT format, uint64_t first, uint32_t count,
                                                     uint32_t stride = 0) {
        D3D12_UNORDERED_ACCESS_VIEW_DESC desc{format, D3D12_UAV_DIMENSION_BUFFER, {}};
        desc.Buffer = {
            first, count, stride, 0,
            format == DXGI_FORMAT_R32_TYPELESS ? D3D12_BUFFER_UAV_FLAG_RAW : D3D12_BUFFER_UAV_FLAG_NONE};
        return desc;
    }

    // Format R32_TYPELESS makes a raw view.
    void write_uav(ID3D12DescriptorHeap* heap, uint32_t index, ID3D12Resource* resource, DXGI_FORMAT format,
                   uint64_t first, uint32_t count, uint32_t stride = 0) {
        const auto desc = uav_desc(format, first, count, stride);
        device->CreateUnorderedAccessView(resource, nullptr, &desc, at(heap, index));
    }

    void write_srv(ID3D12DescriptorHeap* heap, uint32_t index, ID3D12Resource* resource, DXGI_FORMAT format,
                   uint64_t first, uint32_t count, uint32_t stride = 0) {
        D3D12_SHADER_RESOURCE_VIEW_DESC desc{
            format, D3D12_SRV_DIMENSION_BUFFER, default_shader_4_component_mapping, {}};
        desc.Buffer = {
            first, count, stride,
            format == DXGI_FORMAT_R32_TYPELESS ? D3D12_BUFFER_SRV_FLAG_RAW : D3D12_BUFFER_SRV_FLAG_NONE};
        device->CreateShaderResourceView(resource, &desc, at(heap, index));
    }

    ComPtr<ID3D12RootSignature> root_signature(std::span<const D3D12_ROOT_PARAMETER1> parameters) {
        D3D12_VERSIONED_ROOT_SIGNATURE_DESC desc{D3D_ROOT_SIGNATURE_VERSION_1_1, {}};
        desc.Desc_1_1 = {static_cast<uint32_t>(parameters.size()), parameters.data(), 0, nullptr,
                         D3D12_ROOT_SIGNATURE_FLAG_NONE};
        ComPtr<ID3DBlob> blob;
        CHECK_OK(D3D12SerializeVersionedRootSignature(&desc, blob.put_typed(), nullptr));
        ComPtr<ID3D12RootSignature> result;
        CHECK_OK(device->CreateRootSignature(0, blob->GetBufferPointer(), blob->GetBufferSize(),
                                             ID3D12RootSignature::iid, result.put()));
        return result;
    }

    ComPtr<ID3D12RootSignature> table_signature(std::span<const D3D12_DESCRIPTOR_RANGE1> ranges) {
        D3D12_ROOT_PARAMETER1 parameter{
            D3D12_ROOT_PARAMETER_TYPE_DESCRIPTOR_TABLE, {}, D3D12_SHADER_VISIBILITY_ALL};
        parameter.DescriptorTable = {static_cast<uint32_t>(ranges.size()), ranges.data()};
        return root_signature({&parameter, 1});
    }

    HRESULT try_pipeline(const std::string& shader, ID3D12RootSignature* signature,
                         ComPtr<ID3D12PipelineState>& to) {
        const D3D12_COMPUTE_PIPELINE_STATE_DESC desc{signature, {shader.data(), shader.size()}, 0, {}, {}};
        return device->CreateComputePipelineState(&desc, ID3D12PipelineState::iid, to.put());
    }

    ComPtr<ID3D12PipelineState> pipeline(const std::string& shader, ID3D12RootSignature* signature) {
        ComPtr<ID3D12PipelineState> result;
        CHECK_OK(try_pipeline(shader, signature, result));
        return result;
    }

    void dispatch(ID3D12PipelineState* state, ID3D12RootSignature* signature, ID3D12DescriptorHeap* heap,
                  uint32_t x, uint32_t y = 1, uint32_t z = 1) {
        list->SetDescriptorHeaps(1, &heap);
        list->SetComputeRootSignature(signature);
        list->SetPipelineState(state);
        list->SetComputeRootDescriptorTable(0, heap->GetGPUDescriptorHandleForHeapStart());
        list->Dispatch(x, y, z);
    }

    ComPtr<ID3D12Device5> device;
    ComPtr<ID3D12CommandQueue> queue;
    ComPtr<ID3D12CommandAllocator> allocator;
    ComPtr<ID3D12GraphicsCommandList> list;
    ComPtr<ID3D12Fence> fence;
    uint64_t fence_value = 0;
};

constexpr D3D12_DESCRIPTOR_RANGE1 one_uav{
    D3D12_DESCRIPTOR_RANGE_TYPE_UAV, 1, 0, 0, D3D12_DESCRIPTOR_RANGE_FLAG_DESCRIPTORS_VOLATILE,
    descriptor_range_offset_append};

// A pipeline with one raw UAV, u0, over a buffer of its own.
struct OneBuffer {
    OneBuffer(Bench& bench, const std::string& shader, uint32_t count)
        : signature(bench.table_signature({&one_uav, 1})),
          pipeline(bench.pipeline(shader, signature.get())),
          heap(bench.descriptors(1)),
          buffer(bench.buffer(uint64_t{count} * 4)) {
        bench.write_uav(heap.get(), 0, buffer.get(), DXGI_FORMAT_R32_TYPELESS, 0, count);
    }
    void dispatch(Bench& bench, uint32_t x, uint32_t y = 1, uint32_t z = 1) {
        bench.dispatch(pipeline.get(), signature.get(), heap.get(), x, y, z);
    }

    ComPtr<ID3D12RootSignature> signature;
    ComPtr<ID3D12PipelineState> pipeline;
    ComPtr<ID3D12DescriptorHeap> heap;
    ComPtr<ID3D12Resource> buffer;
};
