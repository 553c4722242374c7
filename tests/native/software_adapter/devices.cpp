#include <atomic>
#include <chrono>
#include <thread>

#include "abi/dxcore.h"
#include "harness.h"

extern "C" DXCoreCreateAdapterFactoryFunction DXCoreCreateAdapterFactory;

ADAPTER_CHECK(creating_a_device) {
    ComPtr<ID3D12Device> device;
    CHECK_EQUAL(D3D12CreateDevice(nullptr, D3D_FEATURE_LEVEL_11_0, ID3D12Device::iid, nullptr), S_FALSE);
    CHECK_EQUAL(D3D12CreateDevice(nullptr, D3D_FEATURE_LEVEL_12_2, ID3D12Device::iid, device.put()),
                DXGI_ERROR_UNSUPPORTED);
    CHECK_EQUAL(D3D12CreateDevice(nullptr, D3D_FEATURE_LEVEL_11_0, ID3D12Fence::iid, device.put()),
                E_NOINTERFACE);
    CHECK_OK(D3D12CreateDevice(nullptr, D3D_FEATURE_LEVEL_1_0_CORE, ID3D12Device::iid, device.put()));
    CHECK(device.as<ID3D12Device5>() && device.as<ID3D12Object>() && device.as<IUnknown>());
    CHECK(!device.as<ID3D12InfoQueue>());
    CHECK_EQUAL(device->GetNodeCount(), 1);
    CHECK_EQUAL(D3D12GetDebugInterface(ID3D12Debug::iid, device.put()), E_NOINTERFACE);
    CHECK(!device);
}

ADAPTER_CHECK(features) {
    auto device = create_device();
    auto ask = [&](D3D12_FEATURE feature, auto data) {
        CHECK_OK(device->CheckFeatureSupport(feature, &data, sizeof data));
        return data;
    };
    const D3D_FEATURE_LEVEL levels[] = {D3D_FEATURE_LEVEL_12_1, D3D_FEATURE_LEVEL_11_0,
                                        D3D_FEATURE_LEVEL_12_0};
    const D3D12_FEATURE_DATA_FEATURE_LEVELS asked{3, levels, {}};
    CHECK_EQUAL(ask(D3D12_FEATURE_FEATURE_LEVELS, asked).MaxSupportedFeatureLevel, D3D_FEATURE_LEVEL_12_0);
    CHECK_EQUAL(ask(D3D12_FEATURE_SHADER_MODEL, D3D12_FEATURE_DATA_SHADER_MODEL{D3D_SHADER_MODEL_6_6})
                    .HighestShaderModel,
                D3D_SHADER_MODEL_6_2);
    CHECK_EQUAL(ask(D3D12_FEATURE_SHADER_MODEL, D3D12_FEATURE_DATA_SHADER_MODEL{D3D_SHADER_MODEL_5_1})
                    .HighestShaderModel,
                D3D_SHADER_MODEL_5_1);
    CHECK_EQUAL(ask(D3D12_FEATURE_D3D12_OPTIONS, D3D12_FEATURE_DATA_D3D12_OPTIONS{}).ResourceBindingTier,
                D3D12_RESOURCE_BINDING_TIER_3);
    CHECK_EQUAL(ask(D3D12_FEATURE_D3D12_OPTIONS1, D3D12_FEATURE_DATA_D3D12_OPTIONS1{}).WaveOps, 0);
    CHECK_EQUAL(
        ask(D3D12_FEATURE_D3D12_OPTIONS4, D3D12_FEATURE_DATA_D3D12_OPTIONS4{}).Native16BitShaderOpsSupported,
        1);
    CHECK_EQUAL(ask(D3D12_FEATURE_ARCHITECTURE, D3D12_FEATURE_DATA_ARCHITECTURE{}).CacheCoherentUMA, 1);
    CHECK_EQUAL(
        ask(D3D12_FEATURE_ROOT_SIGNATURE, D3D12_FEATURE_DATA_ROOT_SIGNATURE{D3D_ROOT_SIGNATURE_VERSION_1_1})
            .HighestVersion,
        D3D_ROOT_SIGNATURE_VERSION_1_1);
    uint32_t word = 0;
    CHECK_EQUAL(device->CheckFeatureSupport(D3D12_FEATURE_D3D12_OPTIONS, &word, sizeof word), E_INVALIDARG);
    CHECK_EQUAL(device->CheckFeatureSupport(static_cast<D3D12_FEATURE>(9999), &word, sizeof word),
                E_INVALIDARG);
}

ADAPTER_CHECK(private_data) {
    Bench bench;
    constexpr GUID name = guid("01234567-89ab-cdef-0123-456789abcdef");
    uint32_t size = 0;
    char text[8] = {};
    CHECK_EQUAL(bench.fence->GetPrivateData(name, &size, nullptr), DXGI_ERROR_NOT_FOUND);
    CHECK_OK(bench.fence->SetPrivateData(name, 6, "hello"));
    CHECK_OK(bench.fence->GetPrivateData(name, &size, nullptr));
    CHECK_EQUAL(size, 6);
    size = 5;
    CHECK_EQUAL(bench.fence->GetPrivateData(name, &size, text), DXGI_ERROR_MORE_DATA);
    CHECK_OK(bench.fence->GetPrivateData(name, &size, text));
    CHECK(std::string(text) == "hello");

    auto buffer = bench.buffer(16);
    CHECK_OK(bench.fence->SetPrivateDataInterface(name, buffer.get()));  // in place of the text
    ID3D12Resource* const address = buffer.get();
    buffer = nullptr;
    ComPtr<IUnknown> kept;
    size = sizeof(IUnknown*);
    CHECK_OK(bench.fence->GetPrivateData(name, &size, kept.put()));
    CHECK(kept.as<ID3D12Resource>().get() == address);
    CHECK_OK(bench.fence->SetPrivateData(name, 0, nullptr));
    CHECK_EQUAL(bench.fence->GetPrivateData(name, &size, nullptr), DXGI_ERROR_NOT_FOUND);

    constexpr GUID debug_name = guid("4cca5fd8-921f-42c8-8566-70caf2a9b741");
    wchar_t wide[16] = {};
    size = sizeof wide;
    CHECK_OK(bench.fence->SetName(L"my fence"));
    CHECK_OK(bench.fence->GetPrivateData(debug_name, &size, wide));
    CHECK(std::wstring(wide) == L"my fence");

    ComPtr<ID3D12Device> device;
    CHECK_OK(bench.fence->GetDevice(ID3D12Device::iid, device.put()));
    CHECK(device.as<IUnknown>() == bench.device.as<IUnknown>());
}

ADAPTER_CHECK(counters) {
    Bench bench;
    CHECK_EQUAL(sw_counter("no such counter"), UINT64_MAX);
    CHECK_EQUAL(sw_counter(nullptr), UINT64_MAX);
    const auto objects = sw_counter("live_objects");
    CHECK_EQUAL(objects, 5);  // device, queue, allocator, list, fence
    {
        auto buffer = bench.buffer(100);
        auto heap = bench.descriptors(3);
        CHECK_EQUAL(sw_counter("live_objects"), objects + 2);
        CHECK_EQUAL(sw_counter("live_bytes"), 65536);
    }
    CHECK_EQUAL(sw_counter("live_objects"), objects);
    bench.execute();
    CHECK_EQUAL(sw_counter("command_lists"), 1);
    sw_reset_counters();
    CHECK_EQUAL(sw_counter("command_lists"), 0);
    CHECK_EQUAL(sw_counter("live_objects"), objects);
}

// A child keeps its device.
ADAPTER_CHECK(lifetimes) {
    ComPtr<ID3D12PipelineState> pipeline;
    {
        Bench bench;
        OneBuffer one(bench, "double_words", 1);
        pipeline = one.pipeline;
    }
    CHECK_EQUAL(sw_counter("live_objects"), 3);  // the pipeline, its root signature, the device
    ComPtr<ID3D12Device> device;
    CHECK_OK(pipeline->GetDevice(ID3D12Device::iid, device.put()));
    CHECK_OK(device->GetDeviceRemovedReason());
}

// The caller of this check counts the lines on stderr.
ADAPTER_CHECK(not_implemented) {
    Bench bench;
    sw_reset_counters();
    for (int i = 0; i < 3; ++i) {
        bench.list->DrawInstanced(3, 1, 0, 0);
        bench.device->CreateSampler(nullptr, {});
        void* pipeline = nullptr;
        CHECK_EQUAL(bench.device->CreateGraphicsPipelineState(nullptr, ID3D12PipelineState::iid, &pipeline),
                    E_NOTIMPL);
    }
    CHECK_EQUAL(sw_counter("not_implemented"), 9);
}

ADAPTER_CHECK(refused_pipelines) {
    Bench bench;
    auto signature = bench.table_signature({&one_uav, 1});
    ComPtr<ID3D12PipelineState> pipeline;
    CHECK_EQUAL(bench.try_pipeline("no such shader", signature.get(), pipeline), E_NOTIMPL);
    CHECK_EQUAL(bench.try_pipeline("", signature.get(), pipeline), E_INVALIDARG);
    CHECK_EQUAL(bench.try_pipeline("describe_views", signature.get(), pipeline),
                E_INVALIDARG);  // t0 and more lack
    CHECK_EQUAL(bench.try_pipeline("double_words", nullptr, pipeline),
                E_INVALIDARG);  // nor has it a signature
    sw_set_compiler(nullptr, nullptr);
    CHECK_EQUAL(bench.try_pipeline("double_words", signature.get(), pipeline), E_NOTIMPL);
    CHECK_OK(bench.device->GetDeviceRemovedReason());
}

ADAPTER_CHECK(kernel_that_cannot_be_compiled) {
    Bench bench;
    OneBuffer one(bench, "cannot_compile", 1);
    one.dispatch(bench, 1);
    CHECK_OK(bench.list->Close());
    bench.submit();
    CHECK_EQUAL(bench.device->GetDeviceRemovedReason(), DXGI_ERROR_DRIVER_INTERNAL_ERROR);
    CHECK_EQUAL(bench.queue->Signal(bench.fence.get(), 1), DXGI_ERROR_DEVICE_REMOVED);
}

ADAPTER_CHECK(removed_device) {
    Bench bench;
    OneBuffer one(bench, "count_groups", 4);
    auto staging = bench.buffer(16, D3D12_HEAP_TYPE_UPLOAD);
    one.dispatch(bench, 4);
    CHECK_OK(bench.list->Close());
    CHECK_OK(bench.queue->Wait(bench.fence.get(), 100));
    bench.submit();
    std::atomic<bool> woken = false;
    std::thread waiter([&] {
        CHECK_OK(bench.fence->SetEventOnCompletion(50, nullptr));
        woken = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(!woken);

    sw_remove_device();
    waiter.join();
    CHECK_EQUAL(bench.device->GetDeviceRemovedReason(), DXGI_ERROR_DEVICE_REMOVED);
    CHECK_EQUAL(bench.fence->GetCompletedValue(), UINT64_MAX);
    CHECK_EQUAL(bench.fence->Signal(1), DXGI_ERROR_DEVICE_REMOVED);
    CHECK_EQUAL(bench.queue->Signal(bench.fence.get(), 1), DXGI_ERROR_DEVICE_REMOVED);
    CHECK_EQUAL(bench.queue->Wait(bench.fence.get(), 1), DXGI_ERROR_DEVICE_REMOVED);
    CHECK_EQUAL(*reinterpret_cast<uint32_t*>(one.buffer->GetGPUVirtualAddress()), 0);  // nothing ran
    void* data = nullptr;
    CHECK_EQUAL(staging->Map(0, nullptr, &data), DXGI_ERROR_DEVICE_REMOVED);
    ComPtr<ID3D12Fence> fence;
    CHECK_EQUAL(bench.device->CreateFence(0, D3D12_FENCE_FLAG_NONE, ID3D12Fence::iid, fence.put()),
                DXGI_ERROR_DEVICE_REMOVED);

    Bench fresh;  // new devices work while the lost one still exists
    OneBuffer again(fresh, "count_groups", 4);
    again.dispatch(fresh, 4);
    fresh.execute();
    CHECK(fresh.read<uint32_t>(again.buffer.get()) == std::vector<uint32_t>(4, 1));
    fresh.device->RemoveDevice();
    CHECK_EQUAL(fresh.device->GetDeviceRemovedReason(), DXGI_ERROR_DEVICE_REMOVED);
}

ADAPTER_CHECK(dxcore) {
    ComPtr<IDXCoreAdapterFactory> factory;
    CHECK_OK(DXCoreCreateAdapterFactory(IDXCoreAdapterFactory::iid, factory.put()));
    auto list_of = [&](GUID attribute) {
        ComPtr<IDXCoreAdapterList> list;
        CHECK_OK(factory->CreateAdapterList(1, &attribute, IDXCoreAdapterList::iid, list.put()));
        return list;
    };
    CHECK_EQUAL(list_of(DXCORE_ADAPTER_ATTRIBUTE_D3D12_GRAPHICS)->GetAdapterCount(), 0);
    const auto list = list_of(DXCORE_ADAPTER_ATTRIBUTE_D3D12_CORE_COMPUTE);
    CHECK_EQUAL(list->GetAdapterCount(), 1);
    ComPtr<IDXCoreAdapter> adapter;
    CHECK_EQUAL(list->GetAdapter(1, IDXCoreAdapter::iid, adapter.put()), E_INVALIDARG);
    CHECK_OK(list->GetAdapter(0, IDXCoreAdapter::iid, adapter.put()));

    size_t size = 0;
    char description[64] = {};
    CHECK_OK(adapter->GetPropertySize(DXCoreAdapterProperty::DriverDescription, &size));
    CHECK_OK(adapter->GetProperty(DXCoreAdapterProperty::DriverDescription, size, description));
    CHECK(std::string(description) == "dmlgraph software adapter");
    CHECK_EQUAL(std::string(description).size() + 1, size);
    CHECK_EQUAL(adapter->GetProperty(DXCoreAdapterProperty::DriverDescription, size - 1, description),
                E_INVALIDARG);
    bool hardware = true;
    bool integrated = false;
    uint64_t memory = 0;
    CHECK_OK(adapter->GetProperty(DXCoreAdapterProperty::IsHardware, sizeof hardware, &hardware));
    CHECK_OK(adapter->GetProperty(DXCoreAdapterProperty::IsIntegrated, sizeof integrated, &integrated));
    CHECK_OK(adapter->GetProperty(DXCoreAdapterProperty::SharedSystemMemory, sizeof memory, &memory));
    CHECK(!hardware && integrated && memory > (64u << 20));
    for (uint32_t i = 0; i <= 14; ++i) {
        CHECK(adapter->IsPropertySupported(static_cast<DXCoreAdapterProperty>(i)));
    }
    CHECK(!adapter->IsPropertySupported(static_cast<DXCoreAdapterProperty>(99)));
    DXCoreAdapterMemoryBudget budget{};
    const DXCoreAdapterMemoryBudgetNodeSegmentGroup group{0, DXCoreSegmentGroup::Local};
    CHECK_OK(adapter->QueryState(DXCoreAdapterState::AdapterMemoryBudget, sizeof group, &group, sizeof budget,
                                 &budget));
    CHECK_EQUAL(budget.budget, memory);

    // The adapter, the device made of it and the list agree on who they are.
    ComPtr<ID3D12Device> device;
    CHECK_OK(D3D12CreateDevice(adapter.get(), D3D_FEATURE_LEVEL_11_0, ID3D12Device::iid, device.put()));
    LUID luid{};
    CHECK_OK(adapter->GetProperty(DXCoreAdapterProperty::InstanceLuid, sizeof luid, &luid));
    CHECK(luid == device->GetAdapterLuid());
    ComPtr<IDXCoreAdapter> found;
    CHECK_OK(factory->GetAdapterByLuid(luid, IDXCoreAdapter::iid, found.put()));
    CHECK(found == adapter);
    CHECK_EQUAL(factory->GetAdapterByLuid(LUID{1, 1}, IDXCoreAdapter::iid, found.put()), E_INVALIDARG);
    CHECK_EQUAL(D3D12CreateDevice(list.get(), D3D_FEATURE_LEVEL_11_0, ID3D12Device::iid, device.put()),
                E_INVALIDARG);
}
