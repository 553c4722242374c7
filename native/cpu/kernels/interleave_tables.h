// The tables of interleavings: every level has one.
#pragma once

#include <span>

#include "cpu/kernels/interleave.h"

namespace dmlgraph::cpu {

struct InterleavingEntry {
    int channels;
    int item;
    Interleaving split;
    Interleaving merge;
};

using InterleavingEntries = std::span<const InterleavingEntry>;

namespace baseline {
InterleavingEntries interleavings();
}
namespace avx2 {
InterleavingEntries interleavings();
}
namespace avx512 {
InterleavingEntries interleavings();
}

}  // namespace dmlgraph::cpu
