// Regions of rows: element-wise nodes and reductions that run row by row while a row is in the cache.
//
// The dimensions of such a region are those that its reductions keep, then those that they reduce, which are a row.
// Results are wide (an element for each of a row) or narrow (one for each row); a wide instruction that takes a narrow
// operand sees it repeated. Views have all the dimensions; those of narrow values step 0 along the row's.
//
// Several short rows are taken at a time. A row that does not fit is taken in pieces, and then no wide result may
// depend on what its own row comes to; where there are few such rows, their parts are shared between the workers, the
// states of whose reductions are merged afterwards. How rows are cut depends on sizes alone.
//
// Where the elements of neighbouring rows lie side by side (a reduction over leading dimensions), a block holds as many
// lines as a row has elements, each with an element of every row of the block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/region/region.h"

namespace dmlgraph::cpu {

// Whether rows of so many elements are taken in pieces.
bool is_long_row(std::int64_t length, bool columns);

class RowSchedule {
public:
    // Strides of the loads, then of the stores, in bytes.
    RowSchedule(const Region& region, const std::vector<Sizes>& strides);

    std::int64_t blocks() const { return blocks_; }
    std::int64_t parts() const { return parts_; }
    std::size_t scratch_bytes() const { return scratch_bytes_; }
    std::size_t state_bytes() const;
    double cost() const { return cost_; }

    // Runs pieces of the blocks · parts there are. `states`: where reductions of parts go, if there are several.
    void run(const Region& region, std::byte* const* bases, std::byte* scratch, std::byte* states, Chunks& chunks) const;
    // Blocks again, once all parts are done.
    void join(const Region& region, std::byte* const* bases, std::byte* scratch, std::byte* states, Chunks& chunks) const;

private:
    enum class Access : std::uint8_t { scalar, narrow, fixed, wide };  // fixed: the same in every row
    enum class Kind : std::uint8_t { gather, spread, execute, start, take, finish, store };
    struct Operation {
        Kind kind;
        bool once = false;       // the same in every block
        std::int32_t index = 0;  // of the load, instruction or store; of a spread: its wide register
        Reference source{};      // of a spread
    };
    struct Place {
        enum class Kind : std::uint8_t { none, memory, wide, narrow } kind = Kind::none;  // the latter: in a register
        std::int32_t index = 0;
    };
    struct Stream {  // a load or store
        Access access{};
        bool direct = false;  // a block of it lies side by side
        bool streaming = false;
        bool lined = false;  // the lines of a block do
        std::uint8_t item = 0;
        Sizes strides{};
        Place place;  // of a load
    };
    class Assignment;
    class Run;

    int kept_ = 0;  // dimensions, after those that are one line have become one
    int rank_ = 0;
    Sizes sizes_{};
    bool columns_ = false;
    std::int64_t rows_ = 1;
    std::int64_t length_ = 1;      // of a row
    std::int64_t width_ = 1;       // rows of a block
    std::int64_t piece_ = 1;       // elements of a row that are taken at a time
    std::int64_t part_ = 1;        // … by one worker
    std::int64_t line_ = 1;        // rows among which blocks are cut: all, or those side by side
    std::int64_t blocks_ = 1;
    std::int64_t parts_ = 1;
    std::vector<Stream> streams_;
    std::vector<Place> places_;          // of the instructions' results
    std::vector<Place> operand_places_;  // by operand
    std::vector<Place> store_places_;    // by store: what it takes
    std::vector<std::int32_t> states_;   // by instruction: the register of a reduction's states, else -1
    std::vector<Operation> before_;      // once a part
    std::vector<Operation> pieces_;      // for every piece
    std::vector<Operation> after_;       // once all parts are done
    std::vector<std::size_t> offsets_;   // of the registers
    std::size_t states_bytes_ = 0;       // of one row's reductions
    std::size_t scratch_bytes_ = 0;
    double cost_ = 0;
};

class RowStep final : public Step {
public:
    explicit RowStep(Region region);

    void run(RunContext& context) const override;
    Kind kind() const override { return nodes.size() > 1 ? Kind::region : Kind::native; }
    double cost() const override { return schedule_.cost(); }
    std::size_t scratch_bytes() const override { return schedule_.scratch_bytes(); }
    void visit(const Visitor& visitor) override;
    // Memory for the states of parts, which the planner gives; none is needed if it is 0.
    std::size_t state_bytes() const { return schedule_.state_bytes(); }
    void give_states(const View& view) { states_ = view; }

private:
    Region region_;
    RowSchedule schedule_;
    View states_;
};

}  // namespace dmlgraph::cpu
