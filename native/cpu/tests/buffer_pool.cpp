// Memory that several threads take, give back and reuse.
#include "cpu/runtime/buffer_pool.h"

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "cpu/runtime/memory.h"
#include "cpu/tests/any_thread.h"
#include "cpu/tests/random.h"

namespace dmlgraph::cpu::tests {

TEST_CASE("memory is used again") {
    std::byte* const first = take_memory(1 << 20);
    CHECK_MESSAGE(reinterpret_cast<std::uintptr_t>(first) % 64 == 0, "memory is aligned to 64 bytes");
    std::memset(first, 1, 1 << 20);
    const std::size_t before = pooled_bytes();
    give_memory(first, 1 << 20);
    CHECK_MESSAGE(pooled_bytes() == before + (1 << 20), "memory waits in the pool");
    std::byte* const second = take_memory((1 << 20) - 5);
    CHECK_MESSAGE((second == first && pooled_bytes() == before), "and is given out again");
    give_memory(second, (1 << 20) - 5);
}

TEST_CASE("threads share the pool") {
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t) {
        threads.emplace_back([t] {
            Random random(static_cast<std::uint64_t>(t));
            struct Held {
                std::byte* memory;
                std::size_t bytes;
            };
            std::vector<Held> held;
            for (int k = 0; k < 300; ++k) {
                if (held.size() > 5 || (!held.empty() && random.chance(40))) {
                    const Held last = held.back();
                    held.pop_back();
                    // No other thread has written into it.
                    check_on_any_thread(last.memory[0] == std::byte(t) && last.memory[last.bytes - 1] == std::byte(t),
                                        "memory is one's own");
                    give_memory(last.memory, last.bytes);
                } else {
                    const auto bytes = static_cast<std::size_t>(random.between(1, 300'000));
                    held.push_back({take_memory(bytes), bytes});
                    std::memset(held.back().memory, t, bytes);
                }
            }
            for (const Held& each : held) {
                give_memory(each.memory, each.bytes);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

TEST_CASE("the pool is bounded") {
    std::vector<std::byte*> pieces;
    for (int k = 0; k < 200; ++k) {
        pieces.push_back(take_memory(100));
    }
    for (std::byte* const piece : pieces) {
        give_memory(piece, 100);
    }
    CHECK_MESSAGE(pooled_bytes() < (std::size_t{200} << 16), "the oldest pieces are freed");
}

TEST_CASE("memory moves") {
    Memory large(5 << 20);  // in large pages
    std::memset(large.get(), 1, large.bytes());
    Memory other(std::move(large));
    large = Memory(10);
    CHECK_MESSAGE((other.bytes() == 5 << 20 && large.bytes() == 10), "sizes move along");
    other = std::move(large);
    CHECK_MESSAGE((other.get() != nullptr && other.bytes() == 10), "the former memory is freed");
    CHECK_MESSAGE(Memory(0).get() != nullptr, "no bytes are memory, too");
}

}  // namespace dmlgraph::cpu::tests
