// How a region runs on memory of certain strides: in which blocks, with which operations, and where values lie meanwhile.
//
// There are two schedules. That of elements (element_schedule.h) goes block by block along the whole domain; that of rows
// (row_schedule.h) goes row by row, with reductions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/region/region.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// Stores of this size do not stay in the caches anyway: they go past them.
inline constexpr std::int64_t streaming_bytes = 16 << 20;

// Where a value lies while a block is computed.
struct Location {
    enum class Kind : std::uint8_t {
        none,    // nowhere: nobody wants it
        scalar,  // computed once, one element for all
        memory,  // in the memory of a load or store
        wide,    // in a register: a piece of a worker's scratch memory that holds a block
        narrow,  // in a register of one element a row
    } kind = Kind::none;
    std::int32_t index = 0;  // of the scalar, of the load or store, of the register
};

// Where a run finds a region's tensors, and memory that it may use.
struct RegionMemory {
    std::byte* const* bases;  // the first elements of the loads, then of the stores
    std::byte* scratch;       // aligned to cache lines
    std::size_t scratch_stride;
    std::byte* states;  // `state_bytes` of them

    std::byte* scratch_of(int worker) const { return scratch + scratch_stride * static_cast<std::size_t>(worker); }
};

class RegionSchedule {
public:
    virtual ~RegionSchedule() = default;
    virtual void run(const Region& region, RunContext& context, const RegionMemory& memory) const = 0;
    // About how many bytes go through the instructions: what is worth sharing between threads.
    double cost() const { return cost_; }
    // Memory for each worker.
    std::size_t scratch_bytes() const { return scratch_bytes_; }
    // Memory for the states of reductions whose rows are shared between workers.
    virtual std::size_t state_bytes() const { return 0; }

protected:
    double cost_ = 0;
    std::size_t scratch_bytes_ = 0;
};

// `strides`: of the loads, then of the stores, in bytes, along the region's dimensions.
std::unique_ptr<RegionSchedule> make_schedule(const Region& region, const std::vector<Sizes>& strides);

// A region's domain without the dimensions that go on where others end, in all loads and stores. There is at least one
// dimension, and in a region of rows one of both kinds.
struct Domain {
    int rank = 0;
    int kept = 0;  // dimensions before those of a row: all, where there are no rows
    Sizes sizes{};
    std::vector<Sizes> strides;
};

Domain collapse(const Region& region, const std::vector<Sizes>& strides);

bool all_zero(const Sizes& strides, int from, int to);

}  // namespace dmlgraph::cpu
