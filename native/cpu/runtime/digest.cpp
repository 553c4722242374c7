// A tree of sums of products of 32-bit words with random numbers added (NH, of the authentication code UMAC): two
// unlike blocks have the same sum for one in 2^32 of the random numbers. Each block gets four sums, of other random
// numbers, and each level of the tree has its own.
#include "cpu/runtime/digest.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace dmlgraph::cpu {
namespace {

constexpr std::size_t block_words = 256;
constexpr std::size_t tree_levels = 16;  // more than 2^64 bytes need

using Block = std::array<std::uint32_t, block_words>;
using Sums = std::array<std::uint64_t, 4>;
using TreeLevel = std::array<Block, 4>;  // the random numbers of each sum

std::vector<TreeLevel> random_tree() {
    std::random_device device;
    std::seed_seq seeds{device(), device(), device(), device(), device(), device(), device(), device()};
    std::mt19937 numbers(seeds);
    std::vector<TreeLevel> result(tree_levels);
    for (TreeLevel& level : result) {
        for (Block& each : level) {
            std::ranges::generate(each, [&] { return static_cast<std::uint32_t>(numbers()); });
        }
    }
    return result;
}

std::uint64_t sum_of(const Block& words, const Block& random) {
    std::uint64_t result = 0;
    for (std::size_t i = 0; i < block_words / 2; ++i) {
        const std::uint32_t one = words[i] + random[i],
                            other = words[i + block_words / 2] + random[i + block_words / 2];
        result += std::uint64_t{one} * other;
    }
    return result;
}

// The sums of all blocks, of which the last one ends with zeros.
std::vector<Sums> sums_of(const std::byte* data, std::size_t bytes, const TreeLevel& level) {
    std::vector<Sums> result;
    result.reserve(bytes / sizeof(Block) + 1);
    for (std::size_t at = 0; at == 0 || at < bytes; at += sizeof(Block)) {
        Block words{};
        if (bytes > 0) {
            std::memcpy(words.data(), data + at, std::min(sizeof(Block), bytes - at));
        }
        result.push_back(
            {sum_of(words, level[0]), sum_of(words, level[1]), sum_of(words, level[2]), sum_of(words, level[3])});
    }
    return result;
}

}  // namespace

Digest digest_of(const std::byte* data, std::size_t bytes) {
    static const std::vector<TreeLevel> random = random_tree();
    auto level = random.begin();
    std::vector<Sums> sums = sums_of(data, bytes, *level);
    while (sums.size() > 1) {
        sums = sums_of(reinterpret_cast<const std::byte*>(sums.data()), sums.size() * sizeof(Sums), *++level);
    }
    return {sums.front(), bytes};
}

}  // namespace dmlgraph::cpu
