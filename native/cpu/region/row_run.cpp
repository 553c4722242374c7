#include "cpu/region/row_schedule.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::size_t most_operands = 4;

// Each element `count` times, `step` elements apart.
template <class T>
void repeat(T* out, const T* in, std::int64_t width, std::int64_t count, std::int64_t step) {
    for (std::int64_t k = 0; k < width; ++k, out += count) {
        std::fill_n(out, count, in[k * step]);
    }
}

void repeat(std::byte* out, const std::byte* in, std::int64_t width, std::int64_t count, std::int64_t step, int item) {
    const auto as = [&]<class T>(T*) {
        repeat(reinterpret_cast<T*>(out), reinterpret_cast<const T*>(in), width, count, step);
    };
    switch (item) {
        case 1: as(static_cast<std::uint8_t*>(nullptr)); break;
        case 2: as(static_cast<std::uint16_t*>(nullptr)); break;
        case 4: as(static_cast<std::uint32_t*>(nullptr)); break;
        default: as(static_cast<std::uint64_t*>(nullptr)); break;
    }
}

}  // namespace

// One worker's part of a run.
class RowSchedule::Run {
public:
    Run(const RowSchedule& schedule, const Region& region, std::byte* const* bases, std::byte* scratch, std::byte* states)
        : schedule_(schedule),
          region_(region),
          bases_(bases),
          scratch_(scratch),
          states_(states),
          rows_(reinterpret_cast<std::byte**>(scratch)) {}

    void run_pieces(Chunks& chunks) {
        std::int64_t first = 0, last = 0;
        while (chunks.next(first, last)) {
            for (std::int64_t each = first; each < last; ++each) {
                const std::int64_t part = each % schedule_.parts_;
                enter(each / schedule_.parts_);
                from_ = part * schedule_.part_;
                perform(schedule_.before_);
                const std::int64_t end = std::min(from_ + schedule_.part_, schedule_.length_);
                for (; from_ < end; from_ += count_) {
                    count_ = std::min(schedule_.piece_, end - from_);
                    perform(schedule_.pieces_);
                }
                if (schedule_.parts_ == 1) {
                    perform(schedule_.after_);
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
                for (std::int64_t part = 0; part < schedule_.parts_; ++part) {
                    each_state(block * schedule_.parts_ + part,
                               [&](const Reduction& reduction, std::byte* state, std::byte* kept, std::size_t bytes) {
                                   if (part == 0) {
                                       std::memcpy(state, kept, bytes);
                                   } else {
                                       reduction.merge(state, kept, static_cast<std::size_t>(width_));
                                   }
                               });
                }
                perform(schedule_.after_);
            }
        }
    }

private:
    void enter(std::int64_t block) {
        const std::int64_t per_line = (schedule_.line_ + schedule_.width_ - 1) / schedule_.width_;
        const std::int64_t start = block % per_line * schedule_.width_;
        width_ = std::min(schedule_.width_, schedule_.line_ - start);
        row_ = block / per_line * schedule_.line_ + start;
        Sizes at{};
        std::int64_t row = row_;
        for (int d = schedule_.kept_ - 1; d >= 0; --d) {
            at[d] = row % schedule_.sizes_[d];
            row /= schedule_.sizes_[d];
        }
        for (std::size_t s = 0; s < schedule_.streams_.size(); ++s) {
            rows_[s] = bases_[s];
            for (int d = 0; d < schedule_.kept_; ++d) {
                rows_[s] += at[d] * schedule_.streams_[s].strides[d];
            }
        }
        if (width_ != made_for_) {
            made_for_ = 0;
        }
    }

    void perform(const std::vector<Operation>& operations) {
        for (const Operation& operation : operations) {
            if (operation.once && made_for_ != 0) {
                continue;
            }
            switch (operation.kind) {
                case Kind::gather: gather_load(operation.index); break;
                case Kind::spread: spread(operation); break;
                case Kind::execute: execute(operation.index); break;
                case Kind::start: {
                    const RegionInstruction& instruction = region_.instructions[operation.index];
                    instruction.reduction->start(state(operation.index), static_cast<std::size_t>(width_));
                    break;
                }
                case Kind::take: take(operation.index); break;
                case Kind::finish: {
                    const RegionInstruction& instruction = region_.instructions[operation.index];
                    instruction.reduction->finish(state(operation.index), address(schedule_.locations_[operation.index]),
                                                  static_cast<std::size_t>(width_),
                                                  static_cast<std::uint64_t>(schedule_.length_));
                    break;
                }
                case Kind::store: store(operation.index); break;
            }
        }
        if (&operations == &schedule_.pieces_) {
            made_for_ = width_;
        }
    }

    std::byte* address(const Location& location) const {
        if (location.kind != Location::Kind::memory) {
            return scratch_ + schedule_.offsets_[location.index];
        }
        const Stream& stream = schedule_.streams_[location.index];
        if (stream.access == Access::scalar || stream.access == Access::narrow) {
            return rows_[location.index];
        }
        return rows_[location.index] + from_ * (schedule_.columns_ ? stream.strides[schedule_.kept_] : stream.item);
    }

    std::byte* state(std::int32_t instruction) const {
        return scratch_ + schedule_.offsets_[schedule_.states_[instruction]];
    }

    template <class Function>
    void each_state(std::int64_t part, const Function& function) {
        const auto width = static_cast<std::size_t>(schedule_.width_);
        std::byte* kept = states_ + static_cast<std::size_t>(part) * width * schedule_.states_bytes_;
        for (std::size_t i = 0; i < region_.instructions.size(); ++i) {
            if (const Reduction* const reduction = region_.instructions[i].reduction) {
                function(*reduction, state(static_cast<std::int32_t>(i)), kept, width * reduction->state_bytes);
                kept += width * reduction->state_bytes;
            }
        }
    }

    void execute(std::int32_t index) {
        const RegionInstruction& instruction = region_.instructions[index];
        std::array<Operand, most_operands> operands;
        for (std::int32_t k = 0; k < instruction.operand_count; ++k) {
            const Location& location = schedule_.operand_locations_[instruction.first_operand + k];
            operands[k] = {address(location), single(location, instruction.narrow)};
        }
        const std::int64_t first = instruction.narrow ? row_ : row_ * schedule_.length_ + from_;
        const std::int64_t count = instruction.narrow ? width_ : width_ * count_;
        instruction.kernel({address(schedule_.locations_[index]), operands.data(), static_cast<std::size_t>(count),
                            region_.immediates.data() + instruction.first_immediate, static_cast<std::uint64_t>(first)});
    }

    // Whether a kernel repeats the operand: what is narrow is so for a wide consumer, else it would have been spread.
    bool single(const Location& location, bool narrow) const {
        if (location.kind == Location::Kind::wide) {
            return false;
        }
        if (location.kind == Location::Kind::narrow) {
            return !narrow;
        }
        const auto s = static_cast<std::size_t>(location.index);
        const Access access = schedule_.streams_[s].access;
        return access == Access::scalar || (access == Access::narrow && !narrow);
    }

    void take(std::int32_t index) {
        const RegionInstruction& instruction = region_.instructions[index];
        const Location& location = schedule_.operand_locations_[instruction.first_operand];
        const auto first = static_cast<std::uint64_t>(from_);
        const auto width = static_cast<std::size_t>(width_), count = static_cast<std::size_t>(count_);
        if (!schedule_.columns_) {
            instruction.reduction->rows(state(index), address(location), width, count, first);
            return;
        }
        const Reference& operand = region_.operands[instruction.first_operand];
        const auto item = static_cast<std::int64_t>(item_size(region_.type(operand)));
        const bool memory = location.kind == Location::Kind::memory;
        const std::int64_t stride = memory ? schedule_.streams_[location.index].strides[schedule_.kept_] : width_ * item;
        instruction.reduction->columns(state(index), address(location), stride, width, count, first);
    }

    void spread(const Operation& operation) {
        const Reference& source = operation.source;
        const bool scalar = source.load && schedule_.streams_[source.index].access == Access::scalar;
        const int item = static_cast<int>(item_size(region_.type(source)));
        const std::byte* const in = address(source.load ? schedule_.streams_[source.index].location
                                                        : schedule_.locations_[source.index]);
        std::byte* out = scratch_ + schedule_.offsets_[operation.index];
        if (!schedule_.columns_ || scalar) {
            repeat(out, in, scalar ? 1 : width_, scalar ? width_ * count_ : count_, scalar ? 0 : 1, item);
            return;
        }
        const auto bytes = static_cast<std::size_t>(width_ * item);
        for (std::int64_t i = 0; i < count_; ++i, out += bytes) {
            std::memcpy(out, in, bytes);
        }
    }

    // A block of columns: lines of as many elements as it has rows.
    std::pair<Sizes, Sizes> lines(const Stream& stream) const {
        std::pair<Sizes, Sizes> result;
        const int row_rank = schedule_.rank_ - schedule_.kept_;
        std::copy_n(schedule_.sizes_.begin() + schedule_.kept_, row_rank, result.first.begin());
        std::copy_n(stream.strides.begin() + schedule_.kept_, row_rank, result.second.begin());
        result.first[row_rank] = width_;
        result.second[row_rank] = stream.strides[schedule_.kept_ - 1];
        return result;
    }

    void gather_load(std::int32_t load) {
        const Stream& stream = schedule_.streams_[load];
        std::byte* const to = address(stream.location);
        const int kept = schedule_.kept_, rank = schedule_.rank_;
        if (stream.access == Access::narrow && schedule_.columns_) {
            gather_line(to, rows_[load], stream.strides[kept - 1], width_, stream.item);
        } else if (stream.access == Access::narrow) {
            gather(to, bases_[load], kept, schedule_.sizes_, stream.strides, row_, width_, stream.item);
        } else if (schedule_.columns_) {
            const auto [sizes, strides] = lines(stream);
            gather(to, rows_[load], rank - kept + 1, sizes, strides, from_ * width_, count_ * width_, stream.item);
        } else {
            gather(to, bases_[load], rank, schedule_.sizes_, stream.strides, row_ * schedule_.length_ + from_,
                   width_ * count_, stream.item);
        }
    }

    void store(std::int32_t store) {
        const std::size_t s = region_.loads.size() + static_cast<std::size_t>(store);
        const Stream& stream = schedule_.streams_[s];
        const std::byte* const from = address(schedule_.store_locations_[store]);
        const int kept = schedule_.kept_, rank = schedule_.rank_;
        if (stream.streaming) {
            std::byte* const to = address({Location::Kind::memory, static_cast<std::int32_t>(s)});
            stream_copy(to, from, static_cast<std::size_t>(width_ * count_ * stream.item));
            streamed_ = true;
        } else if (region_.stores[store].narrow && schedule_.columns_) {
            scatter_line(rows_[s], stream.strides[kept - 1], from, width_, stream.item);
        } else if (region_.stores[store].narrow) {
            scatter(bases_[s], kept, schedule_.sizes_, stream.strides, from, row_, width_, stream.item);
        } else if (schedule_.columns_) {
            const auto [sizes, strides] = lines(stream);
            scatter(rows_[s], rank - kept + 1, sizes, strides, from, from_ * width_, count_ * width_, stream.item);
        } else {
            scatter(bases_[s], rank, schedule_.sizes_, stream.strides, from, row_ * schedule_.length_ + from_,
                    width_ * count_, stream.item);
        }
    }

    const RowSchedule& schedule_;
    const Region& region_;
    std::byte* const* bases_;
    std::byte* scratch_;
    std::byte* states_;
    std::byte** rows_;
    std::int64_t row_ = 0;     // the block's first
    std::int64_t width_ = 0;   // its rows
    std::int64_t from_ = 0;    // the piece's first element of each row
    std::int64_t count_ = 0;
    std::int64_t made_for_ = 0;  // the width for which was made what is the same in every block; 0: not yet
    bool streamed_ = false;
};

void RowSchedule::run(const Region& region, RunContext& context, const RegionMemory& memory) const {
    const auto share = [&](std::int64_t count, double cost, void (Run::*work)(Chunks&)) {
        context.parallel(count, cost, [&](int worker, Chunks& chunks) {
            Run run(*this, region, memory.bases, memory.scratch_of(worker), memory.states);
            (run.*work)(chunks);
        });
    };
    share(blocks_ * parts_, cost_, &Run::run_pieces);
    if (parts_ > 1) {
        share(blocks_, static_cast<double>(state_bytes()), &Run::run_joins);
    }
}

}  // namespace dmlgraph::cpu
