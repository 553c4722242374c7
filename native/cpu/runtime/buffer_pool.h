// Memory for large results, reused after the caller has released them: the page faults of new memory cost more than
// writing into it.
#pragma once

#include <cstddef>

namespace dmlgraph::cpu {

// At least `bytes` bytes, aligned to 64; throws std::bad_alloc. `give_memory` must get the same number of bytes.
std::byte* take_memory(std::size_t bytes);
void give_memory(std::byte* memory, std::size_t bytes) noexcept;

// Bytes in the pool that are not in use.
std::size_t pooled_bytes();

}  // namespace dmlgraph::cpu
