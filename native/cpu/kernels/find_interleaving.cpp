// Finds interleavings.
#include "cpu/kernels/chosen.h"
#include "cpu/kernels/interleave_tables.h"

namespace dmlgraph::cpu {
namespace {

const InterleavingEntry* find(int channels, int item) {
    for (const InterleavingEntry& entry : DMLGRAPH_OF_CHOSEN_LEVEL(interleavings)) {
        if (entry.channels == channels && entry.item == item) {
            return &entry;
        }
    }
    return nullptr;
}

}  // namespace

Interleaving find_split(int channels, int item) noexcept {
    const InterleavingEntry* const found = find(channels, item);
    return found == nullptr ? nullptr : found->split;
}

Interleaving find_merge(int channels, int item) noexcept {
    const InterleavingEntry* const found = find(channels, item);
    return found == nullptr ? nullptr : found->merge;
}

Transposition find_transposition(int item) noexcept {
    for (const TranspositionEntry& entry : DMLGRAPH_OF_CHOSEN_LEVEL(transpositions)) {
        if (entry.item == item) {
            return entry.transposition;
        }
    }
    return nullptr;
}

}  // namespace dmlgraph::cpu
