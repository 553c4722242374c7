// Buffers that are placed in heaps: one heap for many small buffers, one for each large buffer.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "abi/d3d12.h"
#include "directml/error.h"

namespace dmlgraph {

class Device;

// The most bytes that Direct3D 12 can bind as one buffer: 4 GiB - 64 KiB.
constexpr std::uint64_t max_buffer_bytes = (std::uint64_t{1} << 32) - (std::uint64_t{1} << 16);

// Throws Error (too_large) for more than that; `what` says what the buffer is for.
void require_buffer_size(std::uint64_t bytes, std::string_view what, Place place);

enum class BufferKind {
    device,    // the adapter's own memory
    upload,    // written by the processor, read by the adapter
    readback,  // written by the adapter, read by the processor
    shared,    // written and read by both, if they share memory
};
constexpr std::size_t buffer_kinds = 4;

// A buffer in a heap. Its place is free for another buffer when the last owner drops it.
class Buffer {
public:
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    virtual ~Buffer() = default;

    abi::ID3D12Resource& resource() const { return *resource_; }
    BufferKind kind() const { return kind_; }
    std::uint64_t bytes() const { return bytes_; }
    // Different for all buffers of a process.
    std::uint64_t id() const { return id_; }

    // Copies between the processor's memory and the buffer. Only upload memory stays mapped: the system may keep
    // caches for a mapping of the other kinds, and may not update them after the adapter has written. Throws Error
    // (call) if the buffer cannot be mapped.
    void write(Device& device, std::uint64_t offset, const void* data, std::size_t bytes, Place place) const;
    void read(Device& device, std::uint64_t offset, void* data, std::size_t bytes, Place place) const;

protected:
    Buffer(BufferKind kind, std::uint64_t bytes, abi::ComPtr<abi::ID3D12Resource> resource, std::byte* mapped);

private:
    BufferKind kind_;
    std::uint64_t bytes_;
    std::uint64_t id_;
    abi::ComPtr<abi::ID3D12Resource> resource_;
    std::byte* mapped_;  // upload only, else null
};

// The heaps of one device. Safe to use from several threads.
class Heaps {
public:
    explicit Heaps(Device& device) : device_(device) {}
    Heaps(const Heaps&) = delete;
    Heaps& operator=(const Heaps&) = delete;

    // The buffer must not outlive the heaps. `what` says what it is for. Throws Error: too_large, before anything
    // is allocated; call, with E_OUTOFMEMORY if there is not enough memory; device_removed.
    std::shared_ptr<Buffer> create(BufferKind kind, std::uint64_t bytes, std::string_view what, Place place);

    // The size of all heaps.
    std::uint64_t bytes() const;

private:
    class PlacedBuffer;

    struct Heap {
        abi::ComPtr<abi::ID3D12Heap> heap;
        BufferKind kind;
        std::uint64_t bytes;
        std::map<std::uint64_t, std::uint64_t> free;  // offset to size; no two touch
    };
    using Position = std::list<Heap>::iterator;

    // Where `bytes` are free in a heap of this kind; makes a heap if there is no such place.
    std::pair<Position, std::uint64_t> take(BufferKind kind, std::uint64_t bytes, std::string_view what, Place place);
    void give_back(Position heap, std::uint64_t offset, std::uint64_t bytes);

    Device& device_;
    mutable std::mutex mutex_;
    std::list<Heap> heaps_;
};

}  // namespace dmlgraph
