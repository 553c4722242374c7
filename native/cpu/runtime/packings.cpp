#include "cpu/runtime/packings.h"

#include <atomic>
#include <functional>

namespace dmlgraph::cpu {
namespace {

std::atomic<std::size_t> all_packed_bytes = 0;

}  // namespace

std::size_t packed_bytes() { return all_packed_bytes.load(std::memory_order_relaxed); }

void count_packed(std::size_t more, std::size_t less) {
    all_packed_bytes.fetch_add(more - less, std::memory_order_relaxed);
}

std::vector<Packings::Use> Packings::uses() const { return {made_.begin(), made_.end()}; }

std::optional<Packings::Place> Packings::place_of(const std::byte* address) {
    if (address == nullptr) {
        return Place{};
    }
    const auto is_in = [&](const Constant& each) {
        return !std::less<>()(address, each.first) && std::less<>()(address, each.first + each.bytes);
    };
    const auto found = std::ranges::find_if(constants_, is_in);
    if (found == constants_.end()) {
        return std::nullopt;
    }
    if (!found->digest) {
        found->digest = digest_of(found->first, found->bytes);
    }
    return Place{*found->digest, static_cast<std::size_t>(address - found->first)};
}

}  // namespace dmlgraph::cpu
