#include "directml/device.h"

#include <array>
#include <utility>

#include "directml/memory_sharing.h"
#include "directml/names.h"

namespace dmlgraph {
namespace {

using namespace abi;

// In ascending order.
constexpr std::array feature_levels{
    DML_FEATURE_LEVEL_1_0, DML_FEATURE_LEVEL_2_0, DML_FEATURE_LEVEL_2_1, DML_FEATURE_LEVEL_3_0,
    DML_FEATURE_LEVEL_3_1, DML_FEATURE_LEVEL_4_0, DML_FEATURE_LEVEL_4_1, DML_FEATURE_LEVEL_5_0,
    DML_FEATURE_LEVEL_5_1, DML_FEATURE_LEVEL_5_2, DML_FEATURE_LEVEL_6_0, DML_FEATURE_LEVEL_6_1,
    DML_FEATURE_LEVEL_6_2, DML_FEATURE_LEVEL_6_3, DML_FEATURE_LEVEL_6_4,
};

DML_FEATURE_LEVEL highest_level(IDMLDevice& device) {
    const DML_FEATURE_QUERY_FEATURE_LEVELS query{feature_levels.size(), feature_levels.data()};
    DML_FEATURE_DATA_FEATURE_LEVELS answer{};
    const HRESULT code =
        device.CheckFeatureSupport(DML_FEATURE_FEATURE_LEVELS, sizeof query, &query, sizeof answer, &answer);
    return succeeded(code) ? answer.MaxSupportedFeatureLevel : DML_FEATURE_LEVEL_1_0;
}

int is_cancelled(const void* cancellation) {
    return static_cast<const Cancellation*>(cancellation)->cancelled() ? 1 : 0;
}

std::string level_text(DML_FEATURE_LEVEL level) {
    return std::to_string(level >> 12) + "." + std::to_string((level >> 8) & 0xf);
}

}  // namespace

Device::Device(std::shared_ptr<Library> library, Adapter adapter, DeviceOptions options)
    : library_(std::move(library)), adapter_(std::move(adapter)), may_share_memory_(options.share_memory) {
    open(options.debug);
    D3D12_COMMAND_QUEUE_DESC queue{};
    queue.Type = D3D12_COMMAND_LIST_TYPE_COMPUTE;  // the only type that NPUs have
    check(d3d12_->CreateCommandQueue(&queue, ID3D12CommandQueue::iid, queue_.put()), "CreateCommandQueue");
    check(d3d12_->CreateFence(0, D3D12_FENCE_FLAG_NONE, ID3D12Fence::iid, fence_.put()), "CreateFence");
    check(directml_->CreateCommandRecorder(IDMLCommandRecorder::iid, recorder_.put()),
          "CreateCommandRecorder");
    set_name(*d3d12_, "device");
    set_name(*queue_, "queue");
    set_name(*fence_, "fence");
    set_name(*directml_, "device");
    set_name(*recorder_, "recorder");
}

void Device::open(bool debug) {
    if (debug) {
        ComPtr<ID3D12Debug> layer;
        if (!library_->d3d12_get_debug_interface ||
            failed(library_->d3d12_get_debug_interface(ID3D12Debug::iid, layer.put()))) {
            throw Error(ErrorKind::debug_layer,
                        "Direct3D 12 has no debug layer here; on Windows install the optional feature "
                        "\"Graphics Tools\", on other systems do not use debug");
        }
        layer->EnableDebugLayer();
    }

    // The lowest level: DirectML itself decides whether an adapter can do the work.
    check(library_->d3d12_create_device(adapter_.handle.get(), D3D_FEATURE_LEVEL_1_0_CORE, ID3D12Device::iid,
                                        d3d12_.put()),
          "D3D12CreateDevice");

    const auto flags = debug ? DML_CREATE_DEVICE_FLAG_DEBUG : DML_CREATE_DEVICE_FLAG_NONE;
    ComPtr<IDMLDevice> device;
    const HRESULT code = library_->dml_create_device(d3d12_.get(), flags, DML_FEATURE_LEVEL_1_0,
                                                     IDMLDevice::iid, device.put());
    if (debug && (code == DXGI_ERROR_SDK_COMPONENT_MISSING || code == DXGI_ERROR_UNSUPPORTED)) {
        throw Error(
            ErrorKind::debug_layer,
            "this DirectML has no debug layer; on Windows put DirectML.Debug.dll beside DirectML.dll, "
            "on other systems do not use debug");
    }
    check(code, "DMLCreateDevice1");
    if (debug) {
        info_queue_ = d3d12_.as<ID3D12InfoQueue>();
    }

    feature_level_ = highest_level(*device);
    directml_ = device.as<IDMLDevice1>();
    if (!directml_) {
        throw Error(ErrorKind::library, library_->paths().directml.string() + " supports only feature level " +
                                            level_text(feature_level_) +
                                            "; graphs need DirectML 1.2 (feature level 2.1) or newer");
    }
}

bool Device::supports(DML_TENSOR_DATA_TYPE type) const {
    const DML_FEATURE_QUERY_TENSOR_DATA_TYPE_SUPPORT query{type};
    DML_FEATURE_DATA_TENSOR_DATA_TYPE_SUPPORT answer{};
    const HRESULT code = directml_->CheckFeatureSupport(DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT, sizeof query,
                                                        &query, sizeof answer, &answer);
    return succeeded(code) && answer.IsSupported;
}

bool Device::shares_memory() {
    std::call_once(sharing_decided_, [this] {
        shares_memory_ = may_share_memory_ && can_bind_shared_memory(shared_from_this());
    });
    return shares_memory_;
}

std::uint64_t Device::ticks_per_second(Place place) {
    std::uint64_t frequency = 0;
    check(queue_->GetTimestampFrequency(&frequency), "ID3D12CommandQueue::GetTimestampFrequency", place);
    return frequency;
}

void Device::execute(ID3D12CommandList& list, Place place, const Cancellation* cancellation) {
    require_alive(place);
    std::uint64_t value;
    bool given_up;
    {
        const std::lock_guard lock(submission_);
        ID3D12CommandList* lists[] = {&list};
        library_->begin_submission(cancellation ? is_cancelled : nullptr, cancellation);
        queue_->ExecuteCommandLists(1, lists);
        given_up = library_->end_submission();
        value = ++fence_value_;
        check(queue_->Signal(fence_.get(), value), "ID3D12CommandQueue::Signal", place);
    }
    // Without an event, the call itself waits. A removed device completes all its fences.
    check(fence_->SetEventOnCompletion(value, nullptr), "ID3D12Fence::SetEventOnCompletion", place);
    if (failed(d3d12_->GetDeviceRemovedReason()) || failed(directml_->GetDeviceRemovedReason())) {
        fail_removed("ExecuteCommandLists", place);
    }
    if (given_up) {
        Error error(ErrorKind::cancelled, "the run is cancelled");
        error.graph = place.graph;
        throw error;
    }
}

void Device::check(HRESULT code, std::string_view call, Place place) {
    if (succeeded(code)) {
        return;
    }
    if ((d3d12_ && failed(d3d12_->GetDeviceRemovedReason())) ||
        (directml_ && failed(directml_->GetDeviceRemovedReason()))) {
        fail_removed(call, place);
    }
    Error error(ErrorKind::call, std::string(call) + " failed with " + describe(code));
    error.call = call;
    error.code = code;
    error.graph = place.graph;
    error.node = place.node;
    error.debug_messages = take_debug_messages();
    throw error;
}

void Device::require_alive(Place place) {
    if (lost_) {
        fail_removed({}, place);
    }
}

void Device::fail_removed(std::string_view call, Place place) {
    lost_ = true;
    const HRESULT d3d12 = d3d12_->GetDeviceRemovedReason();
    const HRESULT directml = directml_ ? directml_->GetDeviceRemovedReason() : S_OK;
    Error error(ErrorKind::device_removed,
                "the device " + adapter_.name + " was removed; reason of Direct3D 12: " + describe(d3d12) +
                    ", of DirectML: " + describe(directml) +
                    "; its contents are lost, compile the graph again on a new device");
    error.call = call;
    error.code = failed(d3d12) ? d3d12 : directml;
    error.graph = place.graph;
    error.node = place.node;
    error.debug_messages = take_debug_messages();
    throw error;
}

void Device::remove() {
    const auto device = d3d12_.as<ID3D12Device5>();
    if (!device) {
        throw Error(ErrorKind::use, "this system's Direct3D 12 does not support removing a device on purpose");
    }
    device->RemoveDevice();
}

std::vector<std::string> Device::take_debug_messages() {
    std::vector<std::string> messages;
    if (!info_queue_) {
        return messages;
    }
    for (std::uint64_t i = 0; i < info_queue_->GetNumStoredMessages(); ++i) {
        std::size_t size = 0;
        if (failed(info_queue_->GetMessage(i, nullptr, &size))) {
            continue;
        }
        // The message's text follows its struct in the same memory.
        std::vector<std::max_align_t> storage(size / sizeof(std::max_align_t) + 1);
        auto* message = reinterpret_cast<D3D12_MESSAGE*>(storage.data());
        if (succeeded(info_queue_->GetMessage(i, message, &size)) &&
            message->Severity <= D3D12_MESSAGE_SEVERITY_WARNING) {
            messages.emplace_back(message->pDescription);
        }
    }
    info_queue_->ClearStoredMessages();
    return messages;
}

}  // namespace dmlgraph
