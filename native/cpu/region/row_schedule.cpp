// How a region of rows is cut into blocks, and where its values lie.
#include <algorithm>
#include <numeric>

#include "cpu/region/row_schedule.h"
#include "cpu/runtime/cache_line.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t longest_row = 16384;     // several registers of it fit into a second-level cache
constexpr std::int64_t longest_column = 1024;
constexpr std::int64_t short_row = 256;         // shorter ones are taken several at a time
constexpr std::int64_t short_rows = 1024;       // elements of such a block
constexpr std::int64_t column_block = 8192;     // elements of a block of columns
constexpr std::int64_t least_width = 16;        // a cache line of float32
constexpr std::int64_t greatest_width = 512;
constexpr std::int64_t long_piece = 4096;
constexpr std::int64_t enough_blocks = 32;      // to share between workers; else rows are cut into parts
constexpr std::int64_t enough_parts = 64;

constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Whether the dimensions from … to − 1 are one line of elements `unit` bytes apart, which is then the line's length.
bool packed(const Sizes& sizes, const Sizes& strides, int from, int to, std::int64_t& unit) {
    for (int d = to - 1; d >= from; --d) {
        if (sizes[d] > 1 && strides[d] != unit) {
            return false;
        }
        unit *= sizes[d];
    }
    return true;
}

}  // namespace

bool is_long_row(std::int64_t length, bool columns) { return length > (columns ? longest_column : longest_row); }

// Decides the operations of a block, where each value lies, and which registers there are.
class RowSchedule::Assignment {
public:
    Assignment(RowSchedule& schedule, const Region& region)
        : schedule_(schedule), region_(region), is_long_(is_long_row(schedule.length_, schedule.columns_)) {}

    void run() {
        const std::size_t count = region_.instructions.size();
        last_use_.assign(count, -1);
        last_load_use_.assign(region_.loads.size(), -1);
        only_taken_.assign(region_.loads.size(), true);
        once_.assign(count, false);
        schedule_.locations_.resize(count);
        schedule_.states_.assign(count, -1);
        schedule_.operand_locations_.resize(region_.operands.size());
        schedule_.store_locations_.resize(region_.stores.size());
        for (std::size_t i = 0; i < count; ++i) {
            each_operand(i, [&](std::size_t, const Reference& operand) {
                (operand.load ? last_load_use_ : last_use_)[index(operand)] = static_cast<std::int32_t>(i);
                if (operand.load && region_.instructions[i].reduction == nullptr) {
                    only_taken_[index(operand)] = false;
                }
            });
        }
        for (std::size_t s = 0; s < region_.stores.size(); ++s) {
            if (region_.stores[s].source.load) {
                only_taken_[index(region_.stores[s].source)] = false;
            }
        }
        for (std::size_t s = 0; s < region_.stores.size(); ++s) {
            if (region_.stores[s].source.load) {
                store(s);
            }
        }
        for (std::size_t i = 0; i < count; ++i) {
            instruction(i);
        }
        finish();
    }

private:
    struct Register {
        std::size_t bytes;  // of one element of a wide one, of all of a narrow one
        bool wide;
    };

    static std::size_t index(const Reference& reference) { return static_cast<std::size_t>(reference.index); }

    template <class Function>
    void each_operand(std::size_t i, const Function& function) {
        const RegionInstruction& instruction = region_.instructions[i];
        for (std::int32_t k = 0; k < instruction.operand_count; ++k) {
            const auto at = static_cast<std::size_t>(instruction.first_operand + k);
            function(at, region_.operands[at]);
        }
    }

    Stream& stream(const Reference& load) { return schedule_.streams_[index(load)]; }

    std::size_t item(const Reference& reference) const {
        return item_size(region_.type(reference));
    }

    bool is_narrow(const Reference& reference) {
        return reference.load ? stream(reference).access == Access::narrow : region_.instructions[index(reference)].narrow;
    }

    bool is_scalar(const Reference& reference) { return reference.load && stream(reference).access == Access::scalar; }

    std::vector<Operation>& list(bool narrow) { return is_long_ && narrow ? schedule_.after_ : schedule_.pieces_; }

    std::int32_t add_register(std::size_t bytes, bool wide) {
        registers_.push_back({bytes, wide});
        return static_cast<std::int32_t>(registers_.size()) - 1;
    }

    // A wide register of elements of so many bytes; those that are free hold others of the same size.
    std::int32_t take(std::size_t bytes) {
        const auto found = std::ranges::find_if(free_, [&](std::int32_t r) { return registers_[r].bytes == bytes; });
        if (found == free_.end()) {
            return add_register(bytes, true);
        }
        const std::int32_t taken = *found;
        free_.erase(found);
        return taken;
    }

    void give(const Location& location) {
        if (location.kind == Location::Kind::wide && std::ranges::find(free_, location.index) == free_.end() &&
            std::ranges::find(lasting_, location.index) == lasting_.end()) {
            free_.push_back(location.index);
        }
    }

    // Makes a load's elements be somewhere.
    Location require(const Reference& load) {
        Stream& given = stream(load);
        if (given.location.kind != Location::Kind::none) {
            return given.location;
        }
        const bool in_lines = given.lined && only_taken_[index(load)];
        if (given.access == Access::scalar || given.direct || in_lines) {
            return given.location = {Location::Kind::memory, load.index};
        }
        if (given.access == Access::narrow) {
            given.location = {Location::Kind::narrow, add_register(static_cast<std::size_t>(schedule_.width_) * given.item, false)};
            const Operation gather{Kind::gather, false, load.index, {}};
            (is_long_ ? schedule_.before_ : schedule_.pieces_).push_back(gather);
            if (is_long_) {
                schedule_.after_.push_back(gather);
            }
            return given.location;
        }
        const bool once = given.access == Access::fixed;
        given.location = {Location::Kind::wide, once ? add_register(given.item, true) : take(given.item)};
        if (once) {
            lasting_.push_back(given.location.index);
        }
        schedule_.pieces_.push_back({Kind::gather, once, load.index, {}});
        return given.location;
    }

    Location location_of(const Reference& reference) {
        return reference.load ? require(reference) : schedule_.locations_[index(reference)];
    }

    // What a wide consumer sees: narrow operands are repeated, unless a kernel does that itself.
    Location wide_operand(const Reference& operand, bool takes_single) {
        const Location location = location_of(operand);
        const bool single = is_scalar(operand) || (is_narrow(operand) && schedule_.width_ == 1 && !schedule_.columns_);
        if ((single && takes_single) || (!is_narrow(operand) && !is_scalar(operand))) {
            return location;
        }
        const std::int32_t wide = take(item(operand));
        schedule_.pieces_.push_back({Kind::spread, false, wide, operand});
        temporary_.push_back({Location::Kind::wide, wide});
        return temporary_.back();
    }

    void instruction(std::size_t i) {
        const RegionInstruction& instruction = region_.instructions[i];
        const auto number = static_cast<std::int32_t>(i);
        bool once = !is_long_ && !instruction.narrow && instruction.reduction == nullptr && !instruction.counts;
        bool has_fixed = false;
        each_operand(i, [&](std::size_t at, const Reference& operand) {
            Location& location = schedule_.operand_locations_[at];
            if (instruction.reduction != nullptr) {
                location = wide_operand(operand, false);
            } else {
                location = instruction.narrow ? location_of(operand) : wide_operand(operand, true);
            }
            const bool fixed = operand.load ? stream(operand).access == Access::fixed : once_[index(operand)];
            once = once && (fixed || is_scalar(operand));
            has_fixed = has_fixed || fixed;
        });
        once_[i] = once && has_fixed;
        if (instruction.reduction != nullptr) {
            const std::size_t bytes = instruction.reduction->state_bytes * static_cast<std::size_t>(schedule_.width_);
            schedule_.states_[i] = add_register(bytes, false);
            schedule_.states_bytes_ += instruction.reduction->state_bytes;
            (is_long_ ? schedule_.before_ : schedule_.pieces_).push_back({Kind::start, false, number, {}});
            schedule_.pieces_.push_back({Kind::take, false, number, {}});
        }
        release(i);  // what is free from here on may be the result's, in place
        const std::int32_t direct = place_result(i);
        const Kind kind = instruction.reduction != nullptr ? Kind::finish : Kind::execute;
        list(instruction.narrow).push_back({kind, static_cast<bool>(once_[i]), number, {}});
        for (std::size_t s = 0; s < region_.stores.size(); ++s) {
            const Reference& source = region_.stores[s].source;
            if (!source.load && source.index == number && static_cast<std::int32_t>(s) != direct) {
                store(s);
            }
        }
        if (last_use_[i] < 0) {
            give(schedule_.locations_[i]);
        }
    }

    void release(std::size_t i) {
        each_operand(i, [&](std::size_t, const Reference& operand) {
            const bool dies = (operand.load ? last_load_use_ : last_use_)[index(operand)] == static_cast<std::int32_t>(i);
            if (dies) {
                give(operand.load ? stream(operand).location : schedule_.locations_[index(operand)]);
            }
        });
        for (const Location& location : temporary_) {
            give(location);
        }
        temporary_.clear();
    }

    // Returns the store whose memory the result is written into at once, or -1.
    std::int32_t place_result(std::size_t i) {
        const RegionInstruction& instruction = region_.instructions[i];
        const std::size_t bytes = item_size(instruction.result);
        Location& location = schedule_.locations_[i];
        for (std::size_t s = 0; s < region_.stores.size() && !once_[i]; ++s) {
            const Reference& source = region_.stores[s].source;
            const std::size_t at = region_.loads.size() + s;
            const Stream& target = schedule_.streams_[at];
            const bool fits = region_.stores[s].narrow == instruction.narrow && target.direct && !target.streaming;
            if (!source.load && index(source) == i && fits) {
                location = {Location::Kind::memory, static_cast<std::int32_t>(at)};
                return static_cast<std::int32_t>(s);
            }
        }
        if (instruction.narrow) {
            location = {Location::Kind::narrow, add_register(bytes * static_cast<std::size_t>(schedule_.width_), false)};
        } else if (once_[i]) {
            location = {Location::Kind::wide, add_register(bytes, true)};
            lasting_.push_back(location.index);
        } else {
            location = {Location::Kind::wide, take(bytes)};
        }
        return -1;
    }

    void store(std::size_t s) {
        const RegionStore& store = region_.stores[s];
        schedule_.store_locations_[s] = store.narrow ? location_of(store.source) : wide_operand(store.source, false);
        list(store.narrow).push_back({Kind::store, false, static_cast<std::int32_t>(s), {}});
        for (const Location& location : temporary_) {
            give(location);
        }
        temporary_.clear();
    }

    void finish() {
        std::size_t bytes = align_to_line(schedule_.streams_.size() * sizeof(std::byte*));
        const auto wide = static_cast<std::size_t>(schedule_.width_ * schedule_.piece_);
        for (const Register& each : registers_) {
            schedule_.offsets_.push_back(bytes);
            bytes += align_to_line(each.wide ? each.bytes * wide : each.bytes);
        }
        schedule_.scratch_bytes_ = bytes;
        double moved = 0;
        for (const RegionInstruction& each : region_.instructions) {
            moved += each.narrow && each.reduction == nullptr ? 0.0 : 4.0;
        }
        for (const RegionStore& each : region_.stores) {
            moved += each.narrow ? 0.0 : static_cast<double>(item_size(each.view.type));
        }
        schedule_.cost_ = moved * static_cast<double>(schedule_.rows_) * static_cast<double>(schedule_.length_);
    }

    RowSchedule& schedule_;
    const Region& region_;
    const bool is_long_;
    std::vector<std::int32_t> last_use_, last_load_use_;
    std::vector<bool> only_taken_;  // by load: whether reductions alone read it
    std::vector<bool> once_;
    std::vector<Register> registers_;
    std::vector<std::int32_t> free_, lasting_;
    std::vector<Location> temporary_;
};

RowSchedule::RowSchedule(const Region& region, const std::vector<Sizes>& strides) : columns_(region.columns) {
    const Domain domain = collapse(region, strides);
    rank_ = domain.rank;
    kept_ = domain.kept;
    sizes_ = domain.sizes;
    streams_.resize(strides.size());
    for (std::size_t s = 0; s < strides.size(); ++s) {
        streams_[s].item = static_cast<std::uint8_t>(item_size(region.stream(s).type));
        streams_[s].strides = domain.strides[s];
    }
    choose_blocks();
    classify(region);
    Assignment(*this, region).run();
}

void RowSchedule::choose_blocks() {
    rows_ = std::accumulate(sizes_.begin(), sizes_.begin() + kept_, std::int64_t{1}, std::multiplies<>());
    length_ = std::accumulate(sizes_.begin() + kept_, sizes_.begin() + rank_, std::int64_t{1}, std::multiplies<>());
    const bool is_long = is_long_row(length_, columns_);
    if (columns_) {
        line_ = sizes_[kept_ - 1];
        width_ = std::min(line_, is_long ? greatest_width : std::clamp(column_block / length_, least_width, greatest_width));
    } else {
        line_ = rows_;
        width_ = length_ < short_row ? std::min(rows_, short_rows / length_) : 1;
    }
    blocks_ = rows_ / line_ * ceil_divide(line_, width_);
    piece_ = part_ = length_;
    if (is_long) {
        piece_ = columns_ ? std::max<std::int64_t>(1, column_block / width_) : long_piece;
        const std::int64_t pieces = ceil_divide(length_, piece_);
        const std::int64_t parts = blocks_ >= enough_blocks ? 1 : std::min(pieces, ceil_divide(enough_parts, blocks_));
        part_ = ceil_divide(pieces, parts) * piece_;
        parts_ = ceil_divide(length_, part_);
    }
}

void RowSchedule::classify(const Region& region) {
    const bool is_long = is_long_row(length_, columns_);
    for (std::size_t s = 0; s < streams_.size(); ++s) {
        Stream& stream = streams_[s];
        const bool load = s < region.loads.size();
        const bool same_in_row = load ? all_zero(stream.strides, kept_, rank_) : region.stores[s - region.loads.size()].narrow;
        const bool same_in_all = load && all_zero(stream.strides, 0, kept_);
        std::int64_t unit = stream.item;
        if (same_in_row) {
            stream.access = same_in_all ? Access::scalar : Access::narrow;
            stream.direct = packed(sizes_, stream.strides, columns_ ? kept_ - 1 : 0, kept_, unit) || width_ == 1;
            continue;
        }
        stream.access = same_in_all && !is_long && rows_ > 1 ? Access::fixed : Access::wide;
        if (columns_) {
            const std::int64_t step = stream.strides[kept_ - 1];
            stream.lined = stream.access == Access::wide && rank_ == kept_ + 1 && (step == stream.item || width_ == 1);
            stream.direct = stream.lined && width_ == line_ && stream.strides[kept_] == width_ * stream.item;
        } else {
            stream.direct = packed(sizes_, stream.strides, kept_, rank_, unit) &&
                            (width_ == 1 || packed(sizes_, stream.strides, 0, kept_, unit));
        }
        stream.streaming = !load && stream.direct && rows_ * length_ * stream.item >= streaming_bytes;
    }
}

std::size_t RowSchedule::state_bytes() const {
    return parts_ == 1 ? 0 : static_cast<std::size_t>(blocks_ * parts_ * width_) * states_bytes_;
}

}  // namespace dmlgraph::cpu
