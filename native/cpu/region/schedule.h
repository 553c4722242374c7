// How a region runs on memory of certain strides: in which blocks, with which operations, and where values lie
// meanwhile.
//
// Every region is gone through row by row. With reductions, a row is what they reduce. Without, it is what suits the
// memory: the last dimension if that is long, else the whole domain.
//
// A block is `width` rows, taken in pieces of `piece` elements of each row; `part` of those go to a worker at a time.
// Meanwhile values lie packed, row after row: in registers, which stay in the nearest cache, or in the memory of a load
// or store whose block lies so anyway.
// - Columns: the elements of neighbouring rows lie side by side (a reduction over leading dimensions). A piece holds as
//   many lines as it has elements of a row, each with an element of every row of the block. Where lines are short, a
//   block is several groups of rows, one behind the other, each with lines of its own.
// - Tiles: some tensor is transposed. A piece is a rectangle of two dimensions, so that it uses the whole of every
// cache
//   line it touches.
// - Long rows: a reduction's row that does not fit is taken in pieces, and then no wide result may depend on what its
// own
//   row comes to. Where there are few such rows, their parts are shared between the workers, the states of whose
//   reductions are merged afterwards. How rows are cut depends on sizes alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/quotient.h"
#include "cpu/region/region.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// Which elements a value has: one for all, those of a row that all rows have in common (or of a period of the domain),
// one for each row, or all.
enum class Breadth : std::uint8_t { scalar, fixed, narrow, wide };

// Where a value lies while a block is computed.
struct Location {
    enum class Kind : std::uint8_t {
        none,    // nowhere: nobody wants it
        scalar,  // computed once, one element for all
        memory,  // in the memory of a load or store
        scratch  // in a register: a piece of a worker's scratch memory
    } kind = Kind::none;
    std::int32_t index = 0;  // of the scalar, of the load or store, of the register

    bool operator==(const Location&) const = default;
};

// A load, or after those a store.
struct Stream {
    Breadth breadth{};
    bool direct = false;     // a block lies side by side
    bool lined = false;      // the lines of a block of columns do, or the rows of a tile
    bool streaming = false;  // written past the caches
    std::uint8_t item = 0;   // bytes of an element
    std::int64_t step = 0;   // bytes from an element of a row to the next where it is read or written in place
    Sizes strides{};
    Sizes jumps{};  // bytes to the next row where this dimension goes on and those behind it begin anew
};

struct Register {
    std::size_t bytes;  // of an element of a wide one, of all of a narrow one
    bool is_wide;
    std::size_t offset = 0;  // in the scratch memory
};

struct ScheduledOperand {
    Location location;
    bool single;  // one element, which the kernel repeats
    // Bytes from row to row, for what is executed by row: those of each element of a row, and more.
    std::int64_t item = 0;
    std::int64_t step = 0;
};

// Repeats the element of a scalar, or each element of what is narrow.
struct Spread {
    Location from;
    Location to;
    Breadth source;
    bool is_wide;  // else there is one element for each row
    std::uint8_t item;
};

struct ScheduledOperation {
    enum class Kind : std::uint8_t { gather, spread, execute, start, take, finish, store } kind;
    bool narrow;         // on one element of each row
    bool once;           // the same in every block
    std::int32_t index;  // of the load, spread, instruction or store
    // Executed for one row after the other: the kernel repeats what is narrow, or the rows of a tile lie in memory.
    bool by_row = false;
};

// How the rows of a domain are cut into blocks and pieces, and how loads and stores lie in these.
struct Blocking {
    enum class Mode : std::uint8_t { rows, columns, tiles } mode = Mode::rows;
    // The domain without the dimensions that go on where others end, in all loads and stores: those of rows, of which
    // there may be none, and those of a row.
    int rank = 0;
    int kept = 0;
    Sizes sizes{};
    std::int64_t rows = 1;
    std::int64_t length = 1;  // of a row
    bool is_long = false;
    std::int64_t line = 1;   // rows among which blocks are cut: all, or those along the last of their dimensions
    std::int64_t width = 1;  // rows of a block
    std::int64_t group = 0;  // … of columns that has several groups: rows of each, else 0
    std::int64_t piece = 1;  // elements of a row that are taken at a time
    std::int64_t part = 1;   // … by one worker
    // How many there are: counted once, because these divisions take long beside short runs.
    std::int64_t line_blocks = 1;
    std::int64_t blocks = 1;
    std::int64_t parts = 1;
    std::vector<Stream> streams;

    bool has_columns() const { return mode == Mode::columns; }
    bool has_tiles() const { return mode == Mode::tiles; }
    // Whether a block is some columns of one line, or all.
    bool has_one_line() const { return has_columns() && group == 0; }
    void count() {
        line_blocks = quotient_up(line, width);
        blocks = rows / line * line_blocks;
        parts = quotient_up(length, part);
    }
    // Bytes from a row of a tile to the next one.
    std::int64_t row_stride(std::int32_t stream) const {
        return streams[static_cast<std::size_t>(stream)].strides[kept - 1];
    }
};

// What is done with a block, and where values lie meanwhile.
struct Operations {
    std::vector<Location> values;  // of the loads, then of the instructions' results
    std::vector<ScheduledOperand> operands;
    std::vector<Location> stored;  // by store: what it takes
    std::vector<Spread> spreads;
    std::vector<std::int32_t> scalars;       // instructions computed once, in order
    std::vector<std::int32_t> reductions;    // instructions
    std::vector<std::int32_t> states;        // by instruction: the register of a reduction's states
    std::vector<ScheduledOperation> before;  // once a part
    std::vector<ScheduledOperation> pieces;  // for every piece
    std::vector<ScheduledOperation> after;   // once all parts are done
    std::vector<Register> registers;
    std::size_t states_bytes = 0;  // of one row's reductions, `aligned_state_bytes` each
};

struct Schedule : Blocking, Operations {
    // Direct loads from beyond the caches, which are asked for one piece ahead. Only with reductions: other regions
    // have too few operations to share that among.
    std::vector<std::int32_t> far;
    std::size_t scratch_bytes = 0;  // of each worker
    double cost = 0;  // about how many bytes go through the instructions: what is worth sharing between threads

    // Memory for the states of reductions whose rows are shared between workers.
    std::size_t shared_state_bytes() const {
        return parts == 1 ? 0 : static_cast<std::size_t>(blocks * parts * width) * states_bytes;
    }
    // In a worker's scratch memory, before the registers.
    std::size_t table_bytes(const Region& region) const;
};

// Of a reduction's state beside those of others.
constexpr std::size_t aligned_state_bytes(const Reduction& reduction) { return (reduction.state_bytes + 7) / 8 * 8; }

// `strides`: of the loads, then of the stores, in bytes, along the region's dimensions.
Schedule make_schedule(const Region& region, const std::vector<Sizes>& strides);

// Whether reductions take rows of so many elements in pieces.
bool is_long_row(std::int64_t length, bool columns);

// Decides the operations of a region that is cut so, where each value lies, and which registers there are.
Operations assign(const Blocking& blocking, const Region& region);

void run(const Schedule& schedule, const Region& region, RunContext& context, const RegionMemory& memory);

}  // namespace dmlgraph::cpu
