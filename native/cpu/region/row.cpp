#include "cpu/region/row.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cpu/runtime/cache_line.h"
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
                    instruction.reduction->finish(state(operation.index), address(schedule_.places_[operation.index]),
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

    std::byte* address(const Place& place) const {
        if (place.kind != Place::Kind::memory) {
            return scratch_ + schedule_.offsets_[place.index];
        }
        const Stream& stream = schedule_.streams_[place.index];
        if (stream.access == Access::scalar || stream.access == Access::narrow) {
            return rows_[place.index];
        }
        return rows_[place.index] + from_ * (schedule_.columns_ ? stream.strides[schedule_.kept_] : stream.item);
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
            const Place& place = schedule_.operand_places_[instruction.first_operand + k];
            operands[k] = {address(place), single(place, instruction.narrow)};
        }
        const std::int64_t first = instruction.narrow ? row_ : row_ * schedule_.length_ + from_;
        const std::int64_t count = instruction.narrow ? width_ : width_ * count_;
        instruction.kernel({address(schedule_.places_[index]), operands.data(), static_cast<std::size_t>(count),
                            region_.immediates.data() + instruction.first_immediate, static_cast<std::uint64_t>(first)});
    }

    // Whether a kernel repeats the operand: what is narrow is so for a wide taker, else it would have been spread.
    bool single(const Place& place, bool narrow) const {
        if (place.kind == Place::Kind::wide) {
            return false;
        }
        if (place.kind == Place::Kind::narrow) {
            return !narrow;
        }
        const auto s = static_cast<std::size_t>(place.index);
        const Access access = schedule_.streams_[s].access;
        return access == Access::scalar || (access == Access::narrow && !narrow);
    }

    void take(std::int32_t index) {
        const RegionInstruction& instruction = region_.instructions[index];
        const Place& place = schedule_.operand_places_[instruction.first_operand];
        const auto first = static_cast<std::uint64_t>(from_);
        const auto width = static_cast<std::size_t>(width_), count = static_cast<std::size_t>(count_);
        if (!schedule_.columns_) {
            instruction.reduction->rows(state(index), address(place), width, count, first);
            return;
        }
        const Reference& operand = region_.operands[instruction.first_operand];
        const auto item = static_cast<std::int64_t>(item_size(operand.load ? region_.loads[operand.index].type
                                                                          : region_.instructions[operand.index].result));
        const bool memory = place.kind == Place::Kind::memory;
        const std::int64_t stride = memory ? schedule_.streams_[place.index].strides[schedule_.kept_] : width_ * item;
        instruction.reduction->columns(state(index), address(place), stride, width, count, first);
    }

    void spread(const Operation& operation) {
        const Reference& source = operation.source;
        const bool scalar = source.load && schedule_.streams_[source.index].access == Access::scalar;
        const DataType type = source.load ? region_.loads[source.index].type : region_.instructions[source.index].result;
        const int item = static_cast<int>(item_size(type));
        const std::byte* const in = address(source.load ? schedule_.streams_[source.index].place
                                                        : schedule_.places_[source.index]);
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
        std::byte* const to = address(stream.place);
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
        const std::byte* const from = address(schedule_.store_places_[store]);
        const int kept = schedule_.kept_, rank = schedule_.rank_;
        if (stream.streaming) {
            std::byte* const to = address({Place::Kind::memory, static_cast<std::int32_t>(s)});
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

void RowSchedule::run(const Region& region, std::byte* const* bases, std::byte* scratch, std::byte* states,
                      Chunks& chunks) const {
    Run(*this, region, bases, scratch, states).run_pieces(chunks);
}

void RowSchedule::join(const Region& region, std::byte* const* bases, std::byte* scratch, std::byte* states,
                       Chunks& chunks) const {
    Run(*this, region, bases, scratch, states).run_joins(chunks);
}

RowStep::RowStep(Region region) : region_(std::move(region)), schedule_(region_, standard_strides(region_)) {}

void RowStep::run(RunContext& context) const {
    const std::size_t loads = region_.loads.size(), count = loads + region_.stores.size();
    const auto view = [&](std::size_t s) -> const View& {
        return s < loads ? region_.loads[s] : region_.stores[s - loads].view;
    };
    constexpr std::size_t usual = 32;
    std::array<std::byte*, usual> usual_bases;
    std::vector<std::byte*> many_bases(count > usual ? count : 0);
    std::byte** const bases = count > usual ? many_bases.data() : usual_bases.data();
    bool custom = false;
    for (std::size_t s = 0; s < count; ++s) {
        bases[s] = context.data(view(s));
        custom = custom || (context.any_custom && context.custom[view(s).buffer] != nullptr);
    }
    const auto run = [&](const RowSchedule& schedule, std::byte* states, auto scratch) {
        context.parallel(schedule.blocks() * schedule.parts(), schedule.cost(), [&](int worker, Chunks& chunks) {
            schedule.run(region_, bases, scratch(worker), states, chunks);
        });
        if (schedule.parts() > 1) {
            context.parallel(schedule.blocks(), static_cast<double>(schedule.state_bytes()), [&](int worker, Chunks& chunks) {
                schedule.join(region_, bases, scratch(worker), states, chunks);
            });
        }
    };
    if (!custom) {
        std::byte* const states = states_.buffer == no_buffer ? nullptr : context.data(states_);
        run(schedule_, states, [&](int worker) { return context.scratch(worker); });
        return;
    }
    // Arrays of the caller with strides of their own.
    std::vector<Sizes> strides(count);
    for (std::size_t s = 0; s < count; ++s) {
        const Tensor tensor = context.tensor(view(s));
        bases[s] = tensor.data;
        strides[s] = tensor.strides;
    }
    const RowSchedule schedule(region_, strides);
    const std::size_t stride = align_to_line(schedule.scratch_bytes());
    std::vector<std::byte> memory(stride * static_cast<std::size_t>(context.workers) + cache_line);
    std::vector<std::byte> states(schedule.state_bytes());
    std::byte* const scratch = memory.data() + align_to_line(reinterpret_cast<std::uintptr_t>(memory.data())) - reinterpret_cast<std::uintptr_t>(memory.data());
    run(schedule, states.data(), [&](int worker) { return scratch + stride * static_cast<std::size_t>(worker); });
}

void RowStep::visit(const Visitor& visitor) {
    for (View& load : region_.loads) {
        visitor(load, false);
    }
    for (RegionStore& store : region_.stores) {
        visitor(store.view, true);
    }
    if (states_.buffer != no_buffer) {
        visitor(states_, true);
    }
}

}  // namespace dmlgraph::cpu
