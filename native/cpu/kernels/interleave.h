// Channels side by side in memory, as the pixels of a photo are, and one line for each channel.
#pragma once

#include <cstddef>

namespace dmlgraph::cpu {

// Moves `count` elements of each channel; the lines lie `count` elements behind one another.
using Interleaving = void (*)(void* out, const void* in, std::size_t count) noexcept;

// From pixels to lines, and back; of 2 to 4 channels and elements of 1, 2 or 4 bytes, else null. Of the level that
// `find_kernel` takes.
Interleaving find_split(int channels, int item) noexcept;
Interleaving find_merge(int channels, int item) noexcept;

}  // namespace dmlgraph::cpu
