#include "cpu/plan/arena.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cpu/plan/planning.h"
#include "cpu/runtime/cache_line.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::size_t most_candidates = 16;  // buffers that are tried as memory to overwrite

// The free blocks of memory that grows at its end.
class FreeMemory {
public:
    // The smallest free block that is large enough; else the end, with the free block before it.
    std::size_t take(std::size_t bytes) {
        const auto found = by_size_.lower_bound({bytes, 0});
        if (found != by_size_.end()) {
            const auto [size, offset] = *found;
            remove(offset, size);
            if (size > bytes) {
                insert(offset + bytes, size - bytes);
            }
            return offset;
        }
        std::size_t offset = end_;
        if (!by_offset_.empty()) {
            const auto [last, size] = *by_offset_.rbegin();
            if (last + size == end_) {
                remove(last, size);
                offset = last;
            }
        }
        end_ = offset + bytes;
        return offset;
    }

    void give(std::size_t offset, std::size_t bytes) {
        auto next = by_offset_.lower_bound(offset);
        if (next != by_offset_.end() && next->first == offset + bytes) {
            bytes += next->second;
            remove(next->first, next->second);
        }
        next = by_offset_.lower_bound(offset);
        if (next != by_offset_.begin()) {
            const auto [before, size] = *std::prev(next);
            if (before + size == offset) {
                remove(before, size);
                offset = before;
                bytes += size;
            }
        }
        insert(offset, bytes);
    }

    std::size_t end() const { return end_; }

private:
    void insert(std::size_t offset, std::size_t bytes) {
        by_offset_[offset] = bytes;
        by_size_.insert({bytes, offset});
    }
    void remove(std::size_t offset, std::size_t bytes) {
        by_offset_.erase(offset);
        by_size_.erase({bytes, offset});
    }

    std::map<std::size_t, std::size_t> by_offset_;
    std::set<std::pair<std::size_t, std::size_t>> by_size_;
    std::size_t end_ = 0;
};

std::size_t rounded(const Lifetime& lifetime) {
    return std::max(cache_line, align_to_line(lifetime.bytes));
}

}  // namespace

std::size_t assign_offsets(std::vector<Lifetime>& lifetimes, const std::vector<std::unique_ptr<Step>>& steps,
                           BufferId first_buffer) {
    std::vector<std::vector<std::size_t>> born(steps.size()), dying(steps.size());
    for (std::size_t b = 0; b < lifetimes.size(); ++b) {
        if (lifetimes[b].first >= 0) {
            born[static_cast<std::size_t>(lifetimes[b].first)].push_back(b);
            dying[static_cast<std::size_t>(lifetimes[b].last)].push_back(b);
        }
    }
    FreeMemory memory;
    const auto id = [&](std::size_t b) { return first_buffer + static_cast<BufferId>(b); };
    for (std::size_t s = 0; s < steps.size(); ++s) {
        std::vector<std::size_t> ending = dying[s];
        for (const std::size_t b : born[s]) {
            std::size_t tried = 0;
            const auto heir = std::ranges::find_if(ending, [&](std::size_t other) {
                return lifetimes[other].first < static_cast<std::int32_t>(s) &&
                       rounded(lifetimes[other]) == rounded(lifetimes[b]) && ++tried <= most_candidates &&
                       steps[s]->may_overwrite(id(other), id(b));
            });
            if (heir == ending.end()) {
                lifetimes[b].offset = memory.take(rounded(lifetimes[b]));
                continue;
            }
            lifetimes[b].offset = lifetimes[*heir].offset;
            ending.erase(heir);
        }
        for (const std::size_t b : ending) {
            memory.give(lifetimes[b].offset, rounded(lifetimes[b]));
        }
    }
    return memory.end();
}

// Lifetimes, and the offsets that follow from them.
void assign_arena(Plan& plan) {
    const std::size_t external = plan.program.inputs.size() + plan.program.outputs.size();
    std::vector<Lifetime> lifetimes(plan.temporary_bytes.size());
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
    for (const Lifetime& each : lifetimes) {
        plan.program.temporaries.push_back(each.offset);
    }
}

}  // namespace dmlgraph::cpu
