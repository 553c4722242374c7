#include "directml/device.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "directml/debug_layer.h"
#include "directml/host.h"
#include "directml/memory_sharing.h"
#include "directml/names.h"
#include "directml/operator_desc.h"
#include "directml/removal.h"
#include "directml/resident.h"

namespace dmlgraph {
namespace {

using namespace abi;

// In ascending order.
constexpr std::array feature_levels{
    DML_FEATURE_LEVEL_1_0, DML_FEATURE_LEVEL_2_0, DML_FEATURE_LEVEL_2_1, DML_FEATURE_LEVEL_3_0, DML_FEATURE_LEVEL_3_1,
    DML_FEATURE_LEVEL_4_0, DML_FEATURE_LEVEL_4_1, DML_FEATURE_LEVEL_5_0, DML_FEATURE_LEVEL_5_1, DML_FEATURE_LEVEL_5_2,
    DML_FEATURE_LEVEL_6_0, DML_FEATURE_LEVEL_6_1, DML_FEATURE_LEVEL_6_2, DML_FEATURE_LEVEL_6_3, DML_FEATURE_LEVEL_6_4,
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

// How often a failed Signal is repeated, and the time between: it fails when memory is short for a moment.
constexpr int signal_attempts = 5;
constexpr std::chrono::milliseconds signal_pause{10};

// The time between two looks at a fence that no event can tell about, and at most at any fence.
constexpr std::chrono::microseconds fence_pause{200};
constexpr std::chrono::milliseconds fence_look{50};

// How long a cancelled list may go on; as long as Windows lets a list run by default.
constexpr std::chrono::seconds grace{2};

std::string level_text(DML_FEATURE_LEVEL level) {
    return std::to_string(level >> 12) + "." + std::to_string((level >> 8) & 0xf);
}

}  // namespace

Device::Device(std::shared_ptr<Library> library, Adapter adapter, DeviceOptions options)
    : library_(std::move(library)), adapter_(std::move(adapter)), may_share_memory_(options.share_memory) {
    if (options.timeout_seconds > 0) {
        timeout_ = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
            std::chrono::duration<double>(options.timeout_seconds));
    }
    open(options);
    create_queue();
    check(d3d12_->CreateFence(0, D3D12_FENCE_FLAG_NONE, ID3D12Fence::iid, fence_.put()), "CreateFence");
    check(directml_->CreateCommandRecorder(IDMLCommandRecorder::iid, recorder_.put()), "CreateCommandRecorder");
    set_name(*d3d12_, "device");
    set_name(*queue_, "queue");
    set_name(*fence_, "fence");
    set_name(*directml_, "device");
    set_name(*recorder_, "recorder");
}

void Device::open(DeviceOptions options) {
    const bool layer = decide_debug_layer(*library_, options.debug, options.gpu_validation);
    create_d3d12();
    info_queue_ = d3d12_.as<ID3D12InfoQueue>();
    create_directml(layer, options.debug);
}

void Device::create_d3d12() {
    HRESULT code = S_OK;
    for (const auto level : levels_of(adapter_)) {
        code = library_->d3d12_create_device(adapter_.unknown(), level, ID3D12Device::iid, d3d12_.put());
        if (succeeded(code)) {
            d3d12_level_ = level;
            return;
        }
        if (code == DXGI_ERROR_DEVICE_REMOVED) {
            Error error(ErrorKind::device_removed,
                        "the device of " + adapter_.name +
                            " was removed, and something in this process still holds it, so that Direct3D 12 does "
                            "not make another; release it, or use a new process");
            error.call = "D3D12CreateDevice";
            error.code = code;
            throw error;
        }
    }
    check(code, "D3D12CreateDevice");
}

void Device::create_directml(bool debug_wanted, bool debug_required) {
    ComPtr<IDMLDevice> device;
    const auto create = [&](DML_CREATE_DEVICE_FLAGS flags) {
        return library_->dml_create_device(d3d12_.get(), flags, DML_FEATURE_LEVEL_1_0, IDMLDevice::iid, device.put());
    };
    HRESULT code = create(debug_wanted ? DML_CREATE_DEVICE_FLAG_DEBUG : DML_CREATE_DEVICE_FLAG_NONE);
    debug_ = debug_wanted;
    if (debug_wanted && (code == DXGI_ERROR_SDK_COMPONENT_MISSING || code == DXGI_ERROR_UNSUPPORTED)) {
        if (debug_required) {
            throw Error(ErrorKind::debug_layer,
                        "this DirectML has no debug layer; on Windows put DirectML.Debug.dll beside DirectML.dll, "
                        "on other systems do not use debug");
        }
        debug_ = false;
        code = create(DML_CREATE_DEVICE_FLAG_NONE);
    }
    if (failed(code) && !removed() && d3d12_level_ == D3D_FEATURE_LEVEL_1_0_GENERIC) {
        Error error(ErrorKind::outdated,
                    utf8(library_->paths().directml) + " does not run on " + adapter_.name +
                        ", which only has feature level 1_0_GENERIC: DMLCreateDevice1 failed with " + describe(code));
        error.call = "DMLCreateDevice1";
        error.code = code;
        throw error;
    }
    check(code, "DMLCreateDevice1");

    feature_level_ = highest_level(*device);
    directml_ = device.as<IDMLDevice1>();
    if (!directml_) {
        throw Error(ErrorKind::outdated, utf8(library_->paths().directml) + " supports only feature level " +
                                             level_text(feature_level_) +
                                             "; graphs need DirectML 1.2 (feature level 2.1) or newer");
    }
}

void Device::create_queue() {
    D3D12_COMMAND_QUEUE_DESC desc{};
    desc.Type = D3D12_COMMAND_LIST_TYPE_COMPUTE;  // the only type that NPUs have
    desc.Flags = D3D12_COMMAND_QUEUE_FLAG_DISABLE_GPU_TIMEOUT;
    runs_without_timeout_ = succeeded(d3d12_->CreateCommandQueue(&desc, ID3D12CommandQueue::iid, queue_.put()));
    if (!runs_without_timeout_) {  // a driver may not have this, or allow it to some users only
        desc.Flags = D3D12_COMMAND_QUEUE_FLAG_NONE;
        check(d3d12_->CreateCommandQueue(&desc, ID3D12CommandQueue::iid, queue_.put()), "CreateCommandQueue");
    }
}

bool Device::supports(DML_TENSOR_DATA_TYPE type) const {
    const DML_FEATURE_QUERY_TENSOR_DATA_TYPE_SUPPORT query{type};
    DML_FEATURE_DATA_TENSOR_DATA_TYPE_SUPPORT answer{};
    const HRESULT code = directml_->CheckFeatureSupport(DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT, sizeof query, &query,
                                                        sizeof answer, &answer);
    return succeeded(code) && answer.IsSupported;
}

bool Device::shares_memory() {
    std::call_once(sharing_decided_,
                   [this] { shares_memory_ = may_share_memory_ && can_bind_shared_memory(shared_from_this()); });
    return shares_memory_;
}

std::uint64_t Device::ticks_per_second(Place place) {
    std::uint64_t frequency = 0;
    check(queue_->GetTimestampFrequency(&frequency), "ID3D12CommandQueue::GetTimestampFrequency", place);
    return frequency;
}

void Device::keep(Resident& tensor) {
    const std::lock_guard lock(residents_mutex_);
    residents_.insert(&tensor);
}

void Device::forget(Resident& tensor) {
    const std::lock_guard lock(residents_mutex_);
    residents_.erase(&tensor);
}

void Device::execute(std::span<ID3D12CommandList* const> lists, Place place, const Cancellation* cancellation) {
    require_alive(place);
    std::uint64_t value;
    bool given_up;
    {
        const std::lock_guard lock(submission_);
        library_->begin_submission(cancellation ? is_cancelled : nullptr, cancellation);
        queue_->ExecuteCommandLists(static_cast<std::uint32_t>(lists.size()), lists.data());
        given_up = library_->end_submission();
        value = ++fence_value_;
        signal(value, place);
    }
    wait_for(value, place, cancellation);
    if (removed()) {
        fail_removed("ExecuteCommandLists", place);
    }
    if (given_up) {
        Error error(ErrorKind::cancelled, "the run is cancelled");
        error.graph = place.graph;
        throw error;
    }
}

// The adapter may be at work on the list, and only the fence tells when its buffers may be freed. If the fence cannot
// be signalled, removing the device ends the work.
void Device::signal(std::uint64_t value, Place place) {
    HRESULT code = S_OK;
    for (int attempt = 0; attempt < signal_attempts; ++attempt) {
        code = queue_->Signal(fence_.get(), value);
        if (succeeded(code) || removed()) {
            break;
        }
        std::this_thread::sleep_for(signal_pause);
    }
    if (failed(code) && !removed()) {
        remove();
    }
    check(code, "ID3D12CommandQueue::Signal", place);
}

// Work that is on the adapter uses buffers: only removing the device ends it. A removed device completes all its
// fences.
void Device::wait_for(std::uint64_t value, Place place, const Cancellation* cancellation) {
    using Clock = std::chrono::steady_clock;
    if (fence_->GetCompletedValue() >= value) {
        return;
    }
    const Event event;
    const bool is_told = event.handle() && succeeded(fence_->SetEventOnCompletion(value, event.handle()));
    auto end = timeout_ ? Clock::now() + *timeout_ : Clock::time_point::max();
    for (bool ends = false; fence_->GetCompletedValue() < value && !removed();) {
        if (is_told) {
            event.wait(fence_look);
        } else {
            std::this_thread::sleep_for(fence_pause);
        }
        if (!ends && cancellation && cancellation->cancelled()) {
            ends = true;
            end = std::min(end, Clock::now() + grace);
        }
        if (Clock::now() >= end) {
            remove();
            fail_removed("ExecuteCommandLists", place,
                         ends ? "the cancelled work did not end, so " : "the work did not end in time, so ");
        }
    }
}

void Device::check(HRESULT code, std::string_view call, Place place) {
    if (succeeded(code)) {
        return;
    }
    if (removed()) {
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

Device::Use::Use(Device& device, Place place) : lock_(device.in_use_) { device.require_alive(place); }

bool Device::removed() const {
    return (d3d12_ && failed(d3d12_->GetDeviceRemovedReason())) ||
           (directml_ && failed(directml_->GetDeviceRemovedReason()));
}

bool Device::lost() const {
    const std::shared_lock lock(in_use_);
    return lost_ || removed();
}

void Device::require_alive(Place place) {
    if (lost_) {
        fail_removed({}, place);
    }
}

void Device::drop() {
    const std::unique_lock lock(in_use_);
    if (!lost_ && !removed()) {
        return;
    }
    note_removed();
    memory_.clear();
    {
        const std::lock_guard tensors(residents_mutex_);
        for (Resident* tensor : residents_) {
            tensor->drop();
        }
    }
    recorder_ = nullptr;
    fence_ = nullptr;
    queue_ = nullptr;
    info_queue_ = nullptr;
    directml_ = nullptr;
    d3d12_ = nullptr;
}

void Device::note_removed() {
    if (d3d12_) {
        d3d12_reason_ = d3d12_->GetDeviceRemovedReason();
        const std::lock_guard lock(progress_mutex_);
        if (progress_.empty()) {
            progress_ = describe_progress(*d3d12_);
        }
    }
    if (directml_) {
        directml_reason_ = directml_->GetDeviceRemovedReason();
    }
    lost_ = true;
}

void Device::fail_removed(std::string_view call, Place place, std::string_view why) {
    note_removed();
    const HRESULT d3d12 = d3d12_reason_;
    const HRESULT directml = directml_reason_;
    Error error(ErrorKind::device_removed, std::string(why) + "the device " + adapter_.name +
                                               " was removed; reason of Direct3D 12: " + describe(d3d12) +
                                               ", of DirectML: " + describe(directml) +
                                               "; its contents are lost, compile the graph again on a new device");
    error.call = call;
    error.code = failed(d3d12) ? d3d12 : directml;
    error.graph = place.graph;
    error.node = place.node;
    error.debug_messages = take_debug_messages();
    const std::lock_guard lock(progress_mutex_);
    error.debug_messages.insert(error.debug_messages.end(), progress_.begin(), progress_.end());
    throw error;
}

void Device::remove() {
    const auto device = d3d12_.as<ID3D12Device5>();  // in all systems that have DirectML
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
