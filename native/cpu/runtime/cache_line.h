// The unit in which memory moves between the processor and its caches.
#pragma once

#include <cstddef>

namespace dmlgraph::cpu {

// Bytes. Memory that several threads write into is aligned to it, so that no two of them write into one line.
inline constexpr std::size_t cache_line = 64;

constexpr std::size_t align_to_line(std::size_t bytes) { return (bytes + cache_line - 1) & ~(cache_line - 1); }

}  // namespace dmlgraph::cpu
