// Interleaved channels, as in the pixels of a photo, and one line for each channel; rectangles whose sides change
// places.
#pragma once

#include <cstddef>
#include <span>

namespace dmlgraph::cpu {

inline constexpr int most_channels = 8;

// Moves `count` elements of each channel; the lines are `apart` elements apart.
using Interleaving = void (*)(void* out, const void* in, std::ptrdiff_t count, std::ptrdiff_t apart) noexcept;

// From pixels to lines, and back; for 2 to 8 channels and elements of 1, 2, 4 or 8 bytes, else null. At the chosen
// level.
Interleaving find_split(int channels, int item) noexcept;
Interleaving find_merge(int channels, int item) noexcept;

// Element c of line r of the result is element r of line c. Lines are some bytes apart.
struct TranspositionCall {
    std::byte* out;
    std::ptrdiff_t out_step;
    const std::byte* in;
    std::ptrdiff_t in_step;
    std::ptrdiff_t rows;     // lines of the result
    std::ptrdiff_t columns;  // … of what is read
};
using Transposition = void (*)(const TranspositionCall& call) noexcept;

// For elements of 1, 2 or 4 bytes, else null.
Transposition find_transposition(int item) noexcept;

struct InterleavingEntry {
    int channels;
    int item;
    Interleaving split;
    Interleaving merge;
};
struct TranspositionEntry {
    int item;
    Transposition transposition;
};
struct InterleavingKernels {
    std::span<const InterleavingEntry> channels;
    std::span<const TranspositionEntry> rectangles;
};

}  // namespace dmlgraph::cpu
