// A tensor that stays in the adapter's own memory: what a state holds, or an output that a caller keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "directml/device.h"

namespace dmlgraph {

// Gives the buffer of a dropped tensor to the next one of the same size, so that a command list that was recorded with
// it can be used again.
class Recycler {
public:
    // Returns null if it has no buffer.
    std::shared_ptr<Buffer> take();
    void give(std::shared_ptr<Buffer> buffer);

private:
    std::mutex mutex_;
    std::shared_ptr<Buffer> buffer_;
};

// Has a buffer of its own until it is destroyed, or until the device is lost with what it held.
//
// Its methods may be used under a Device::Use, from several threads; those who write it take turns.
class Resident {
public:
    // Zeros. `what` says what it is for. Throws Error as Heaps::create and Device::execute.
    Resident(std::shared_ptr<Device> device, std::uint64_t bytes, const std::string& what);
    // Anything: a run writes all of it. The buffer may be one of the recycler, which gets it back.
    Resident(std::shared_ptr<Device> device, std::uint64_t bytes, const std::string& what,
             const std::shared_ptr<Recycler>& recycler);
    ~Resident();
    Resident(const Resident&) = delete;
    Resident& operator=(const Resident&) = delete;

    const std::shared_ptr<Device>& device() const { return device_; }
    std::uint64_t bytes() const { return bytes_; }
    // Throws Error (device_removed) if the device is lost.
    std::shared_ptr<Buffer> buffer() const;

    // Wait for the adapter. At the end, up to three bytes that belong to no element may be missing.
    void write(std::span<const std::byte> data);
    void read(std::span<std::byte> data) const;
    void copy_from(const Resident& other);
    // Bytes of another tensor on the same device.
    struct Piece {
        std::uint64_t from;
        std::uint64_t to;
        std::uint64_t bytes;
    };
    void copy_from(const Resident& other, std::span<const Piece> pieces);

    // Frees the buffer of a lost device.
    void drop();

private:
    std::shared_ptr<Device> device_;
    std::uint64_t bytes_;
    std::weak_ptr<Recycler> recycler_;
    mutable std::mutex mutex_;  // guards the pointer
    std::shared_ptr<Buffer> buffer_;
};

}  // namespace dmlgraph
