// How an element-wise region is run: which dimensions are gone along, which tensors are read in place, where values lie
// meanwhile.
#include "cpu/region/element_schedule.h"

#include <algorithm>
#include <utility>

#include "cpu/runtime/cache_line.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t least_row = 256;     // shorter rows are not worth a block of their own
constexpr std::int64_t least_block = 256;   // elements
constexpr std::int64_t greatest_block = 2048;
constexpr std::int64_t greatest_far_block = 1024;  // where operands are fetched from beyond the caches meanwhile
constexpr std::int64_t register_bytes = 24 << 10;  // for all registers of a block: half of a nearest cache
constexpr std::int64_t line_elements = cache_line;  // a whole line of the smallest elements, whole lines of others
constexpr std::int64_t greatest_period = 2048;
constexpr std::int64_t tile_side = 32;              // elements; half a cache line at least
constexpr std::int64_t far_bytes = 4 << 20;         // operands of this size are asked for one block ahead

}  // namespace

// Decides the order of operations, where each value lies, and which registers there are.
class ElementSchedule::Assignment {
public:
    Assignment(ElementSchedule& schedule, const Region& region)
        : schedule_(schedule),
          region_(region),
          loads_(static_cast<std::int32_t>(region.loads.size())),
          last_use_(region.instructions.size(), -1),
          last_load_use_(region.loads.size(), -1),
          stores_of_(region.instructions.size()) {}

    void run() {
        schedule_.locations_.resize(region_.instructions.size());
        note_uses();
        store_loads();
        for (std::int32_t i = 0; i < static_cast<std::int32_t>(region_.instructions.size()); ++i) {
            instruction(i);
        }
    }

private:
    using Kind = Location::Kind;

    template <class Function>
    void each_operand(std::int32_t i, const Function& function) {
        const RegionInstruction& instruction = region_.instructions[i];
        for (std::int32_t k = 0; k < instruction.operand_count; ++k) {
            function(region_.operands[instruction.first_operand + k]);
        }
    }

    Stream& store_stream(std::int32_t store) { return schedule_.streams_[loads_ + store]; }

    Location& location(const Reference& reference) {
        return reference.load ? schedule_.streams_[reference.index].location : schedule_.locations_[reference.index];
    }

    void note_uses() {
        for (std::int32_t i = 0; i < static_cast<std::int32_t>(region_.instructions.size()); ++i) {
            each_operand(i, [&](const Reference& operand) {
                (operand.load ? last_load_use_ : last_use_)[operand.index] = i;
            });
        }
        const std::int64_t elements = schedule_.rows_ * schedule_.row_length_;
        std::int64_t bytes = 0;
        for (std::int32_t s = 0; s < static_cast<std::int32_t>(region_.stores.size()); ++s) {
            Stream& stream = store_stream(s);
            stream.streaming = stream.access == Access::direct && elements * stream.item >= streaming_bytes;
            bytes += stream.item;
            if (!region_.stores[s].source.load) {
                stores_of_[region_.stores[s].source.index].push_back(s);
            }
        }
        for (const RegionInstruction& instruction : region_.instructions) {
            bytes += static_cast<std::int64_t>(item_size(instruction.result));
        }
        schedule_.cost_ = static_cast<double>(elements) * static_cast<double>(bytes);
    }

    std::int32_t add_register(int item) {
        schedule_.register_items_.push_back(item);
        return static_cast<std::int32_t>(schedule_.register_items_.size()) - 1;
    }

    std::int32_t take(int item) {
        const auto fitting =
            std::ranges::find_if(free_, [&](std::int32_t r) { return schedule_.register_items_[r] >= item; });
        if (fitting == free_.end()) {
            return add_register(item);
        }
        const std::int32_t found = *fitting;
        free_.erase(fitting);
        return found;
    }

    void give(const Location& location) {
        if (location.kind == Kind::wide && std::ranges::find(free_, location.index) == free_.end()) {
            free_.push_back(location.index);
        }
    }

    void fetch(std::int32_t load, Location to) {
        schedule_.streams_[load].location = to;
        schedule_.operations_.push_back({Operation::Kind::gather, load});
    }

    // Makes a load's value be somewhere.
    void require(std::int32_t load) {
        Stream& stream = schedule_.streams_[load];
        if (stream.location.kind != Kind::none) {
            return;
        }
        if (!is_gathered(stream.access)) {
            stream.location = {Kind::memory, load};
            return;
        }
        std::int64_t period = 1;
        for (int d = schedule_.rank_ - 1; d >= 0 && !all_zero(stream.strides, 0, d + 1); --d) {
            period *= schedule_.sizes_[d];
        }
        stream.once =
            stream.access == Access::scattered && period <= greatest_period && period < schedule_.row_length_;
        if (stream.once) {
            schedule_.block_ = std::max(schedule_.block_, period);  // blocks will be multiples of it
            fetch(load, {Kind::wide, add_register(stream.item)});
        } else {
            fetch(load, {Kind::wide, take(stream.item)});
        }
    }

    // Stores of what was loaded come first: nothing has been overwritten yet.
    void store_loads() {
        for (std::int32_t s = 0; s < static_cast<std::int32_t>(region_.stores.size()); ++s) {
            const RegionStore& store = region_.stores[s];
            if (!store.source.load) {
                continue;
            }
            const std::int32_t load = store.source.index;
            const Stream &from = schedule_.streams_[load], &to = store_stream(s);
            if (is_gathered(from.access) && from.location.kind == Kind::none && to.access == Access::direct &&
                !to.streaming && last_load_use_[load] < 0) {
                fetch(load, {Kind::memory, loads_ + s});
                continue;
            }
            require(load);
            schedule_.operations_.push_back({Operation::Kind::store, s});
        }
        for (std::int32_t load = 0; load < loads_; ++load) {
            const Stream& stream = schedule_.streams_[load];
            if (last_load_use_[load] < 0 && stream.location.kind == Kind::wide && !stream.once) {
                free_.push_back(stream.location.index);
            }
        }
    }

    void instruction(std::int32_t i) {
        const bool scalar = require_operands(i);
        const std::int32_t direct_store = scalar ? -1 : find_direct_store(i);
        Location& result = schedule_.locations_[i];
        if (scalar) {
            result = {Kind::scalar, static_cast<std::int32_t>(schedule_.scalars_.size())};
            schedule_.scalars_.push_back(i);
        } else if (direct_store >= 0) {
            result = {Kind::memory, loads_ + direct_store};
        } else if (last_use_[i] < 0 && stores_of_[i].empty()) {
            return;  // nobody wants it
        }
        const std::int32_t in_place = place_result(i, result);
        each_operand(i, [&](const Reference& operand) {  // registers that are free from here on
            if (dies(operand, i) && location(operand).index != in_place) {
                give(location(operand));
            }
        });
        if (!scalar) {
            schedule_.operations_.push_back({Operation::Kind::execute, i});
        }
        for (const std::int32_t s : stores_of_[i]) {
            if (s != direct_store) {
                schedule_.operations_.push_back({Operation::Kind::store, s});
            }
        }
        if (result.kind == Kind::wide && last_use_[i] < 0) {
            free_.push_back(result.index);
        }
    }

    // Returns whether the result is a single element.
    bool require_operands(std::int32_t i) {
        bool scalar = !region_.instructions[i].counts;
        each_operand(i, [&](const Reference& operand) {
            if (operand.load) {
                require(operand.index);
            }
            scalar = scalar && (operand.load ? schedule_.streams_[operand.index].access == Access::scalar
                                             : location(operand).kind == Kind::scalar);
        });
        return scalar;
    }

    // A store whose memory the result can be written into at once; -1: there is none.
    std::int32_t find_direct_store(std::int32_t i) {
        const auto found = std::ranges::find_if(stores_of_[i], [&](std::int32_t s) {
            return store_stream(s).access == Access::direct && !store_stream(s).streaming;
        });
        return found == stores_of_[i].end() ? -1 : *found;
    }

    bool dies(const Reference& operand, std::int32_t i) const {
        return operand.load ? last_load_use_[operand.index] == i && !schedule_.streams_[operand.index].once
                            : last_use_[operand.index] == i;
    }

    // Gives a result that is nowhere yet a register: that of an operand nobody else takes, if it is as large. Returns
    // that one, or -1.
    std::int32_t place_result(std::int32_t i, Location& result) {
        if (result.kind != Kind::none) {
            return -1;
        }
        const std::size_t item = item_size(region_.instructions[i].result);
        std::int32_t in_place = -1;
        each_operand(i, [&](const Reference& operand) {
            if (in_place < 0 && dies(operand, i) && location(operand).kind == Kind::wide &&
                item_size(region_.type(operand)) == item) {
                in_place = location(operand).index;
            }
        });
        result = {Kind::wide, in_place >= 0 ? in_place : take(static_cast<int>(item))};
        return in_place;
    }

    ElementSchedule& schedule_;
    const Region& region_;
    const std::int32_t loads_;
    std::vector<std::int32_t> last_use_, last_load_use_;
    std::vector<std::vector<std::int32_t>> stores_of_;  // by instruction
    std::vector<std::int32_t> free_;                    // registers
};

ElementSchedule::ElementSchedule(const Region& region, const std::vector<Sizes>& strides) {
    Domain domain = collapse(region, strides);
    rank_ = domain.rank;
    sizes_ = domain.sizes;
    streams_.resize(strides.size());
    for (std::size_t s = 0; s < strides.size(); ++s) {
        streams_[s].item = static_cast<std::uint8_t>(item_size(region.stream(s).type));
        streams_[s].strides = domain.strides[s];
    }
    tile_axis_ = find_tile_axis(region);
    classify();
    Assignment(*this, region).run();
    choose_block(region);
    if (tile_axis_ >= 0) {
        choose_tiles();
    }
    lay_out_scratch(region);
}

// The dimension along which some tensor is packed that is not packed along the last one, as a transposed one is; -1:
// there is none. A rectangle of these two dimensions uses the whole of every cache line it touches.
int ElementSchedule::find_tile_axis(const Region& region) const {
    if (std::ranges::any_of(region.instructions, &RegionInstruction::counts)) {
        return -1;  // the elements of a rectangle are no sequence
    }
    const int last = rank_ - 1;
    for (const Stream& stream : streams_) {
        for (int d = 0; d < last; ++d) {
            if (stream.strides[d] == stream.item && stream.strides[last] != 0) {
                return d;
            }
        }
    }
    return -1;
}

// Long rows are gone along one by one: what lies side by side in a row is read in place. Short ones are taken
// several at a time, and what is not packed altogether is gathered.
void ElementSchedule::classify() {
    const int last = rank_ - 1;
    row_length_ = sizes_[last];
    const bool by_row = rank_ == 1 || row_length_ >= least_row;
    for (int d = 0; d < last; ++d) {
        (by_row ? rows_ : row_length_) *= sizes_[d];
    }
    for (Stream& stream : streams_) {
        const Sizes& strides = stream.strides;
        if (all_zero(strides, 0, rank_)) {
            stream.access = Access::scalar;
        } else if (tile_axis_ >= 0) {
            stream.access = Access::tiled;
        } else if (by_row) {
            stream.access = strides[last] == 0             ? Access::row_scalar
                            : strides[last] == stream.item ? Access::direct
                                                           : Access::strided;
        } else {
            std::int64_t unit = stream.item;
            bool packed = true;
            for (int d = last; d >= 0; --d) {
                packed = packed && strides[d] == unit;
                unit *= sizes_[d];
            }
            stream.access = packed ? Access::direct : Access::scattered;
        }
    }
}

void ElementSchedule::choose_block(const Region& region) {
    for (std::size_t load = 0; load < region.loads.size(); ++load) {
        const Stream& stream = streams_[load];
        if (stream.access == Access::direct && rows_ * row_length_ * stream.item >= far_bytes) {
            far_.push_back(static_cast<std::int32_t>(load));
        }
    }
    const std::int64_t greatest = far_.empty() ? greatest_block : greatest_far_block;
    std::int64_t width = 0;
    for (const std::int32_t item : register_items_) {
        width += item;
    }
    const std::int64_t period = block_;
    block_ = std::clamp(width == 0 ? greatest : register_bytes / width, least_block, greatest);
    block_ = std::max<std::int64_t>(block_ / period * period, period);
    if (period == 1) {
        block_ = block_ / line_elements * line_elements;  // whole lines, so that two threads never write into the same one
    }
    block_ = std::min(block_, row_length_);
    blocks_per_row_ = (row_length_ + block_ - 1) / block_;
    blocks_ = rows_ * blocks_per_row_;
}

void ElementSchedule::choose_tiles() {
    const std::int64_t rows = sizes_[tile_axis_], columns = sizes_[rank_ - 1];
    const auto fitting = [](std::int64_t size, std::int64_t other) {
        return std::min(size, std::max(tile_side, greatest_far_block / other / tile_side * tile_side));
    };
    tile_columns_ = fitting(columns, std::min(rows, tile_side));
    tile_rows_ = fitting(rows, tile_columns_);
    block_ = tile_rows_ * tile_columns_;
    blocks_per_row_ = (columns + tile_columns_ - 1) / tile_columns_;
    blocks_ = rows_ * row_length_ / (rows * columns) * ((rows + tile_rows_ - 1) / tile_rows_) * blocks_per_row_;
}

void ElementSchedule::lay_out_scratch(const Region& region) {
    register_offsets_.reserve(register_items_.size());
    std::size_t bytes = 0;
    const auto piece = [&](std::size_t size) { return std::exchange(bytes, bytes + align_to_line(size)); };
    piece(region.instructions.size() * sizeof(Call));
    piece(region.operands.size() * sizeof(Operand));
    piece(streams_.size() * sizeof(std::byte*));
    piece((region.operands.size() + region.instructions.size()) * 2 * sizeof(void*));
    piece(scalars_.size() * sizeof(std::uint64_t));
    for (const std::int32_t item : register_items_) {
        register_offsets_.push_back(piece(static_cast<std::size_t>(block_ * item)));
    }
    scratch_bytes_ = bytes;
}

}  // namespace dmlgraph::cpu
