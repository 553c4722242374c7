// How a region is run: which dimensions are gone along, which tensors are read in place, where values lie meanwhile.
#include <algorithm>
#include <utility>

#include "cpu/region/region.h"
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

bool all_zero(const Sizes& strides, int rank) {
    return std::all_of(strides.begin(), strides.begin() + rank, [](std::int64_t stride) { return stride == 0; });
}

}  // namespace

Schedule::Schedule(const Region& region, const std::vector<Sizes>& strides) {
    collapse(region, strides);
    classify(region);
    assign(region);
    choose_block(region);
}

// Dimensions that are one line in all loads and stores become one.
void Schedule::collapse(const Region& region, const std::vector<Sizes>& strides) {
    streams_.resize(strides.size());
    for (std::size_t s = 0; s < strides.size(); ++s) {
        const DataType type = s < region.loads.size() ? region.loads[s].type
                                                      : region.stores[s - region.loads.size()].view.type;
        streams_[s].item = static_cast<std::uint8_t>(item_size(type));
    }
    for (int d = 0; d < region.rank; ++d) {
        const std::int64_t size = region.sizes[d];
        if (size == 1) {
            continue;
        }
        const bool joins = rank_ > 0 && std::ranges::all_of(streams_, [&](const Stream& stream) {
            const std::size_t s = static_cast<std::size_t>(&stream - streams_.data());
            return stream.strides[rank_ - 1] == strides[s][d] * size;
        });
        const int to = joins ? rank_ - 1 : rank_++;
        sizes_[to] = joins ? sizes_[to] * size : size;
        for (std::size_t s = 0; s < strides.size(); ++s) {
            streams_[s].strides[to] = strides[s][d];
        }
    }
    if (rank_ == 0) {
        rank_ = 1;
        sizes_[0] = 1;
    }
}

// The dimension along which some tensor is packed that is not packed along the last one, as a transposed one is; -1:
// there is none. A rectangle of these two dimensions uses the whole of every cache line it touches.
int Schedule::find_tile_axis(const Region& region) const {
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
void Schedule::classify(const Region& region) {
    const int last = rank_ - 1;
    row_length_ = sizes_[last];
    const bool by_row = rank_ == 1 || row_length_ >= least_row;
    for (int d = 0; d < last; ++d) {
        (by_row ? rows_ : row_length_) *= sizes_[d];
    }
    tile_axis_ = find_tile_axis(region);
    for (Stream& stream : streams_) {
        const Sizes& strides = stream.strides;
        if (all_zero(strides, rank_)) {
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

// Decides the order of operations, where each value lies, and which registers there are.
void Schedule::assign(const Region& region) {
    const auto load_count = static_cast<std::int32_t>(region.loads.size());
    const auto instruction_count = static_cast<std::int32_t>(region.instructions.size());
    using Kind = Place::Kind;
    std::vector<std::int32_t> free_registers;
    std::vector<std::int32_t> last_use(instruction_count, -1), last_load_use(load_count, -1);
    std::vector<std::vector<std::int32_t>> stores_of(instruction_count);
    std::int64_t bytes = 0;

    places_.resize(instruction_count);
    for (std::int32_t i = 0; i < instruction_count; ++i) {
        const RegionInstruction& instruction = region.instructions[i];
        for (std::int32_t k = 0; k < instruction.operand_count; ++k) {
            const Reference& operand = region.operands[instruction.first_operand + k];
            (operand.load ? last_load_use : last_use)[operand.index] = i;
        }
    }
    const std::int64_t elements = rows_ * row_length_;
    for (std::size_t s = 0; s < region.stores.size(); ++s) {
        Stream& stream = streams_[load_count + s];
        stream.streaming = stream.access == Access::direct && elements * stream.item >= streaming_bytes;
        bytes += stream.item;
        if (!region.stores[s].source.load) {
            stores_of[region.stores[s].source.index].push_back(static_cast<std::int32_t>(s));
        }
    }

    const auto take = [&](int item) {
        const auto fitting = std::ranges::find_if(free_registers, [&](std::int32_t r) { return register_items_[r] >= item; });
        if (fitting != free_registers.end()) {
            const std::int32_t found = *fitting;
            free_registers.erase(fitting);
            return found;
        }
        register_items_.push_back(item);
        return static_cast<std::int32_t>(register_items_.size()) - 1;
    };
    const auto fetch = [&](std::int32_t load, Place where) {
        Stream& stream = streams_[load];
        stream.place = where;
        operations_.push_back({Operation::Kind::gather, load});
    };
    const auto require = [&](std::int32_t load) {  // makes a load's value be somewhere
        Stream& stream = streams_[load];
        if (stream.place.kind != Kind::none) {
            return;
        }
        if (!is_gathered(stream.access)) {
            stream.place = {Kind::memory, load};
            return;
        }
        std::int64_t period = 1;
        int d = rank_ - 1;
        for (; d >= 0 && !all_zero(stream.strides, d + 1); --d) {
            period *= sizes_[d];
        }
        stream.once = stream.access == Access::scattered && period <= greatest_period && period < row_length_;
        if (stream.once) {
            block_ = std::max(block_, period);  // blocks will be multiples of it
            register_items_.push_back(stream.item);
            fetch(load, {Kind::reg, static_cast<std::int32_t>(register_items_.size()) - 1});
        } else {
            fetch(load, {Kind::reg, take(stream.item)});
        }
    };

    // Stores of what was loaded come first: nothing has been overwritten yet.
    for (std::size_t s = 0; s < region.stores.size(); ++s) {
        const RegionStore& store = region.stores[s];
        if (!store.source.load) {
            continue;
        }
        const std::int32_t load = store.source.index;
        const std::int32_t to = load_count + static_cast<std::int32_t>(s);
        if (is_gathered(streams_[load].access) && streams_[load].place.kind == Kind::none && streams_[to].access == Access::direct &&
            !streams_[to].streaming && last_load_use[load] < 0) {
            fetch(load, {Kind::memory, to});
            continue;
        }
        require(load);
        operations_.push_back({Operation::Kind::store, static_cast<std::int32_t>(s)});
    }
    for (std::int32_t load = 0; load < load_count; ++load) {
        const Place& place = streams_[load].place;
        if (last_load_use[load] < 0 && place.kind == Kind::reg && !streams_[load].once) {
            free_registers.push_back(place.index);
        }
    }

    for (std::int32_t i = 0; i < instruction_count; ++i) {
        const RegionInstruction& instruction = region.instructions[i];
        const auto operands = [&](const auto& function) {
            for (std::int32_t k = 0; k < instruction.operand_count; ++k) {
                function(region.operands[instruction.first_operand + k]);
            }
        };
        bool scalar = !instruction.counts;
        operands([&](const Reference& operand) {
            if (operand.load) {
                require(operand.index);
            }
            scalar = scalar && (operand.load ? streams_[operand.index].access == Access::scalar
                                             : places_[operand.index].kind == Kind::scalar);
        });
        const int item = static_cast<int>(item_size(instruction.result));
        bytes += item;
        Place& place = places_[i];
        std::int32_t direct_store = -1;
        if (scalar) {
            place = {Kind::scalar, static_cast<std::int32_t>(scalars_.size())};
            scalars_.push_back(i);
        } else {
            // A store whose memory the result can be written into at once.
            for (const std::int32_t s : stores_of[i]) {
                const Stream& stream = streams_[load_count + s];
                if (direct_store < 0 && stream.access == Access::direct && !stream.streaming) {
                    direct_store = s;
                }
            }
            if (direct_store >= 0) {
                place = {Kind::memory, load_count + direct_store};
            } else if (last_use[i] < 0 && stores_of[i].empty()) {
                continue;  // nobody wants it
            }
        }
        std::int32_t in_place = -1;
        operands([&](const Reference& operand) {  // registers that are free from here on
            const bool dies = operand.load ? last_load_use[operand.index] == i && !streams_[operand.index].once
                                           : last_use[operand.index] == i;
            Place& from = operand.load ? streams_[operand.index].place : places_[operand.index];
            const DataType type = operand.load ? region.loads[operand.index].type
                                               : region.instructions[operand.index].result;
            if (dies && from.kind == Kind::reg && place.kind == Kind::none && static_cast<int>(item_size(type)) == item &&
                in_place < 0) {
                in_place = from.index;
            }
        });
        if (place.kind == Kind::none) {
            place = {Kind::reg, in_place >= 0 ? in_place : take(item)};
        }
        operands([&](const Reference& operand) {
            const bool dies = operand.load ? last_load_use[operand.index] == i && !streams_[operand.index].once
                                           : last_use[operand.index] == i;
            Place& from = operand.load ? streams_[operand.index].place : places_[operand.index];
            const bool listed = std::ranges::find(free_registers, from.index) != free_registers.end();
            if (dies && from.kind == Kind::reg && from.index != in_place && !listed) {
                free_registers.push_back(from.index);
            }
        });
        if (!scalar) {
            operations_.push_back({Operation::Kind::execute, i});
        }
        for (const std::int32_t s : stores_of[i]) {
            if (s != direct_store) {
                operations_.push_back({Operation::Kind::store, s});
            }
        }
        if (place.kind == Kind::reg && last_use[i] < 0) {
            free_registers.push_back(place.index);
        }
    }
    cost_ = static_cast<double>(elements) * static_cast<double>(bytes);
}

void Schedule::choose_block(const Region& region) {
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
    if (tile_axis_ >= 0) {
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
