// Buffers share memory only if they live at different times, or if one overwrites the other.
#include "cpu/plan/arena.h"

#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "cpu/runtime/red_zones.h"

namespace dmlgraph::cpu::tests {
namespace {

// Overwrites some buffers: pairs (read, written).
class Overwriting final : public Step {
public:
    explicit Overwriting(std::set<std::pair<BufferId, BufferId>> pairs = {}) : pairs_(std::move(pairs)) {}

    void run(RunContext&) const override {}
    void visit(const Visitor&) override {}
    bool may_overwrite(BufferId read, BufferId written) const override { return pairs_.contains({read, written}); }

private:
    std::set<std::pair<BufferId, BufferId>> pairs_;
};

std::vector<std::unique_ptr<Step>> steps(int count) {
    std::vector<std::unique_ptr<Step>> result;
    for (int s = 0; s < count; ++s) {
        result.push_back(std::make_unique<Overwriting>());
    }
    return result;
}

}  // namespace

TEST_CASE("memory that was left between others is used for what comes later") {
    // A large buffer, three small ones of which the last lives on, and two more large ones.
    std::vector<Lifetime> lifetimes{{4096, 0, 1}, {1024, 1, 3}, {1024, 2, 3}, {1024, 3, 5}, {4096, 4, 6}, {4096, 5, 6}};
    CHECK(assign_offsets(lifetimes, steps(7), 0) == 4096 + 4096 + 1024 + 3 * red_zone);
}

TEST_CASE("buffers that live at the same time are apart") {
    std::mt19937 random(0);
    const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
    for (int round = 0; round < 200; ++round) {
        const int count = 1 + draw(20);
        std::vector<Lifetime> lifetimes(static_cast<std::size_t>(1 + draw(40)));
        std::size_t all = 0;
        for (Lifetime& each : lifetimes) {
            each.bytes = static_cast<std::size_t>(draw(5000));
            if (draw(8) > 0) {
                each.extend(draw(count));
                each.extend(each.first + draw(count - each.first));
                all += each.bytes + 64 + red_zone;
            }
        }
        const std::size_t end = assign_offsets(lifetimes, steps(count), 0);
        CHECK(end <= all);
        for (const Lifetime& one : lifetimes) {
            CHECK(one.offset % 64 == 0);
            CHECK((one.first < 0 || one.offset + one.bytes <= end));
            for (const Lifetime& other : lifetimes) {
                const bool together = &one != &other && one.first >= 0 && other.first >= 0 && one.first <= other.last &&
                                      other.first <= one.last;
                CHECK(
                    (!together || one.offset + one.bytes <= other.offset || other.offset + other.bytes <= one.offset));
            }
        }
    }
}

TEST_CASE("a buffer gets the memory of one that its step overwrites") {
    constexpr BufferId first = 3;
    std::vector<std::unique_ptr<Step>> chain;
    chain.push_back(std::make_unique<Overwriting>());
    chain.push_back(std::make_unique<Overwriting>(std::set<std::pair<BufferId, BufferId>>{{first, first + 1}}));
    chain.push_back(std::make_unique<Overwriting>(std::set<std::pair<BufferId, BufferId>>{{first + 1, first + 2}}));
    chain.push_back(std::make_unique<Overwriting>());
    std::vector<Lifetime> lifetimes{{256, 0, 1}, {256, 1, 2}, {256, 2, 3}, {512, 0, 3}};
    CHECK(assign_offsets(lifetimes, chain, first) == 512 + 256 + 2 * red_zone);
    CHECK(lifetimes[0].offset == lifetimes[1].offset);
    CHECK(lifetimes[1].offset == lifetimes[2].offset);
}

}  // namespace dmlgraph::cpu::tests
