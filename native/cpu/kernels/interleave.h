// Interleaved channels, as in the pixels of a photo, and one line for each channel.
#pragma once

#include <cstddef>

namespace dmlgraph::cpu {

inline constexpr int most_channels = 8;

// Moves `count` elements of each channel; the lines are `apart` elements apart.
using Interleaving = void (*)(void* out, const void* in, std::ptrdiff_t count, std::ptrdiff_t apart) noexcept;

// From pixels to lines, and back; for 2 to 8 channels and elements of 1, 2, 4 or 8 bytes, else null. They have the level
// that `find_kernel` uses.
Interleaving find_split(int channels, int item) noexcept;
Interleaving find_merge(int channels, int item) noexcept;

}  // namespace dmlgraph::cpu
