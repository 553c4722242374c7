// What tells the bytes of constants apart.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

namespace dmlgraph::cpu {

// Other bytes have the same digest with a chance below 2^-100, whoever chose them: it depends on random numbers of this
// process.
struct Digest {
    std::array<std::uint64_t, 4> sums{};
    std::size_t bytes = 0;

    auto operator<=>(const Digest&) const = default;
};

Digest digest_of(const std::byte* data, std::size_t bytes);

}  // namespace dmlgraph::cpu
