// One adapter opened for DirectML: its Direct3D 12 device, queue and fence, and the IDMLDevice1 that uses them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "directml/adapter.h"
#include "directml/buffer_pool.h"
#include "directml/error.h"
#include "directml/heaps.h"
#include "directml/library.h"

namespace dmlgraph {

class Resident;

struct DeviceOptions {
    bool debug = false;           // the debug layers are required, and errors carry their messages
    bool gpu_validation = false;  // the layer, if this device decides it, also checks what shaders do; much slower
    bool share_memory = false;    // nothing is copied between processor and adapter, if that works
    double timeout_seconds = 0;   // a list that takes longer is ended by removing the device; 0: no limit
};

// Asks a run to end soon, from any thread. Adapters that cannot end it continue.
class Cancellation {
public:
    void cancel() { cancelled_ = true; }
    bool cancelled() const { return cancelled_; }

private:
    std::atomic<bool> cancelled_{false};
};

// Safe to use from several threads.
//
// Direct3D 12 has one device per adapter and process. If it is removed, no other can be created until everything of the
// removed one is released. So drop() releases what a Device holds while others still refer to the Device.
class Device : public std::enable_shared_from_this<Device> {
public:
    // Throws Error: debug_layer, library (too old), device_removed (the removed one is still in use), call.
    Device(std::shared_ptr<Library> library, Adapter adapter, DeviceOptions options);

    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    Library& library() const { return *library_; }
    const Adapter& adapter() const { return adapter_; }
    abi::DML_FEATURE_LEVEL feature_level() const { return feature_level_; }
    // The feature level of Direct3D 12 that the device was created with: the first that the adapter has.
    abi::D3D_FEATURE_LEVEL d3d12_level() const { return d3d12_level_; }
    // Whether the debug layers of Direct3D 12 and DirectML are on.
    bool debug() const { return debug_; }
    // Whether a list may run longer than the 2 seconds after which Windows removes the device.
    bool runs_without_timeout() const { return runs_without_timeout_; }

    // While it lives, the device is not dropped. Everything below, and every object made by the device, may be used
    // only under it. Not recursive.
    class Use {
    public:
        // Throws Error (device_removed) if the device is lost.
        explicit Use(Device& device, Place place = {});

    private:
        std::shared_lock<std::shared_mutex> lock_;
    };

    abi::ID3D12Device& d3d12() const { return *d3d12_; }
    abi::IDMLDevice1& directml() const { return *directml_; }
    abi::IDMLCommandRecorder& recorder() const { return *recorder_; }

    bool supports(abi::DML_TENSOR_DATA_TYPE type) const;

    // Whether inputs and outputs lie in memory that processor and adapter share. The first call tries whether that
    // works, unless the options exclude it; a system that refuses it may remove the device.
    bool shares_memory();

    // The buffers of this device's executables.
    BufferPool& memory() { return memory_; }

    // Of the timestamps that the adapter writes. Throws Error.
    std::uint64_t ticks_per_second(Place place);

    // Tensors that are dropped with the device.
    void keep(Resident& tensor);
    void forget(Resident& tensor);

    // Submits closed lists and waits until the adapter has finished them, one after another. Throws Error (cancelled)
    // if the adapter abandons them; then everything stays valid except what the lists wrote. Throws Error
    // (device_removed) if they take longer than the limit, or go on too long once they are cancelled: then the device
    // is removed.
    void execute(std::span<abi::ID3D12CommandList* const> lists, Place place,
                 const Cancellation* cancellation = nullptr);

    // Throws if the code is a failure: Error (device_removed) if the device is lost, else Error (call).
    void check(abi::HRESULT code, std::string_view call, Place place = {});

    // Whether the device was removed. It stays lost; a new one can be made.
    bool lost() const;
    void require_alive(Place place);

    // Releases what a lost device holds, once no Use is left. Does nothing if the device is not lost.
    void drop();

    // Removes the device on purpose, as a driver crash would. Throws Error (use) if the system cannot do that.
    void remove();

private:
    void open(DeviceOptions options);
    void create_d3d12();
    void create_directml(bool debug_wanted, bool debug_required);
    void create_queue();
    void signal(std::uint64_t value, Place place);
    void wait_for(std::uint64_t value, Place place, const Cancellation* cancellation);
    bool removed() const;
    void note_removed();
    // `why` begins the message.
    [[noreturn]] void fail_removed(std::string_view call, Place place, std::string_view why = {});
    std::vector<std::string> take_debug_messages();

    std::shared_ptr<Library> library_;
    Adapter adapter_;
    abi::ComPtr<abi::ID3D12Device> d3d12_;
    abi::ComPtr<abi::ID3D12InfoQueue> info_queue_;  // null unless a debug layer is on
    abi::ComPtr<abi::ID3D12CommandQueue> queue_;
    abi::ComPtr<abi::ID3D12Fence> fence_;
    abi::ComPtr<abi::IDMLDevice1> directml_;
    abi::ComPtr<abi::IDMLCommandRecorder> recorder_;
    abi::DML_FEATURE_LEVEL feature_level_{};
    bool may_share_memory_;
    std::optional<std::chrono::steady_clock::duration> timeout_;  // of a list
    std::once_flag sharing_decided_;
    abi::D3D_FEATURE_LEVEL d3d12_level_{};
    bool debug_ = false;
    bool runs_without_timeout_ = false;
    bool shares_memory_ = false;
    mutable std::shared_mutex in_use_;  // shared by each Use, exclusive while the device is dropped
    std::atomic<bool> lost_ = false;
    std::atomic<abi::HRESULT> d3d12_reason_ = 0;  // why it was removed
    std::atomic<abi::HRESULT> directml_reason_ = 0;
    std::mutex progress_mutex_;
    std::vector<std::string> progress_;  // where it stopped; guarded by progress_mutex_
    std::mutex submission_;
    std::uint64_t fence_value_ = 0;  // guarded by submission_
    std::mutex residents_mutex_;
    std::unordered_set<Resident*> residents_;  // guarded by residents_mutex_
    Heaps heaps_{*this};
    BufferPool memory_{heaps_};
};

}  // namespace dmlgraph
