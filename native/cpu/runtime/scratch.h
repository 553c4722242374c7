// The scratch memory of a worker, in parts: the same layout tells how much a step needs, and finds the parts in a run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/runtime/cache_line.h"

namespace dmlgraph::cpu {

class Scratch {
public:
    Scratch() = default;  // without memory: parts are null, and only their size counts
    explicit Scratch(std::byte* memory) : memory_(memory) {}

    // Room for so many elements, which begins where a line of the cache does.
    template <class T = float>
    T* take(std::int64_t count) {
        std::byte* const part = memory_ == nullptr ? nullptr : memory_ + bytes_;
        bytes_ += align_to_line(static_cast<std::size_t>(count) * sizeof(T));
        return reinterpret_cast<T*>(part);
    }
    std::size_t bytes() const { return bytes_; }

private:
    std::byte* memory_ = nullptr;
    std::size_t bytes_ = 0;
};

// The bytes of a layout, a struct that takes its parts from the scratch memory that it is made of first.
template <class Layout, class... Sizes>
std::size_t scratch_of(const Sizes&... sizes) {
    Scratch scratch;
    Layout(scratch, sizes...);
    return scratch.bytes();
}

}  // namespace dmlgraph::cpu
