#include "cpu/runtime/buffer_pool.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

#include "cpu/runtime/memory.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::size_t granule = 64 << 10;
constexpr std::size_t least_limit = 64 << 20;
constexpr std::size_t memory_share = 8;  // the pool keeps at most this part of the machine's memory
constexpr std::size_t most_pieces = 64;

struct Pooled {
    std::byte* memory;
    std::size_t bytes;
};

// The oldest pieces first.
struct Pool {
    std::mutex mutex;
    std::vector<Pooled> pieces;
    std::size_t bytes = 0;
    std::size_t limit = std::max(least_limit, physical_memory() / memory_share);

    Pool() { pieces.reserve(most_pieces + 1); }

    Pooled drop(std::size_t index) {
        const Pooled piece = pieces[index];
        pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(index));
        bytes -= piece.bytes;
        return piece;
    }
};

Pool& pool() {
    static Pool* const made = new Pool;  // never destroyed: arrays may outlive all other objects
    return *made;
}

constexpr std::size_t rounded(std::size_t bytes) { return (bytes + granule - 1) / granule * granule; }

}  // namespace

std::byte* take_memory(std::size_t bytes) {
    bytes = rounded(bytes);
    {
        Pool& state = pool();
        const std::lock_guard lock(state.mutex);
        for (std::size_t i = state.pieces.size(); i-- > 0;) {  // the last one is most likely in the caches
            if (state.pieces[i].bytes == bytes) {
                return state.drop(i).memory;
            }
        }
    }
    return allocate(bytes);
}

void give_memory(std::byte* memory, std::size_t bytes) noexcept {
    bytes = rounded(bytes);
    Pool& state = pool();
    const std::lock_guard lock(state.mutex);
    if (bytes > state.limit) {
        deallocate(memory, bytes);
        return;
    }
    state.pieces.push_back({memory, bytes});
    state.bytes += bytes;
    while (state.bytes > state.limit || state.pieces.size() > most_pieces) {
        const Pooled oldest = state.drop(0);
        deallocate(oldest.memory, oldest.bytes);
    }
}

std::size_t pooled_bytes() {
    Pool& state = pool();
    const std::lock_guard lock(state.mutex);
    return state.bytes;
}

}  // namespace dmlgraph::cpu
