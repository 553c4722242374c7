// How a worker goes through the blocks of a schedule.
#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/compiler.h"
#include "cpu/region/schedule.h"
#include "cpu/runtime/cache_line.h"
#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {
namespace {

// Inline, as what calls it: GCC finds that a function which only prefetches has no effect, and leaves out calls of it.
DMLGRAPH_INLINE void prefetch_lines(const std::byte* first, std::int64_t bytes) {
    for (std::int64_t at = 0; at < bytes; at += cache_line) {
        prefetch(first + at);
    }
}

// A pointer that moves with the pieces.
struct Patch {
    const void** where;
    std::byte* const* row;
    std::int64_t step;  // of the stream
};

// A worker's tables, in its scratch memory.
struct Tables {
    Call* calls;
    Operand* operands;
    std::byte** rows;  // by stream: where the block begins
    Patch* patches;
    std::uint64_t* scalars;
    std::size_t bytes = 0;

    Tables(std::byte* memory, const Schedule& schedule, const Region& region) {
        const auto take = [&]<class T>(T*& table, std::size_t count) {
            table = reinterpret_cast<T*>(memory + bytes);
            bytes += align_to_line(count * sizeof(T));
        };
        take(calls, region.instructions.size());
        take(operands, region.operands.size());
        take(rows, schedule.streams.size());
        take(patches, region.operands.size() + region.instructions.size());
        take(scalars, schedule.scalars.size());
    }
};

// One worker's part of a run: the calls with their pointers, in its scratch memory.
class WorkerRun {
public:
    WorkerRun(const Schedule& schedule, const Region& region, const RegionMemory& memory, int worker)
        : schedule_(schedule),
          region_(region),
          bases_(memory.bases),
          states_(memory.states),
          scratch_(memory.scratch_of(worker)),
          tables_(scratch_, schedule, region) {
        std::copy_n(bases_, schedule.streams.size(), tables_.rows);
        link();
        for (const std::int32_t i : schedule.scalars) {
            execute(i, 1, 0);
        }
    }

    void run_parts(Chunks& chunks) {
        std::int64_t first = 0, last = -1;
        for (std::int64_t before = -1; chunks.next(first, last); before = last) {
            for (std::int64_t each = first; each < last; ++each) {
                each == first&& first != before ? go_to(each) : go_on();
                perform(schedule_.before);
                const std::int64_t end = std::min(from_ + schedule_.part, schedule_.length);
                for (; from_ < end; from_ += count_) {
                    count_ = std::min(schedule_.piece, end - from_);
                    run_piece();
                }
                if (schedule_.parts == 1) {
                    perform(schedule_.after);
                } else {
                    each_state(each, [](const Reduction&, std::byte* state, std::byte* kept, std::size_t bytes) {
                        std::memcpy(kept, state, bytes);
                    });
                }
            }
        }
        if (streamed_) {
            finish_streams();
        }
    }

    void run_joins(Chunks& chunks) {
        std::int64_t first = 0, last = 0;
        while (chunks.next(first, last)) {
            for (std::int64_t block = first; block < last; ++block) {
                enter(block);
                patch();
                for (std::int64_t part = 0; part < schedule_.parts; ++part) {
                    each_state(block * schedule_.parts + part,
                               [&](const Reduction& reduction, std::byte* state, std::byte* kept, std::size_t bytes) {
                                   if (part == 0) {
                                       std::memcpy(state, kept, bytes);
                                   } else {
                                       reduction.merge(state, kept, static_cast<std::size_t>(width_));
                                   }
                               });
                }
                perform(schedule_.after);
            }
        }
    }

private:
    using Kind = ScheduledOperation::Kind;

    std::byte* address(const Location& location) const {
        switch (location.kind) {
            case Location::Kind::scalar: return reinterpret_cast<std::byte*>(tables_.scalars + location.index);
            case Location::Kind::memory: return now(location.index);
            case Location::Kind::scratch: return scratch_ + schedule_.registers[location.index].offset;
            default: return nullptr;
        }
    }

    // Where a piece begins in a stream that is read or written in place.
    std::byte* now(std::int32_t stream) const { return tables_.rows[stream] + from_ * schedule_.streams[stream].step; }

    void point(const void** where, const Location& location) {
        *where = address(location);
        if (location.kind == Location::Kind::memory && schedule_.streams[location.index].breadth != Breadth::scalar) {
            const Stream& stream = schedule_.streams[location.index];
            tables_.patches[patch_count_++] = {where, tables_.rows + location.index, stream.step};
        }
    }

    void link() {
        for (std::size_t k = 0; k < region_.operands.size(); ++k) {
            tables_.operands[k].scalar = schedule_.operands[k].single;
            point(&tables_.operands[k].data, schedule_.operands[k].location);
        }
        for (std::size_t i = 0; i < region_.instructions.size(); ++i) {
            const RegionInstruction& instruction = region_.instructions[i];
            tables_.calls[i].in = tables_.operands + instruction.first_operand;
            tables_.calls[i].immediates = region_.immediates.data() + instruction.first_immediate;
            point(const_cast<const void**>(&tables_.calls[i].out), schedule_.values[region_.loads.size() + i]);
        }
    }

    void patch() {
        for (std::int32_t p = 0; p < patch_count_; ++p) {
            *tables_.patches[p].where = *tables_.patches[p].row + from_ * tables_.patches[p].step;
        }
    }

    // To a part of a block, and to the next one.
    void go_to(std::int64_t number) {
        part_ = number % schedule_.parts;
        enter(number / schedule_.parts);
    }

    void go_on() {
        if (++part_ < schedule_.parts) {
            from_ = part_ * schedule_.part;
        } else if (part_ = 0; schedule_.width > 1) {
            enter(block_ + 1);
        } else {
            next_row();
        }
    }

    void enter(std::int64_t block) {
        const std::int64_t start = block % schedule_.line_blocks * schedule_.width;
        block_ = block;
        width_ = std::min(schedule_.width, schedule_.line - start);
        row_ = block / schedule_.line_blocks * schedule_.line + start;
        from_ = part_ * schedule_.part;
        std::int64_t row = row_;
        for (int d = schedule_.kept - 1; d >= 0; --d) {
            at_[d] = row % schedule_.sizes[d];
            row /= schedule_.sizes[d];
        }
        for (std::size_t s = 0; s < schedule_.streams.size(); ++s) {
            tables_.rows[s] = bases_[s];
            for (int d = 0; d < schedule_.kept; ++d) {
                tables_.rows[s] += at_[d] * schedule_.streams[s].strides[d];
            }
        }
    }

    // Without the divisions: rows may be short.
    void next_row() {
        ++block_;
        ++row_;
        from_ = 0;
        int d = schedule_.kept - 1;
        while (d >= 0 && ++at_[d] == schedule_.sizes[d]) {
            at_[d--] = 0;
        }
        for (std::size_t s = 0; d >= 0 && s < schedule_.streams.size(); ++s) {
            tables_.rows[s] += schedule_.streams[s].jumps[d];
        }
    }

    void run_piece() {
        patch();
        // What is the same in every block is there for all blocks that are no larger; lines of columns are as long as
        // their block is wide, those of tiles as a piece.
        const std::int64_t elements = width_ * count_;
        const bool is_made = schedule_.has_columns() || schedule_.has_tiles() ? made_ == elements : made_ >= elements;
        std::int64_t part = 0;
        for (const ScheduledOperation& operation : schedule_.pieces) {
            if (!schedule_.far.empty()) {
                look_ahead(part++);
            }
            if (!operation.once || !is_made) {
                perform(operation);
            }
        }
        made_ = is_made ? made_ : elements;
    }

    void perform(const std::vector<ScheduledOperation>& operations) {
        for (const ScheduledOperation& operation : operations) {
            perform(operation);
        }
    }

    // Apart from what is rarer, so that short rows have no call for it.
    void perform(const ScheduledOperation& operation) {
        if (operation.kind != Kind::execute) {
            move_or_reduce(operation.kind, operation.index);
        } else if (operation.narrow) {
            execute(operation.index, width_, row_);
        } else if (operation.by_row) {
            execute_rows(operation.index);
        } else {
            execute(operation.index, width_ * count_, row_ * schedule_.length + from_);
        }
    }

    void move_or_reduce(Kind kind, std::int32_t index) {
        switch (kind) {
            case Kind::gather: return gather_load(index);
            case Kind::spread: return spread(schedule_.spreads[index]);
            case Kind::execute: return;
            case Kind::start: return reduction(index).start(state(index), as_size(width_));
            case Kind::take: return take(index);
            case Kind::finish:
                return reduction(index).finish(state(index), tables_.calls[index].out, as_size(width_),
                                               static_cast<std::uint64_t>(schedule_.length));
            case Kind::store: return store(index);
        }
    }

    // Asks for a part of the next piece's operands: a part with each operation, since only few requests can be under
    // way at a time.
    DMLGRAPH_INLINE void look_ahead(std::int64_t part) const {
        const auto parts = static_cast<std::int64_t>(schedule_.pieces.size());
        for (const std::int32_t load : schedule_.far) {
            const std::int64_t bytes = width_ * count_ * schedule_.streams[load].item;
            const auto cut = [&](std::int64_t at) {
                return bytes * at / parts & ~static_cast<std::int64_t>(cache_line - 1);
            };
            prefetch_lines(now(load) + bytes + cut(part), cut(part + 1) - cut(part));
        }
    }

    static std::size_t as_size(std::int64_t count) { return static_cast<std::size_t>(count); }

    const Reduction& reduction(std::int32_t instruction) const { return *region_.instructions[instruction].reduction; }

    std::byte* state(std::int32_t instruction) const {
        return scratch_ + schedule_.registers[schedule_.states[instruction]].offset;
    }

    template <class Function>
    void each_state(std::int64_t part, const Function& function) {
        const std::size_t width = as_size(schedule_.width);
        std::byte* kept = states_ + as_size(part) * width * schedule_.states_bytes;
        for (const std::int32_t i : schedule_.reductions) {
            function(reduction(i), state(i), kept, width * reduction(i).state_bytes);
            kept += width * aligned_state_bytes(reduction(i));
        }
    }

    void execute(std::int32_t index, std::int64_t count, std::int64_t first) {
        Call& call = tables_.calls[index];
        call.count = as_size(count);
        call.first = static_cast<std::uint64_t>(first);
        region_.instructions[index].kernel(call);
    }

    void execute_rows(std::int32_t index) {
        const RegionInstruction& instruction = region_.instructions[index];
        const Location& out = schedule_.values[region_.loads.size() + as_size(index)];
        Call& call = tables_.calls[index];
        const bool apart = schedule_.has_tiles() && out.kind == Location::Kind::memory;
        const std::int64_t out_step =
            apart ? schedule_.row_stride(out.index) : count_ * static_cast<std::int64_t>(item_size(instruction.result));
        const auto move_on = [&](std::int64_t rows) {
            call.out = static_cast<std::byte*>(call.out) + rows * out_step;
            for (std::int32_t k = instruction.first_operand; k < instruction.first_operand + instruction.operand_count;
                 ++k) {
                const ScheduledOperand& each = schedule_.operands[k];
                const void*& data = tables_.operands[k].data;
                data = static_cast<const std::byte*>(data) + rows * (each.step + count_ * each.item);
            }
        };
        for (std::int64_t row = 0; row < width_; ++row, move_on(1)) {
            execute(index, count_, (row_ + row) * count_);
        }
        move_on(-width_);
    }

    // The rows whose elements lie side by side in registers: a line of columns.
    std::int64_t line() const { return schedule_.group != 0 ? schedule_.group : width_; }

    void take(std::int32_t index) {
        const Reduction& to = reduction(index);
        const std::int32_t at = region_.instructions[index].first_operand;
        const Location& location = schedule_.operands[at].location;
        const auto* in = static_cast<const std::byte*>(tables_.operands[at].data);
        std::byte* const states = state(index);
        const auto first = static_cast<std::uint64_t>(from_);
        if (!schedule_.has_columns()) {
            return to.rows(states, in, as_size(width_), as_size(count_), first);
        }
        const bool in_place = location.kind == Location::Kind::memory && schedule_.has_one_line();
        const auto item = static_cast<std::int64_t>(item_size(region_.type(region_.operands[at])));
        const std::int64_t rows = line(), stride = in_place ? schedule_.streams[location.index].step : rows * item;
        for (std::int64_t row = 0; row < width_; row += rows, in += rows * item * count_) {
            to.columns(states + as_size(row) * to.state_bytes, in, stride, as_size(rows), as_size(count_), first);
        }
    }

    void spread(const Spread& spread) {
        const std::byte* const in = address(spread.from);
        std::byte* out = address(spread.to);
        const std::int64_t count = spread.is_wide ? count_ : 1;
        if (spread.source == Breadth::scalar) {
            fill_line(out, in, width_ * count, spread.item);
        } else if (!schedule_.has_columns()) {
            repeat(out, in, width_, count, spread.item);
        } else {
            const std::int64_t rows = line();
            for (std::int64_t row = 0; row < width_; row += rows, out += rows * count * spread.item) {
                repeat_line(out, in + row * spread.item, rows * spread.item, count);
            }
        }
    }

    // Where a block of a stream lies in memory that is not read or written in place: calls line(first, stride, count),
    // or elements(base, rank, sizes, strides, first, count) with the elements first … first + count − 1 in the order of
    // registers.
    template <class Line, class Elements>
    void locate(std::int32_t s, const Line& line, const Elements& elements) const {
        const Stream& stream = schedule_.streams[s];
        const bool narrow = stream.breadth == Breadth::narrow, one_line = schedule_.has_one_line();
        const int kept = schedule_.kept, rank = schedule_.rank;
        if (stream.direct) {
            return line(now(s), stream.item, narrow ? width_ : width_ * count_);
        }
        if (narrow) {
            return one_line ? line(tables_.rows[s], stream.strides[kept - 1], width_)
                            : elements(bases_[s], kept, schedule_.sizes, stream.strides, row_, width_);
        }
        if (!schedule_.has_columns()) {
            return schedule_.width == 1 && rank == kept + 1
                       ? line(tables_.rows[s] + from_ * stream.strides[kept], stream.strides[kept], count_)
                       : elements(bases_[s], rank, schedule_.sizes, stream.strides, row_ * schedule_.length + from_,
                                  width_ * count_);
        }
        Sizes sizes = schedule_.sizes, strides = stream.strides;  // of groups, their lines, and the elements of those
        for (Sizes* const each : {&sizes, &strides}) {
            std::rotate(each->begin() + kept - 1, each->begin() + kept, each->begin() + rank);
        }
        if (!one_line) {
            return elements(bases_[s], rank, sizes, strides, row_ * schedule_.length + from_, width_ * count_);
        }
        sizes[rank - 1] = width_;
        std::fill_n(sizes.begin(), kept - 1, 1);
        elements(tables_.rows[s], rank, sizes, strides, from_ * width_, width_ * count_);
    }

    Tile tile(std::int32_t s) const {
        const Sizes& strides = schedule_.streams[s].strides;
        const int kept = schedule_.kept;
        return {tables_.rows[s] + from_ * strides[kept], strides[kept - 1], strides[kept], width_, count_};
    }

    void gather_load(std::int32_t load) {
        std::byte* const to = address(schedule_.values[load]);
        const int item = schedule_.streams[load].item;
        if (schedule_.has_tiles() && schedule_.streams[load].breadth != Breadth::narrow) {
            return gather_tile(to, tile(load), item);
        }
        locate(
            load,
            [&](const std::byte* first, std::int64_t stride, std::int64_t count) {
                gather_line(to, first, stride, count, item);
            },
            [&](const std::byte* base, int rank, const Sizes& sizes, const Sizes& strides, std::int64_t first,
                std::int64_t count) { gather(to, base, rank, sizes, strides, first, count, item); });
    }

    void store(std::int32_t index) {
        const auto s = static_cast<std::int32_t>(region_.loads.size()) + index;
        const std::byte* const from = address(schedule_.stored[index]);
        const int item = schedule_.streams[s].item;
        if (schedule_.streams[s].streaming) {
            stream_copy(now(s), from, as_size(width_ * count_ * item));
            streamed_ = true;
            return;
        }
        if (schedule_.has_tiles()) {
            return scatter_tile(tile(s), from, item);
        }
        locate(
            s,
            [&](std::byte* first, std::int64_t stride, std::int64_t count) {
                scatter_line(first, stride, from, count, item);
            },
            [&](std::byte* base, int rank, const Sizes& sizes, const Sizes& strides, std::int64_t first,
                std::int64_t count) { scatter(base, rank, sizes, strides, from, first, count, item); });
    }

    const Schedule& schedule_;
    const Region& region_;
    std::byte* const* bases_;
    std::byte* states_;
    std::byte* scratch_;
    const Tables tables_;
    std::int32_t patch_count_ = 0;
    std::int64_t block_ = 0;
    Sizes at_{};  // of the block's first row, along the dimensions of rows
    std::int64_t row_ = 0;
    std::int64_t width_ = 1;  // rows of the block
    std::int64_t part_ = 0;
    std::int64_t from_ = 0;   // the piece's first element of each row
    std::int64_t count_ = 0;  // its elements of each row
    std::int64_t made_ = 0;   // elements for which was made what is the same in every block
    bool streamed_ = false;
};

}  // namespace

std::size_t Schedule::table_bytes(const Region& region) const { return Tables(nullptr, *this, region).bytes; }

void run(const Schedule& schedule, const Region& region, RunContext& context, const RegionMemory& memory) {
    const auto share = [&](std::int64_t count, double cost, void (WorkerRun::*work)(Chunks&)) {
        context.parallel(count, cost, [&](int worker, Chunks& chunks) {
            WorkerRun run(schedule, region, memory, worker);
            (run.*work)(chunks);
        });
    };
    share(schedule.blocks * schedule.parts, schedule.cost, &WorkerRun::run_parts);
    if (schedule.parts > 1 && !schedule.after.empty()) {
        share(schedule.blocks, static_cast<double>(schedule.shared_state_bytes()), &WorkerRun::run_joins);
    }
}

}  // namespace dmlgraph::cpu
