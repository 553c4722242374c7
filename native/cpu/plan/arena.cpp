#include "cpu/plan/arena.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>

#include "cpu/plan/planning.h"
#include "cpu/runtime/cache_line.h"
#include "cpu/runtime/red_zones.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::size_t most_candidates = 16;  // buffers that are tried as memory to overwrite

// Memory for a buffer and those that overwrite it, one after the other.
struct Block {
    std::size_t bytes;
    std::int32_t first;  // steps, both included
    std::int32_t last;
    std::size_t offset = 0;
};

std::size_t rounded(const Lifetime& lifetime) { return std::max(cache_line, align_to_line(lifetime.bytes)) + red_zone; }

// The blocks of the buffers; blocks[k] is that of lifetimes[b] if block_of[b] is k.
std::vector<Block> blocks_of(const std::vector<Lifetime>& lifetimes, const std::vector<std::unique_ptr<Step>>& steps,
                             BufferId first_buffer, std::vector<std::size_t>& block_of) {
    std::vector<std::vector<std::size_t>> born(steps.size()), dying(steps.size());
    for (std::size_t b = 0; b < lifetimes.size(); ++b) {
        if (lifetimes[b].first >= 0) {
            born[static_cast<std::size_t>(lifetimes[b].first)].push_back(b);
            dying[static_cast<std::size_t>(lifetimes[b].last)].push_back(b);
        }
    }
    std::vector<Block> blocks;
    const auto id = [&](std::size_t b) { return first_buffer + static_cast<BufferId>(b); };
    for (std::size_t s = 0; s < steps.size(); ++s) {
        for (const std::size_t b : born[s]) {
            std::size_t tried = 0;
            const auto heir = std::ranges::find_if(dying[s], [&](std::size_t other) {
                return lifetimes[other].first < static_cast<std::int32_t>(s) &&
                       rounded(lifetimes[other]) == rounded(lifetimes[b]) && ++tried <= most_candidates &&
                       steps[s]->may_overwrite(id(other), id(b));
            });
            if (heir == dying[s].end()) {
                block_of[b] = blocks.size();
                blocks.push_back({rounded(lifetimes[b]), lifetimes[b].first, lifetimes[b].last});
                continue;
            }
            block_of[b] = block_of[*heir];
            blocks[block_of[b]].last = lifetimes[b].last;
            dying[s].erase(heir);
        }
    }
    return blocks;
}

// Places a block in the smallest gap between those that live at the same time and have a place.
std::size_t place(const Block& block, std::vector<const Block*>& others) {
    std::ranges::sort(others, {}, &Block::offset);
    std::size_t end = 0, best = 0, smallest = std::numeric_limits<std::size_t>::max();
    for (const Block* const each : others) {
        if (each->offset >= end + block.bytes && each->offset - end < smallest) {
            best = end, smallest = each->offset - end;
        }
        end = std::max(end, each->offset + each->bytes);
    }
    return smallest == std::numeric_limits<std::size_t>::max() ? end : best;
}

}  // namespace

// Large blocks get their places first: small ones fit between them.
std::size_t assign_offsets(std::vector<Lifetime>& lifetimes, const std::vector<std::unique_ptr<Step>>& steps,
                           BufferId first_buffer) {
    std::vector<std::size_t> block_of(lifetimes.size());
    std::vector<Block> blocks = blocks_of(lifetimes, steps, first_buffer, block_of);
    std::vector<std::size_t> order(blocks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t k) { return blocks[k].bytes; });
    std::vector<std::vector<std::size_t>> placed(steps.size());  // the blocks with a place, by step at which they live
    std::size_t end = 0;
    for (const std::size_t k : order) {
        Block& block = blocks[k];
        std::set<std::size_t> together;
        for (std::int32_t s = block.first; s <= block.last; ++s) {
            const std::vector<std::size_t>& there = placed[static_cast<std::size_t>(s)];
            together.insert(there.begin(), there.end());
        }
        std::vector<const Block*> others;
        std::ranges::transform(together, std::back_inserter(others), [&](std::size_t other) { return &blocks[other]; });
        block.offset = place(block, others);
        end = std::max(end, block.offset + block.bytes);
        for (std::int32_t s = block.first; s <= block.last; ++s) {
            placed[static_cast<std::size_t>(s)].push_back(k);
        }
    }
    for (std::size_t b = 0; b < lifetimes.size(); ++b) {
        if (lifetimes[b].first >= 0) {
            lifetimes[b].offset = blocks[block_of[b]].offset;
        }
    }
    return end;
}

// Lifetimes, and the offsets that follow from them.
void assign_arena(Plan& plan) {
    const std::size_t external = plan.program.inputs.size() + plan.program.outputs.size();
    std::vector<Lifetime>& lifetimes = plan.program.temporaries;
    lifetimes.resize(plan.temporary_bytes.size());
    for (std::size_t t = 0; t < lifetimes.size(); ++t) {
        lifetimes[t].bytes = plan.temporary_bytes[t];
    }
    plan.program.last_read.assign(plan.program.inputs.size(), -1);
    plan.program.first_write.assign(plan.program.outputs.size(), -1);
    for (std::int32_t s = 0; s < static_cast<std::int32_t>(plan.program.steps.size()); ++s) {
        Step& step = *plan.program.steps[static_cast<std::size_t>(s)];
        plan.program.scratch_bytes = std::max(plan.program.scratch_bytes, step.scratch_bytes());
        step.visit([&](View& view, bool) {
            const auto buffer = static_cast<std::size_t>(view.buffer);
            if (view.buffer < 0) {
                return;
            }
            step.bytes += view.bytes();
            if (!view.mapped) {
                require_packed(plan, view.buffer);
            }
            if (buffer < plan.program.inputs.size()) {
                plan.program.last_read[buffer] = s;
            } else if (buffer < external) {
                std::int32_t& first = plan.program.first_write[buffer - plan.program.inputs.size()];
                first = first < 0 ? s : first;
            } else if (buffer > external) {
                lifetimes[buffer - external - 1].extend(s);
            }
        });
    }
    plan.program.arena_bytes = assign_offsets(lifetimes, plan.program.steps, static_cast<BufferId>(external) + 1);
}

}  // namespace dmlgraph::cpu
