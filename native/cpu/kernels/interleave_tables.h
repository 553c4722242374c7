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

struct TranspositionEntry {
    int item;
    Transposition transposition;
};

using InterleavingEntries = std::span<const InterleavingEntry>;
using Transpositions = std::span<const TranspositionEntry>;

namespace baseline {
InterleavingEntries interleavings();
Transpositions transpositions();
}
namespace avx2 {
InterleavingEntries interleavings();
Transpositions transpositions();
}
namespace avx512 {
InterleavingEntries interleavings();
Transpositions transpositions();
}

}  // namespace dmlgraph::cpu
