// Memory of large results, used again once the caller has dropped them: the page faults of new memory cost more than
// writing into it.
#pragma once

#include <cstddef>

namespace dmlgraph::cpu {

// At least `bytes` bytes, aligned to 64; throws std::bad_alloc. `give_memory` wants the same number of bytes.
std::byte* take_memory(std::size_t bytes);
void give_memory(std::byte* memory, std::size_t bytes) noexcept;

// Bytes that wait for being used again.
std::size_t pooled_bytes();

}  // namespace dmlgraph::cpu
