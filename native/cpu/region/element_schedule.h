// The schedule of an element-wise region.
//
// The pass goes block by block. A block's intermediates live in registers: pieces of a worker's scratch memory that
// stay in the nearest cache. Operands that lie side by side in memory are read where they are, others are gathered
// into a register; expressions of single elements are computed once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/region/schedule.h"

namespace dmlgraph::cpu {

class ElementSchedule final : public RegionSchedule {
public:
    ElementSchedule(const Region& region, const std::vector<Sizes>& strides);

    void run(const Region& region, RunContext& context, const RegionMemory& memory) const override;

private:
    enum class Access : std::uint8_t { scalar, row_scalar, direct, strided, scattered, tiled };
    struct Operation {
        enum class Kind : std::uint8_t { gather, execute, store } kind;
        std::int32_t index;  // of the load, instruction or store
    };
    struct Stream {  // a load or store
        Access access{};
        std::uint8_t item = 0;
        bool once = false;  // gathered in the first block, the same in all
        bool streaming = false;
        Sizes strides{};
        Location location;  // of a load
    };
    class Assignment;
    class Run;

    void classify();
    int find_tile_axis(const Region& region) const;
    static bool is_gathered(Access access) { return access >= Access::strided; }
    void choose_block(const Region& region);
    void choose_tiles();
    void lay_out_scratch(const Region& region);

    int rank_ = 0;
    Sizes sizes_{};
    std::int64_t rows_ = 1;
    std::int64_t row_length_ = 1;
    std::int64_t block_ = 1;
    std::int64_t blocks_per_row_ = 1;
    std::int64_t blocks_ = 1;
    int tile_axis_ = -1;  // blocks are tiles of this dimension and the last one; -1: they are parts of rows
    std::int64_t tile_rows_ = 1;
    std::int64_t tile_columns_ = 1;
    std::vector<Stream> streams_;
    std::vector<Location> locations_;    // of the instructions' results
    std::vector<std::int32_t> scalars_;  // instructions computed once, in order
    std::vector<Operation> operations_;
    std::vector<std::int32_t> far_;             // direct loads from beyond the caches
    std::vector<std::int32_t> register_items_;  // bytes of an element, by register
    std::vector<std::size_t> register_offsets_;
};

}  // namespace dmlgraph::cpu
