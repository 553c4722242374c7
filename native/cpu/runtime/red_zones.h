// Memory that nothing may touch, in builds with DMLGRAPH_RED_ZONES: what a step reads or writes beside its buffers is
// found in the run in which it does so, and what nothing has written is not a number.
//
// There is a zone behind each buffer, and a buffer is one itself before its first step and after its last. Address
// sanitizer reports who touches a zone. Without it, zones have a pattern that is compared after each step: then only
// writing is found. Other builds have no zones, and nothing here takes time.
#pragma once

#include <cstddef>
#include <vector>

#include "cpu/plan/plan.h"
#include "cpu/runtime/cache_line.h"

namespace dmlgraph::cpu {

#if defined(DMLGRAPH_RED_ZONES)
inline constexpr bool has_red_zones = true;
#else
inline constexpr bool has_red_zones = false;
#endif

// Whether address sanitizer watches memory. It knows where the caller's arrays end; otherwise runs copy them between
// zones.
#if defined(__SANITIZE_ADDRESS__)
#define DMLGRAPH_WATCHES_ADDRESSES
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DMLGRAPH_WATCHES_ADDRESSES
#endif
#endif

#if defined(DMLGRAPH_WATCHES_ADDRESSES)
inline constexpr bool watches_addresses = true;
#else
inline constexpr bool watches_addresses = false;
#endif

inline constexpr std::size_t red_zone = has_red_zones ? 4 * cache_line : 0;  // bytes, behind each buffer

// Whether these bytes are red zones as `forbid` has made them.
bool are_forbidden(const std::byte* memory, std::size_t bytes);
void forbid(std::byte* memory, std::size_t bytes);
// Memory for a buffer: of bytes that make any float NaN.
void allow_empty(std::byte* memory, std::size_t bytes);

// The zones of a run's memory.
class RedZones {
public:
    // `arena` has a zone before the first buffer. The scratch memory of each worker begins after `scratch_stride`
    // bytes.
    RedZones(const Program& program, std::byte* arena, std::byte* scratch, std::size_t scratch_stride, int workers);

    void before(std::size_t step);
    // Throws std::logic_error that names the step's nodes if it has written into a zone.
    void after(std::size_t step) const;

private:
    struct Piece {
        std::byte* memory;
        std::size_t bytes;
    };

    std::vector<Piece> zones(std::size_t step) const;

    const Program& program_;
    Piece arena_;
    Piece scratch_;
    std::size_t scratch_stride_;
};

}  // namespace dmlgraph::cpu
