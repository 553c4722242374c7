// The restrictions that the environment asks for: each one bites.
#include <chrono>
#include <thread>

#include "abi/dxcore.h"
#include "harness.h"

extern "C" DXCoreCreateAdapterFactoryFunction DXCoreCreateAdapterFactory;

namespace {

ComPtr<IDXCoreAdapterFactory> factory() {
    ComPtr<IDXCoreAdapterFactory> result;
    CHECK_OK(DXCoreCreateAdapterFactory(IDXCoreAdapterFactory::iid, result.put()));
    return result;
}

ComPtr<IDXCoreAdapterList> list_of(const GUID& attribute) {
    ComPtr<IDXCoreAdapterList> list;
    CHECK_OK(factory()->CreateAdapterList(1, &attribute, IDXCoreAdapterList::iid, list.put()));
    return list;
}

ComPtr<IDXCoreAdapter> adapter_at(const ComPtr<IDXCoreAdapterList>& list, uint32_t index) {
    ComPtr<IDXCoreAdapter> adapter;
    CHECK_OK(list->GetAdapter(index, IDXCoreAdapter::iid, adapter.put()));
    return adapter;
}

bool is_hardware(IDXCoreAdapter& adapter) {
    bool hardware = false;
    CHECK_OK(adapter.GetProperty(DXCoreAdapterProperty::IsHardware, sizeof hardware, &hardware));
    return hardware;
}

HRESULT open(D3D_FEATURE_LEVEL minimum, ComPtr<ID3D12Device>& device) {
    return D3D12CreateDevice(nullptr, minimum, ID3D12Device::iid, device.put());
}

}  // namespace

STRICT_CHECK(unknown_option, "one_device,lenient") {
    CHECK(std::string(sw_strictness_error()).starts_with("DMLGRAPH_SOFTWARE_STRICT has the unknown option 'lenient'"));
    ComPtr<ID3D12Device> device;
    CHECK_EQUAL(open(D3D_FEATURE_LEVEL_11_0, device), E_INVALIDARG);
    ComPtr<IDXCoreAdapterFactory> none;
    CHECK_EQUAL(DXCoreCreateAdapterFactory(IDXCoreAdapterFactory::iid, none.put()), E_INVALIDARG);
}

STRICT_CHECK(option_without_its_number, "remove_at") {
    CHECK(std::string(sw_strictness_error()).find("'remove_at' needs a positive number") != std::string::npos);
}

STRICT_CHECK(option_with_a_number_too_many, "core=1") {
    CHECK(std::string(sw_strictness_error()).find("unknown option 'core=1'") != std::string::npos);
}

STRICT_CHECK(one_device, "one_device") {
    CHECK(!sw_strictness_error());
    auto device = create_device();
    CHECK(device == create_device());
    ComPtr<ID3D12Fence> fence;
    CHECK_OK(device->CreateFence(0, D3D12_FENCE_FLAG_NONE, ID3D12Fence::iid, fence.put()));
    device->RemoveDevice();
    ComPtr<ID3D12Device> next;
    CHECK_EQUAL(open(D3D_FEATURE_LEVEL_11_0, next), DXGI_ERROR_DEVICE_REMOVED);
    device = nullptr;
    CHECK_EQUAL(open(D3D_FEATURE_LEVEL_11_0, next), DXGI_ERROR_DEVICE_REMOVED);  // its fence holds it
    fence = nullptr;
    CHECK_OK(open(D3D_FEATURE_LEVEL_11_0, next));
    CHECK_OK(next->GetDeviceRemovedReason());
}

STRICT_CHECK(late_debug, "late_debug") {
    ComPtr<ID3D12Debug> layer;
    CHECK_OK(D3D12GetDebugInterface(ID3D12Debug::iid, layer.put()));
    layer->EnableDebugLayer();  // before the first device: allowed
    auto device = create_device();
    CHECK_OK(device->GetDeviceRemovedReason());
    layer->EnableDebugLayer();
    CHECK_EQUAL(device->GetDeviceRemovedReason(), DXGI_ERROR_DEVICE_REMOVED);
}

STRICT_CHECK(all_that_a_correct_program_survives, "strict") {
    auto device = create_device();
    CHECK(device == create_device());
    ComPtr<ID3D12Debug> layer;
    CHECK_OK(D3D12GetDebugInterface(ID3D12Debug::iid, layer.put()));
}

namespace {

ComPtr<ID3D12Resource> custom_buffer(ID3D12Device& device) {
    const auto properties = device.GetCustomHeapProperties(0, D3D12_HEAP_TYPE_READBACK);
    const auto desc = buffer_desc(64, D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS);
    ComPtr<ID3D12Resource> buffer;
    CHECK_OK(device.CreateCommittedResource(&properties, {}, &desc, D3D12_RESOURCE_STATE_COMMON, nullptr,
                                            ID3D12Resource::iid, buffer.put()));
    return buffer;
}

uint32_t* mapped(ID3D12Resource& buffer, const D3D12_RANGE* range = nullptr) {
    void* data = nullptr;
    CHECK_OK(buffer.Map(0, range, &data));
    return static_cast<uint32_t*>(data);
}

constexpr D3D12_RANGE none{0, 0};
constexpr uint32_t poison = 0xA5A5A5A5;

}  // namespace

STRICT_CHECK(a_mapping_is_stale_after_an_execution, "readback") {
    Bench bench;
    const auto source = bench.upload<uint32_t>({1, 2, 3, 4});
    const auto target = bench.buffer(64, D3D12_HEAP_TYPE_READBACK);
    const uint32_t* const before = mapped(*target);
    CHECK_EQUAL(before[1], 0);
    bench.list->CopyBufferRegion(target.get(), 0, source.get(), 0, 16);
    bench.execute();
    CHECK_EQUAL(before[1], poison);
    target->Unmap(0, &none);
    const D3D12_RANGE read{4, 8};
    const uint32_t* const after = mapped(*target, &read);
    CHECK_EQUAL(after[1], 2);
    CHECK_EQUAL(after[2], poison);  // not in the range that is read
    target->Unmap(0, &none);
    CHECK_EQUAL(after[1], poison);
}

STRICT_CHECK(a_mapping_stays_valid_while_the_adapter_works_elsewhere, "readback") {
    Bench bench;
    const auto source = bench.upload<uint32_t>({1, 2, 3, 4});
    const auto first = bench.buffer(64, D3D12_HEAP_TYPE_READBACK);
    const auto second = bench.buffer(64, D3D12_HEAP_TYPE_READBACK);
    bench.list->CopyBufferRegion(first.get(), 0, source.get(), 0, 16);
    bench.execute();
    const uint32_t* const seen = mapped(*first);
    bench.list->CopyBufferRegion(second.get(), 0, source.get(), 0, 16);
    bench.execute();
    CHECK_EQUAL(seen[3], 4);
}

STRICT_CHECK(what_is_written_arrives_with_unmap, "readback") {
    Bench bench;
    const auto shared = custom_buffer(*bench.device);
    const auto copy = bench.buffer(64, D3D12_HEAP_TYPE_READBACK);
    const auto copied = [&] {
        bench.list->CopyBufferRegion(copy.get(), 0, shared.get(), 0, 64);
        bench.execute();
        const uint32_t value = mapped(*copy)[0];
        copy->Unmap(0, &none);
        return value;
    };
    uint32_t* const data = mapped(*shared, &none);
    data[0] = 7;
    CHECK_EQUAL(copied(), 0);  // it was not unmapped
    shared->Unmap(0, nullptr);
    CHECK_EQUAL(copied(), 0);  // the execution came in between
    mapped(*shared)[0] = 8;
    shared->Unmap(0, nullptr);
    CHECK_EQUAL(copied(), 8);
}

STRICT_CHECK(custom_heaps, "custom_heaps") {
    auto device = create_device();
    const auto buffer = custom_buffer(*device);
    D3D12_DESCRIPTOR_HEAP_DESC heap_desc{D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV, 1, {}, 0};
    ComPtr<ID3D12DescriptorHeap> heap;
    CHECK_OK(device->CreateDescriptorHeap(&heap_desc, ID3D12DescriptorHeap::iid, heap.put()));
    D3D12_UNORDERED_ACCESS_VIEW_DESC view{DXGI_FORMAT_R32_UINT, D3D12_UAV_DIMENSION_BUFFER, {}};
    view.Buffer.NumElements = 4;
    CHECK_OK(device->GetDeviceRemovedReason());
    device->CreateUnorderedAccessView(buffer.get(), nullptr, &view, heap->GetCPUDescriptorHandleForHeapStart());
    CHECK_EQUAL(device->GetDeviceRemovedReason(), DXGI_ERROR_INVALID_CALL);
}

STRICT_CHECK(no_sharing, "no_sharing") {
    auto device = create_device();
    D3D12_FEATURE_DATA_ARCHITECTURE architecture{};
    CHECK_OK(device->CheckFeatureSupport(D3D12_FEATURE_ARCHITECTURE, &architecture, sizeof architecture));
    CHECK(!architecture.UMA && !architecture.CacheCoherentUMA);
}

STRICT_CHECK(budget, "budget=200000") {
    Bench bench;
    const auto make = [&](uint64_t bytes, D3D12_HEAP_TYPE type, ComPtr<ID3D12Heap>& heap) {
        const D3D12_HEAP_DESC desc{bytes, heap_of(type), 0, D3D12_HEAP_FLAG_ALLOW_ONLY_BUFFERS};
        return bench.device->CreateHeap(&desc, ID3D12Heap::iid, heap.put());
    };
    ComPtr<ID3D12Heap> first, second, upload;
    CHECK_OK(make(65536, D3D12_HEAP_TYPE_DEFAULT, first));
    CHECK_EQUAL(make(196608, D3D12_HEAP_TYPE_DEFAULT, second), E_OUTOFMEMORY);
    CHECK_OK(make(1 << 20, D3D12_HEAP_TYPE_UPLOAD, upload));
    const auto adapter = adapter_at(list_of(DXCORE_ADAPTER_ATTRIBUTE_D3D12_CORE_COMPUTE), 0);
    const DXCoreAdapterMemoryBudgetNodeSegmentGroup group{0, DXCoreSegmentGroup::Local};
    DXCoreAdapterMemoryBudget told{};
    CHECK_OK(adapter->QueryState(DXCoreAdapterState::AdapterMemoryBudget, sizeof group, &group, sizeof told, &told));
    CHECK_EQUAL(told.budget, 200000);
    CHECK_EQUAL(told.currentUsage, 65536);
    first = nullptr;
    CHECK_OK(make(196608, D3D12_HEAP_TYPE_DEFAULT, second));
}

STRICT_CHECK(core, "core") {
    ComPtr<ID3D12Device> device;
    CHECK_EQUAL(open(D3D_FEATURE_LEVEL_11_0, device), DXGI_ERROR_UNSUPPORTED);
    CHECK_OK(open(D3D_FEATURE_LEVEL_1_0_CORE, device));
    const D3D_FEATURE_LEVEL levels[] = {D3D_FEATURE_LEVEL_12_0, D3D_FEATURE_LEVEL_1_0_CORE};
    D3D12_FEATURE_DATA_FEATURE_LEVELS asked{2, levels, {}};
    CHECK_OK(device->CheckFeatureSupport(D3D12_FEATURE_FEATURE_LEVELS, &asked, sizeof asked));
    CHECK_EQUAL(asked.MaxSupportedFeatureLevel, D3D_FEATURE_LEVEL_1_0_CORE);
    CHECK(!is_hardware(*adapter_at(list_of(DXCORE_ADAPTER_ATTRIBUTE_D3D12_CORE_COMPUTE), 0)));
}

STRICT_CHECK(generic, "generic") {
    ComPtr<ID3D12Device> device;
    CHECK_EQUAL(open(D3D_FEATURE_LEVEL_1_0_CORE, device), DXGI_ERROR_UNSUPPORTED);
    CHECK_OK(open(D3D_FEATURE_LEVEL_1_0_GENERIC, device));
    CHECK_EQUAL(list_of(DXCORE_ADAPTER_ATTRIBUTE_D3D12_CORE_COMPUTE)->GetAdapterCount(), 0);
    CHECK_EQUAL(list_of(DXCORE_ADAPTER_ATTRIBUTE_D3D12_GENERIC_ML)->GetAdapterCount(), 1);
}

STRICT_CHECK(missing_arithmetic, "no_int64,no_float64") {
    auto device = create_device();
    D3D12_FEATURE_DATA_D3D12_OPTIONS options{};
    D3D12_FEATURE_DATA_D3D12_OPTIONS1 more{};
    CHECK_OK(device->CheckFeatureSupport(D3D12_FEATURE_D3D12_OPTIONS, &options, sizeof options));
    CHECK_OK(device->CheckFeatureSupport(D3D12_FEATURE_D3D12_OPTIONS1, &more, sizeof more));
    CHECK(!options.DoublePrecisionFloatShaderOps && !more.Int64ShaderOps);
}

STRICT_CHECK(removal_at_the_nth_call, "remove_at=2") {
    Bench bench;
    bench.execute();
    CHECK_OK(bench.device->GetDeviceRemovedReason());
    CHECK_OK(bench.list->Close());
    bench.submit();
    CHECK_EQUAL(bench.device->GetDeviceRemovedReason(), DXGI_ERROR_DEVICE_HUNG);
    Bench next;  // the calls of the adapter are counted, so only one of them removes a device
    next.execute();
    CHECK_OK(next.device->GetDeviceRemovedReason());
}

STRICT_CHECK(several_adapters, "npu,core;gpu,no_int64;") {
    const auto computing = list_of(DXCORE_ADAPTER_ATTRIBUTE_D3D12_CORE_COMPUTE);
    const auto learning = list_of(DXCORE_ADAPTER_ATTRIBUTE_D3D12_GENERIC_ML);
    CHECK_EQUAL(computing->GetAdapterCount(), 2);
    CHECK_EQUAL(learning->GetAdapterCount(), 3);
    const auto npu = adapter_at(learning, 0);
    const auto gpu = adapter_at(computing, 0);
    const auto software = adapter_at(computing, 1);
    CHECK(is_hardware(*npu) && is_hardware(*gpu) && !is_hardware(*software));
    CHECK(gpu->IsAttributeSupported(DXCORE_HARDWARE_TYPE_ATTRIBUTE_GPU));
    CHECK(!npu->IsAttributeSupported(DXCORE_HARDWARE_TYPE_ATTRIBUTE_GPU));
    CHECK(!gpu->IsAttributeSupported(DXCORE_ADAPTER_ATTRIBUTE_D3D12_GRAPHICS));
    CHECK(adapter_at(learning, 1) == gpu && adapter_at(learning, 2) == software);

    // Devices are made by the adapter that is given, and restricted as it is.
    ComPtr<ID3D12Device> device;
    CHECK_EQUAL(D3D12CreateDevice(npu.get(), D3D_FEATURE_LEVEL_11_0, ID3D12Device::iid, device.put()),
                DXGI_ERROR_UNSUPPORTED);
    CHECK_OK(D3D12CreateDevice(gpu.get(), D3D_FEATURE_LEVEL_11_0, ID3D12Device::iid, device.put()));
    LUID luid{};
    CHECK_OK(gpu->GetProperty(DXCoreAdapterProperty::InstanceLuid, sizeof luid, &luid));
    CHECK(luid == device->GetAdapterLuid());
    ComPtr<IDXCoreAdapter> found;
    CHECK_OK(factory()->GetAdapterByLuid(luid, IDXCoreAdapter::iid, found.put()));
    CHECK(found == gpu);
    D3D12_FEATURE_DATA_D3D12_OPTIONS1 options{};
    CHECK_OK(device->CheckFeatureSupport(D3D12_FEATURE_D3D12_OPTIONS1, &options, sizeof options));
    CHECK(!options.Int64ShaderOps);
    CHECK_OK(D3D12CreateDevice(software.get(), D3D_FEATURE_LEVEL_11_0, ID3D12Device::iid, device.put()));
    CHECK_OK(device->CheckFeatureSupport(D3D12_FEATURE_D3D12_OPTIONS1, &options, sizeof options));
    CHECK(options.Int64ShaderOps);
}

STRICT_CHECK(queue_with_the_timeout, "gpu_timeout") {
    auto device = create_device();
    D3D12_COMMAND_QUEUE_DESC desc{D3D12_COMMAND_LIST_TYPE_COMPUTE, 0, D3D12_COMMAND_QUEUE_FLAG_DISABLE_GPU_TIMEOUT, 0};
    ComPtr<ID3D12CommandQueue> queue;
    CHECK_EQUAL(device->CreateCommandQueue(&desc, ID3D12CommandQueue::iid, queue.put()), E_ACCESSDENIED);
    desc.Flags = D3D12_COMMAND_QUEUE_FLAG_NONE;
    CHECK_OK(device->CreateCommandQueue(&desc, ID3D12CommandQueue::iid, queue.put()));
}

STRICT_CHECK(failing_signals, "fail_signal=2") {
    Bench bench;
    CHECK_OK(bench.queue->Signal(bench.fence.get(), 1));
    CHECK_EQUAL(bench.queue->Signal(bench.fence.get(), 2), E_OUTOFMEMORY);
    CHECK_EQUAL(bench.fence->GetCompletedValue(), 1);
    CHECK_OK(bench.queue->Signal(bench.fence.get(), 2));
}

STRICT_CHECK(signals_that_keep_failing, "fail_signals_from=2") {
    Bench bench;
    CHECK_OK(bench.queue->Signal(bench.fence.get(), 1));
    CHECK_EQUAL(bench.queue->Signal(bench.fence.get(), 2), E_OUTOFMEMORY);
    CHECK_EQUAL(bench.queue->Signal(bench.fence.get(), 2), E_OUTOFMEMORY);
}

STRICT_CHECK(asynchronous_queue, "async,fail_event=1") {
    Bench bench;
    OneBuffer one(bench, "count_groups", 4);
    one.dispatch(bench, 4);
    CHECK_OK(bench.list->Close());
    bench.submit();
    CHECK_OK(bench.queue->Signal(bench.fence.get(), 1));
    CHECK_EQUAL(bench.fence->GetCompletedValue(), 0);  // the work has not begun
    CHECK_EQUAL(bench.fence->SetEventOnCompletion(1, nullptr), E_OUTOFMEMORY);
    CHECK_OK(bench.fence->SetEventOnCompletion(1, nullptr));
    CHECK_EQUAL(bench.fence->GetCompletedValue(), 1);
    bench.fence_value = 1;
    bench.reset();
    CHECK(bench.read<uint32_t>(one.buffer.get()) == std::vector<uint32_t>(4, 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the queue's thread releases the queue
}
