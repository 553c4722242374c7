// Looking interleavings up.
#include "cpu/kernels/interleave_tables.h"
#include "cpu/kernels/kernel.h"

namespace dmlgraph::cpu {
namespace {

InterleavingEntries entries() {
#ifdef DMLGRAPH_X86_LEVELS
    switch (chosen_level()) {
        case Level::avx512: return avx512::interleavings();
        case Level::avx2: return avx2::interleavings();
        default: break;
    }
#endif
    return baseline::interleavings();
}

const InterleavingEntry* find(int channels, int item) {
    for (const InterleavingEntry& entry : entries()) {
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

}  // namespace dmlgraph::cpu
