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
