#include "cpu/runtime/red_zones.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#if defined(DMLGRAPH_WATCHES_ADDRESSES)
#include <sanitizer/asan_interface.h>
#endif

namespace dmlgraph::cpu {
namespace {

constexpr int pattern = 0xA5;
constexpr int not_a_number = 0xFF;

bool is_forbidden(const std::byte& byte) {
#if defined(DMLGRAPH_WATCHES_ADDRESSES)
    return __asan_address_is_poisoned(&byte) != 0;
#else
    return byte == std::byte{pattern};
#endif
}

void allow(std::byte* memory, std::size_t bytes) {
#if defined(DMLGRAPH_WATCHES_ADDRESSES)
    __asan_unpoison_memory_region(memory, bytes);
#else
    static_cast<void>(memory), static_cast<void>(bytes);
#endif
}

}  // namespace

void forbid(std::byte* memory, std::size_t bytes) {
#if defined(DMLGRAPH_WATCHES_ADDRESSES)
    __asan_poison_memory_region(memory, bytes);
#else
    std::memset(memory, pattern, bytes);
#endif
}

bool are_forbidden(const std::byte* memory, std::size_t bytes) {
    return std::all_of(memory, memory + bytes, [](const std::byte& each) { return is_forbidden(each); });
}

void allow_empty(std::byte* memory, std::size_t bytes) {
    allow(memory, bytes);
    std::memset(memory, not_a_number, bytes);
}

RedZones::RedZones(const Program& program, std::byte* arena, std::byte* scratch, std::size_t scratch_stride,
                   int workers)
    : program_(program),
      arena_{arena, red_zone + program.arena_bytes},
      scratch_{scratch, scratch_stride * static_cast<std::size_t>(workers)},
      scratch_stride_(scratch_stride) {}

// What no buffer that lives at the step, and no scratch memory of it, has.
std::vector<RedZones::Piece> RedZones::zones(std::size_t step) const {
    std::vector<Piece> result;
    std::vector<Piece> used;
    for (const Lifetime& each : program_.temporaries) {
        if (each.lives_at(static_cast<std::int32_t>(step))) {
            used.push_back({arena_.memory + red_zone + each.offset, each.bytes});
        }
    }
    std::ranges::sort(used, {}, [](const Piece& each) { return each.memory; });
    std::byte* end = arena_.memory;
    for (const Piece& each : used) {
        if (each.memory > end) {
            result.push_back({end, static_cast<std::size_t>(each.memory - end)});
        }
        end = std::max(end, each.memory + each.bytes);
    }
    result.push_back({end, static_cast<std::size_t>(arena_.memory + arena_.bytes - end)});
    const std::size_t scratch = program_.steps[step]->scratch_bytes();
    for (std::size_t done = 0; done < scratch_.bytes; done += scratch_stride_) {
        result.push_back({scratch_.memory + done + scratch, scratch_stride_ - scratch});
    }
    return result;
}

void RedZones::before(std::size_t step) {
    const auto now = static_cast<std::int32_t>(step);
    const std::size_t scratch = program_.steps[step]->scratch_bytes();
    for (std::size_t done = 0; done < scratch_.bytes; done += scratch_stride_) {
        allow_empty(scratch_.memory + done, scratch);
    }
    for (const Lifetime& each : program_.temporaries) {
        if (each.lives_at(now)) {
            std::byte* const memory = arena_.memory + red_zone + each.offset;
            const bool inherits = std::ranges::any_of(program_.temporaries, [&](const Lifetime& other) {
                return &other != &each && other.last == now && other.first < now && other.offset == each.offset;
            });
            if (each.first == now && !inherits) {
                allow_empty(memory, each.bytes);
            } else {
                allow(memory, each.bytes);
            }
        }
    }
    for (const Piece& each : zones(step)) {
        forbid(each.memory, each.bytes);
    }
}

void RedZones::after(std::size_t step) const {
    const std::vector<Piece> all = zones(step);
    if (std::ranges::all_of(all, [](const Piece& each) { return are_forbidden(each.memory, each.bytes); })) {
        return;
    }
    std::string names;
    for (const std::string& each : program_.steps[step]->nodes) {
        names += (names.empty() ? "'" : ", '") + each + "'";
    }
    throw std::logic_error("the step of " + names + " has written beside its buffers");
}

}  // namespace dmlgraph::cpu
