// Interleaved channels, as in the pixels of a photo, and one line for each channel.
#pragma once

#include <cstddef>

namespace dmlgraph::cpu {

// Moves `count` elements of each channel; the lines are `count` elements apart.
using Interleaving = void (*)(void* out, const void* in, std::size_t count) noexcept;

// From pixels to lines, and back; for 2 to 4 channels and elements of 1, 2 or 4 bytes, else null. They have the level
// that `find_kernel` uses.
Interleaving find_split(int channels, int item) noexcept;
Interleaving find_merge(int channels, int item) noexcept;

}  // namespace dmlgraph::cpu
