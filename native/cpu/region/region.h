// A region: connected element-wise nodes of one iteration space, run as one pass over the data.
//
// The pass goes block by block. A block's intermediates live in registers: pieces of a worker's scratch memory that
// stay in the nearest cache. Operands that lie side by side in memory are read where they are, others are gathered
// into a register; expressions of single elements are computed once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/reduce.h"
#include "cpu/runtime/cache_line.h"
#include "cpu/runtime/step.h"
#include "cpu/tensor/layout.h"

namespace dmlgraph::cpu {

// Stores of this size do not stay in the caches anyway: they go past them.
inline constexpr std::int64_t streaming_bytes = 16 << 20;

// What an instruction or a store takes: an element of `loads`, or the result of an instruction.
struct Reference {
    bool load = false;
    std::int32_t index = 0;
};

struct RegionInstruction {
    Opcode opcode{};
    DataType operand{};
    Kernel kernel = nullptr;               // of the opcode and the types
    const Reduction* reduction = nullptr;  // instead of opcode and kernel, in regions of rows
    bool narrow = false;                   // whether the result is one element of a row
    bool counts = false;                   // whether the result depends on where an element stands: sequences
    DataType result{};
    std::int32_t first_operand = 0;  // in Region::operands
    std::int32_t operand_count = 0;
    std::int32_t first_immediate = 0;  // in Region::immediates
};

struct RegionStore {
    View view;
    Reference source;
    bool narrow = false;
};

struct Region {
    int rank = 0;
    Sizes sizes{};
    int kept = -1;         // of a region of rows (region/row.h): dimensions before those of a row; else -1
    bool columns = false;  // whether the elements of neighbouring rows, not those of a row, lie side by side
    std::vector<View> loads;  // at the region's sizes
    std::vector<Reference> operands;
    std::vector<Immediate> immediates;
    std::vector<RegionInstruction> instructions;
    std::vector<RegionStore> stores;
};

// The strides of the loads, then of the stores, of memory laid out as the region describes it.
std::vector<Sizes> standard_strides(const Region& region);

// How a region runs on memory of certain strides.
class Schedule {
public:
    // Strides of the loads, then of the stores, in bytes, along the region's dimensions.
    Schedule(const Region& region, const std::vector<Sizes>& strides);

    std::int64_t blocks() const { return blocks_; }
    std::size_t scratch_bytes() const { return scratch_bytes_; }
    // About how many bytes go through the instructions: what is worth sharing between threads.
    double cost() const { return cost_; }

    // Runs blocks on one worker until there are none left. `bases`: where the loads' and stores' first elements are.
    void run(const Region& region, std::byte* const* bases, std::byte* scratch, Chunks& chunks) const;

private:
    enum class Access : std::uint8_t { scalar, row_scalar, direct, strided, scattered, tiled };
    struct Operation {
        enum class Kind : std::uint8_t { gather, execute, store } kind;
        std::int32_t index;
    };
    struct Place {  // where a value lies while a block is computed
        enum class Kind : std::uint8_t { none, scalar, memory, reg } kind = Kind::none;
        std::int32_t index = 0;  // of the scalar, of the tensor (loads, then stores), of the register
    };
    struct Stream {  // a load or store
        Access access{};
        std::uint8_t item = 0;
        bool once = false;  // gathered in the first block, the same in all
        bool streaming = false;
        Sizes strides{};
        Place place;  // of a load
    };
    class Run;

    void collapse(const Region& region, const std::vector<Sizes>& strides);
    void classify(const Region& region);
    int find_tile_axis(const Region& region) const;
    static bool is_gathered(Access access) { return access >= Access::strided; }
    void assign(const Region& region);
    void choose_block(const Region& region);

    int rank_ = 0;
    Sizes sizes_{};
    std::int64_t rows_ = 1;
    std::int64_t row_length_ = 1;
    std::int64_t block_ = 1;
    std::int64_t blocks_per_row_ = 1;
    std::int64_t blocks_ = 1;
    int tile_axis_ = -1;  // blocks are rectangles of this dimension and the last one; -1: they are parts of rows
    std::int64_t tile_rows_ = 1;
    std::int64_t tile_columns_ = 1;
    std::vector<Stream> streams_;
    std::vector<Place> places_;  // of the instructions' results
    std::vector<std::int32_t> scalars_;  // instructions computed once, in order
    std::vector<Operation> operations_;
    std::vector<std::int32_t> far_;         // direct loads from beyond the caches
    std::vector<std::int32_t> register_items_;  // bytes of an element, by register
    std::vector<std::size_t> register_offsets_;
    std::size_t scratch_bytes_ = 0;
    double cost_ = 0;
};

class RegionStep final : public Step {
public:
    explicit RegionStep(Region region);

    void run(RunContext& context) const override;
    Kind kind() const override { return Kind::region; }
    double cost() const override { return schedule_.cost(); }
    std::size_t scratch_bytes() const override { return schedule_.scratch_bytes(); }
    bool may_overwrite(BufferId read, BufferId written) const override;
    void visit(const Visitor& visitor) override;
    const Region& region() const { return region_; }

private:
    Region region_;
    Schedule schedule_;  // for standard layouts
};

}  // namespace dmlgraph::cpu
