#include "cpu/region/element_schedule.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cpu/compiler.h"
#include "cpu/runtime/cache_line.h"
#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {
namespace {

void prefetch_lines(const std::byte* first, std::int64_t bytes) {
    for (std::int64_t at = 0; at < bytes; at += cache_line) {
        prefetch(first + at);
    }
}

}  // namespace

// One worker's part of a run: the calls with their pointers, in its scratch memory.
class ElementSchedule::Run {
public:
    Run(const ElementSchedule& schedule, const Region& region, std::byte* const* bases, std::byte* scratch)
        : schedule_(schedule), region_(region), bases_(bases), scratch_(scratch) {
        const auto piece = [&scratch](std::size_t size) { return std::exchange(scratch, scratch + align_to_line(size)); };
        calls_ = reinterpret_cast<Call*>(piece(region.instructions.size() * sizeof(Call)));
        operands_ = reinterpret_cast<Operand*>(piece(region.operands.size() * sizeof(Operand)));
        rows_ = reinterpret_cast<std::byte**>(piece(schedule.streams_.size() * sizeof(std::byte*)));
        patches_ = reinterpret_cast<Patch*>(
            piece((region.operands.size() + region.instructions.size()) * sizeof(Patch)));
        scalars_ = reinterpret_cast<std::uint64_t*>(piece(schedule.scalars_.size() * sizeof(std::uint64_t)));
        std::copy_n(bases, schedule.streams_.size(), rows_);
        link();
        for (const std::int32_t i : schedule.scalars_) {
            calls_[i].count = 1;
            region.instructions[i].kernel(calls_[i]);
        }
    }

    void operator()(Chunks& chunks) {
        std::int64_t first = 0, last = 0;
        bool streamed = false;
        while (chunks.next(first, last)) {
            if (schedule_.tile_axis_ >= 0) {
                for (std::int64_t tile = first; tile < last; ++tile) {
                    run_tile(tile);
                }
                continue;
            }
            go_to(first);
            for (std::int64_t block = first; block < last; ++block, next_block()) {
                streamed |= run_block();
            }
        }
        if (streamed) {
            finish_streams();
        }
    }

private:
    struct Patch {
        const void** where;
        std::int32_t stream;
    };
    static_assert(sizeof(Patch) <= 2 * sizeof(void*));

    const void* address(const Location& location) const {
        switch (location.kind) {
            case Location::Kind::scalar: return scalars_ + location.index;
            case Location::Kind::memory: return rows_[location.index];
            case Location::Kind::wide: return scratch_ + schedule_.register_offsets_[location.index];
            default: return nullptr;
        }
    }

    // A pointer that moves with the blocks is patched before each.
    void point(const void** where, const Location& location) {
        *where = address(location);
        if (location.kind == Location::Kind::memory && schedule_.streams_[location.index].access != Access::scalar) {
            patches_[patch_count_++] = {where, location.index};
        }
    }

    const Location& location_of(const Reference& reference) const {
        return reference.load ? schedule_.streams_[reference.index].location : schedule_.locations_[reference.index];
    }

    bool single(const Reference& reference) const {
        const Location& location = location_of(reference);
        if (location.kind == Location::Kind::memory) {
            const Access access = schedule_.streams_[location.index].access;
            return access == Access::scalar || access == Access::row_scalar;
        }
        return location.kind == Location::Kind::scalar;
    }

    void link() {
        for (std::size_t i = 0; i < region_.instructions.size(); ++i) {
            const RegionInstruction& instruction = region_.instructions[i];
            Call& call = calls_[i];
            if (schedule_.locations_[i].kind == Location::Kind::none) {
                continue;
            }
            for (std::int32_t k = 0; k < instruction.operand_count; ++k) {
                const std::size_t at = static_cast<std::size_t>(instruction.first_operand + k);
                operands_[at].scalar = single(region_.operands[at]);
                point(&operands_[at].data, location_of(region_.operands[at]));
            }
            call.in = operands_ + instruction.first_operand;
            call.immediates = region_.immediates.data() + instruction.first_immediate;
            call.first = 0;
            point(const_cast<const void**>(&call.out), schedule_.locations_[i]);
        }
    }

    // To the row and the column where a block begins.
    void go_to(std::int64_t block) {
        row_ = block / schedule_.blocks_per_row_;
        column_ = (block - row_ * schedule_.blocks_per_row_) * schedule_.block_;
        if (schedule_.rows_ == 1) {
            return;
        }
        std::int64_t row = row_;
        for (int d = schedule_.rank_ - 2; d >= 0; --d) {
            at_[d] = row % schedule_.sizes_[d];
            row /= schedule_.sizes_[d];
        }
        for (std::size_t s = 0; s < schedule_.streams_.size(); ++s) {
            std::byte* base = bases_[s];
            for (int d = 0; d < schedule_.rank_ - 1; ++d) {
                base += at_[d] * schedule_.streams_[s].strides[d];
            }
            rows_[s] = base;
        }
    }

    // Without the divisions: rows may be short.
    void next_block() {
        column_ += schedule_.block_;
        if (column_ < schedule_.row_length_ || schedule_.rows_ == 1) {
            return;
        }
        column_ = 0;
        ++row_;
        for (int d = schedule_.rank_ - 2; d >= 0; --d) {
            const bool wraps = ++at_[d] == schedule_.sizes_[d];
            const std::int64_t steps = wraps ? 1 - at_[d] : 1;
            for (std::size_t s = 0; s < schedule_.streams_.size(); ++s) {
                rows_[s] += steps * schedule_.streams_[s].strides[d];
            }
            if (!wraps) {
                return;
            }
            at_[d] = 0;
        }
    }

    bool run_block() {
        const std::int64_t column = column_;
        const std::int64_t count = std::min(schedule_.block_, schedule_.row_length_ - column);
        const std::int64_t first = row_ * schedule_.row_length_ + column;
        for (std::int32_t p = 0; p < patch_count_; ++p) {
            const Stream& stream = schedule_.streams_[patches_[p].stream];
            const std::int64_t step = stream.access == Access::row_scalar ? 0 : column * stream.item;
            *patches_[p].where = rows_[patches_[p].stream] + step;
        }
        bool streamed = false;
        std::int64_t part = 0;
        for (const Operation& operation : schedule_.operations_) {
            if (!schedule_.far_.empty()) {
                look_ahead(column + count, count, part++);
            }
            switch (operation.kind) {
                case Operation::Kind::execute: execute(operation.index, count, first); break;
                case Operation::Kind::gather: gather_block(operation.index, column, count); break;
                case Operation::Kind::store: streamed |= store_block(operation.index, column, count); break;
            }
        }
        full_ = full_ || count == schedule_.block_;
        return streamed;
    }

    void execute(std::int32_t instruction, std::int64_t count, std::int64_t first) {
        Call& call = calls_[instruction];
        call.count = static_cast<std::size_t>(count);
        call.first = static_cast<std::uint64_t>(first);
        region_.instructions[static_cast<std::size_t>(instruction)].kernel(call);
    }

    void run_tile(std::int64_t block) {
        const int axis = schedule_.tile_axis_, last = schedule_.rank_ - 1;
        const Sizes& sizes = schedule_.sizes_;
        const std::int64_t row_tiles = (sizes[axis] + schedule_.tile_rows_ - 1) / schedule_.tile_rows_;
        Sizes at{};
        at[last] = block % schedule_.blocks_per_row_ * schedule_.tile_columns_;
        block /= schedule_.blocks_per_row_;
        at[axis] = block % row_tiles * schedule_.tile_rows_;
        block /= row_tiles;
        for (int d = last - 1; d >= 0; --d) {
            if (d != axis) {
                at[d] = block % sizes[d];
                block /= sizes[d];
            }
        }
        const std::int64_t rows = std::min(schedule_.tile_rows_, sizes[axis] - at[axis]);
        const std::int64_t columns = std::min(schedule_.tile_columns_, sizes[last] - at[last]);
        const auto tile = [&](std::size_t s) {
            const Stream& stream = schedule_.streams_[s];
            std::byte* first = bases_[s];
            for (int d = 0; d <= last; ++d) {
                first += at[d] * stream.strides[d];
            }
            return Tile{first, stream.strides[axis], stream.strides[last], rows, columns};
        };
        for (const Operation& operation : schedule_.operations_) {
            const auto index = static_cast<std::size_t>(operation.index);
            switch (operation.kind) {
                case Operation::Kind::execute: execute(operation.index, rows * columns, 0); break;
                case Operation::Kind::gather: {
                    const Stream& stream = schedule_.streams_[index];
                    gather_tile(now(stream.location, 0), tile(index), stream.item);
                    break;
                }
                case Operation::Kind::store: {
                    const Reference& source = region_.stores[index].source;
                    const std::size_t to = region_.loads.size() + index;
                    scatter_tile(tile(to), now(location_of(source), 0), single(source), schedule_.streams_[to].item);
                    break;
                }
            }
        }
    }

    // Asks for a part of the next block's operands: a part with each operation, since only few requests can be under
    // way at a time.
    void look_ahead(std::int64_t column, std::int64_t count, std::int64_t part) const {
        const auto parts = static_cast<std::int64_t>(schedule_.operations_.size());
        for (const std::int32_t load : schedule_.far_) {
            const std::int64_t item = schedule_.streams_[load].item, bytes = count * item;
            const auto cut = [&](std::int64_t at) { return bytes * at / parts & ~static_cast<std::int64_t>(cache_line - 1); };
            prefetch_lines(rows_[load] + column * item + cut(part), cut(part + 1) - cut(part));
        }
    }

    std::byte* now(const Location& location, std::int64_t column) const {
        std::byte* const start = const_cast<std::byte*>(static_cast<const std::byte*>(address(location)));
        if (location.kind != Location::Kind::memory) {
            return start;
        }
        const Stream& stream = schedule_.streams_[location.index];
        return stream.access == Access::direct ? start + column * stream.item : start;
    }

    void gather_block(std::int32_t load, std::int64_t column, std::int64_t count) {
        const Stream& stream = schedule_.streams_[load];
        if (stream.once && full_) {
            return;
        }
        std::byte* const to = now(stream.location, column);
        const int last = schedule_.rank_ - 1;
        if (stream.access == Access::strided) {
            const std::int64_t stride = stream.strides[last];
            gather_line(to, rows_[load] + column * stride, stride, count, stream.item);
        } else {
            gather(to, rows_[load], schedule_.rank_, schedule_.sizes_, stream.strides, column, count, stream.item);
        }
    }

    bool store_block(std::int32_t store, std::int64_t column, std::int64_t count) {
        const std::size_t index = region_.loads.size() + static_cast<std::size_t>(store);
        const Stream& stream = schedule_.streams_[index];
        const Reference& source = region_.stores[static_cast<std::size_t>(store)].source;
        const std::byte* from = now(location_of(source), column);
        const bool repeated = single(source);
        const int last = schedule_.rank_ - 1;
        if (repeated) {
            if (stream.access == Access::direct) {
                fill_line(rows_[index] + column * stream.item, from, count, stream.item);
                return false;
            }
            for (std::int64_t done = 0; done < count;) {  // pieces of a repeated element
                const std::int64_t length = std::min<std::int64_t>(count - done, repeated_.size() / sizeof(std::uint64_t));
                fill_line(repeated_.data(), from, length, stream.item);
                put(index, repeated_.data(), column + done, length, last);
                done += length;
            }
            return false;
        }
        if (stream.streaming) {
            stream_copy(rows_[index] + column * stream.item, from, static_cast<std::size_t>(count * stream.item));
            return true;
        }
        put(index, from, column, count, last);
        return false;
    }

    void put(std::size_t index, const std::byte* from, std::int64_t column, std::int64_t count, int last) {
        const Stream& stream = schedule_.streams_[index];
        if (stream.access == Access::scattered) {
            scatter(rows_[index], schedule_.rank_, schedule_.sizes_, stream.strides, from, column, count, stream.item);
        } else {
            const std::int64_t stride = stream.strides[last];
            scatter_line(rows_[index] + column * stride, stride, from, count, stream.item);
        }
    }

    const ElementSchedule& schedule_;
    const Region& region_;
    std::byte* const* bases_;
    std::byte* scratch_;
    Call* calls_ = nullptr;
    Operand* operands_ = nullptr;
    std::byte** rows_ = nullptr;
    Patch* patches_ = nullptr;
    std::int32_t patch_count_ = 0;
    std::uint64_t* scalars_ = nullptr;
    std::int64_t row_ = 0;
    std::int64_t column_ = 0;
    Sizes at_{};  // of the row, along the dimensions before the last one
    bool full_ = false;  // whether a whole block has been gathered
    alignas(cache_line) std::array<std::byte, 1024> repeated_;
};

void ElementSchedule::run(const Region& region, RunContext& context, const RegionMemory& memory) const {
    context.parallel(blocks_, cost_, [&](int worker, Chunks& chunks) {
        Run(*this, region, memory.bases, memory.scratch_of(worker))(chunks);
    });
}

}  // namespace dmlgraph::cpu
