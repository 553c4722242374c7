// Aligned memory from the system.
#pragma once

#include <cstddef>
#include <utility>

namespace dmlgraph::cpu {

// Aligned to 64 bytes; in large pages if it is large and the system has them. Throws std::bad_alloc.
std::byte* allocate(std::size_t bytes);
void deallocate(std::byte* memory, std::size_t bytes) noexcept;

// Gives back to the system what the allocator of the process keeps of freed memory.
void trim_freed() noexcept;

std::size_t physical_memory();

// Memory that its destructor frees.
class Memory {
public:
    Memory() = default;
    explicit Memory(std::size_t bytes) : bytes_(bytes), memory_(allocate(bytes)) {}
    Memory(Memory&& other) noexcept
        : bytes_(std::exchange(other.bytes_, 0)), memory_(std::exchange(other.memory_, nullptr)) {}
    Memory& operator=(Memory other) noexcept {
        std::swap(bytes_, other.bytes_);
        std::swap(memory_, other.memory_);
        return *this;
    }
    ~Memory() {
        if (memory_ != nullptr) {
            deallocate(memory_, bytes_);
        }
    }

    std::byte* get() const { return memory_; }
    std::size_t bytes() const { return bytes_; }

private:
    std::size_t bytes_ = 0;
    std::byte* memory_ = nullptr;
};

}  // namespace dmlgraph::cpu
