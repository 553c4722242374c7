// The unit of transfers between memory and the processor's caches.
#pragma once

#include <cstddef>

namespace dmlgraph::cpu {

// In bytes. Memory that several threads write is aligned to it, so that no two of them write to the same cache line.
inline constexpr std::size_t cache_line = 64;

constexpr std::size_t align_to_line(std::size_t bytes) { return (bytes + cache_line - 1) & ~(cache_line - 1); }

}  // namespace dmlgraph::cpu
