// The schedule of a region of rows: element-wise nodes and reductions that run row by row while a row is in the cache.
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

#include "cpu/region/schedule.h"

namespace dmlgraph::cpu {

// Whether rows of so many elements are taken in pieces.
bool is_long_row(std::int64_t length, bool columns);

class RowSchedule final : public RegionSchedule {
public:
    RowSchedule(const Region& region, const std::vector<Sizes>& strides);

    void run(const Region& region, RunContext& context, const RegionMemory& memory) const override;
    std::size_t state_bytes() const override;

private:
    enum class Access : std::uint8_t { scalar, narrow, fixed, wide };  // fixed: the same in every row
    enum class Kind : std::uint8_t { gather, spread, execute, start, take, finish, store };
    struct Operation {
        Kind kind;
        bool once = false;       // the same in every block
        std::int32_t index = 0;  // of the load, instruction or store; of a spread: its wide register
        Reference source{};      // of a spread
    };
    struct Stream {  // a load or store
        Access access{};
        bool direct = false;  // a block of it lies side by side
        bool streaming = false;
        bool lined = false;  // the lines of a block do
        std::uint8_t item = 0;
        Sizes strides{};
        Location location;  // of a load
    };
    class Assignment;
    class Run;

    void choose_blocks();
    void classify(const Region& region);

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
    std::vector<Location> locations_;          // of the instructions' results
    std::vector<Location> operand_locations_;  // by operand
    std::vector<Location> store_locations_;    // by store: what it takes
    std::vector<std::int32_t> states_;   // by instruction: the register of a reduction's states, else -1
    std::vector<Operation> before_;      // once a part
    std::vector<Operation> pieces_;      // for every piece
    std::vector<Operation> after_;       // once all parts are done
    std::vector<std::size_t> offsets_;   // of the registers
    std::size_t states_bytes_ = 0;       // of one row's reductions
};

}  // namespace dmlgraph::cpu
