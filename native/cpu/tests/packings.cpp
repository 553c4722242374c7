// What is made of constants: once for the same key, in the whole process, as long as someone has it.
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "cpu/products/panels.h"
#include "cpu/runtime/digest.h"
#include "cpu/runtime/packings.h"

namespace dmlgraph::cpu {
namespace {

struct Made {
    int number;
    std::size_t bytes() const { return 8; }
};

using Constants = std::vector<std::byte>;

Packings packings_of(const Constants& constant) { return Packings({{constant.data(), constant.size()}}); }

MatrixPanels panels_at(const Constants& constant, std::size_t offset) {
    return {constant.data() + offset, DataType::float32, {}, 4, 8};
}

TEST_CASE("what has the same key is made once") {
    const Constants memory(64);
    int calls = 0;
    for (const bool is_constant : {true, false}) {
        Packings packings = is_constant ? packings_of(memory) : Packings();
        const auto made = [&](const auto& key) {
            return packings.find_or_make<Made>(key, [&] { return Made{++calls}; });
        };
        const MatrixPanels one = panels_at(memory, 0), other = panels_at(memory, 1);
        const Packing packing{1, {2}, 3, {4, 5}, true, nullptr};
        Packing wider = packing, bytes = packing;
        wider.division.width = 6, bytes.as_bytes = true;
        calls = 0;
        const std::vector<std::shared_ptr<const Made>> found{
            made(std::tuple(one, packing)), made(std::tuple(other, packing)), made(std::tuple(one, wider)),
            made(std::tuple(one, bytes)), made(std::tuple(one))};
        CHECK_MESSAGE(calls == 5, "each key has something of its own");
        CHECK_MESSAGE((made(std::tuple(one, packing)) == found[0] && made(std::tuple(one, bytes)) == found[3] &&
                       made(std::tuple(one)) == found[4]),
                      "it is found again");
        CHECK_MESSAGE(calls == 5, "and not made again");
        CHECK_MESSAGE(packings.uses().size() == 5, "each is used");
    }
}

TEST_CASE("executables share what they make of equal constants, as long as one has it") {
    const std::size_t before = packed_bytes();
    const Constants one(3000, std::byte{7}), equal = one, longer(3001, std::byte{7});
    Constants changed = one;
    changed[2999] = std::byte{6};
    int calls = 0;
    const auto made = [&](const Constants& constant, std::size_t offset, bool known = true) {
        Packings packings = known ? packings_of(constant) : Packings();
        return packings.find_or_make<Made>(std::tuple(panels_at(constant, offset), 1), [&] { return Made{++calls}; });
    };
    std::shared_ptr<const Made> first = made(one, 4);
    CHECK_MESSAGE((made(equal, 4) == first && made(one, 4) == first), "equal constants");
    CHECK_MESSAGE((made(equal, 5) != first && made(changed, 4) != first && made(longer, 4) != first), "others");
    CHECK_MESSAGE(made(one, 4, false) != first, "and what is no constant");
    CHECK_MESSAGE((calls == 5 && packed_bytes() == before + 8), "only the first is still there");
    first.reset();
    CHECK_MESSAGE((packed_bytes() == before && made(equal, 4)->number == 6), "what nobody has is made again");
}

TEST_CASE("threads that want the same wait for the one that makes it") {
    const Constants memory(4096, std::byte{1});
    std::atomic<int> calls = 0;
    std::vector<std::shared_ptr<const Made>> found(8);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < found.size(); ++t) {
        threads.emplace_back([&, t] {
            Packings packings = packings_of(memory);
            for (int i = 0; i < 200; ++i) {  // more than the table keeps when they are gone
                found[t] = packings.find_or_make<Made>(std::tuple(panels_at(memory, 0), i % 100),
                                                       [&] { return Made{++calls}; });
            }
        });
    }
    for (std::thread& each : threads) {
        each.join();
    }
    for (const auto& each : found) {
        CHECK_MESSAGE(each == found.front(), "all have the same");
    }
}

TEST_CASE("unlike bytes have unlike digests") {
    for (const std::size_t bytes : {0, 1, 3, 4, 1023, 1024, 1025, 40'000}) {
        Constants memory(bytes + 1);
        const Digest first = digest_of(memory.data(), bytes);
        CHECK_MESSAGE(digest_of(memory.data(), bytes) == first, "of ", bytes, " bytes");
        CHECK_MESSAGE(digest_of(memory.data(), bytes + 1) != first, "a zero more");
        for (std::size_t at = 0; at < bytes; at += 1 + bytes / 50) {
            memory[at] = std::byte{128};
            CHECK_MESSAGE(digest_of(memory.data(), bytes) != first, "byte ", at, " of ", bytes);
            memory[at] = std::byte{0};
        }
    }
}

}  // namespace
}  // namespace dmlgraph::cpu
