// Which operations a block takes, where each value lies meanwhile, and which registers there are.
#include <algorithm>
#include <utility>

#include "cpu/region/schedule.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t shortest_by_row = 64;  // elements that are worth calling a kernel

class Assignment {
public:
    Assignment(const Blocking& blocking, const Region& region)
        : blocking_(blocking),
          region_(region),
          loads_(region.loads.size()),
          values_(loads_ + region.instructions.size()) {
        result_.values.resize(values_.size());
        result_.operands.resize(region.operands.size());
        result_.stored.resize(region.stores.size());
        result_.states.assign(region.instructions.size(), -1);
        for (std::size_t load = 0; load < loads_; ++load) {
            values_[load].breadth = blocking.streams[load].breadth;
        }
    }

    Operations run() {
        note_uses();
        lend_stores();
        // Stores of what was loaded come first: nothing has been overwritten yet.
        for (std::size_t s = 0; s < region_.stores.size(); ++s) {
            if (region_.stores[s].source.load) {
                store(s);
            }
        }
        for (std::size_t load = 0; load < loads_; ++load) {
            release(load, -1);
        }
        for (std::size_t i = 0; i < region_.instructions.size(); ++i) {
            instruction(i);
        }
        return std::move(result_);
    }

private:
    using Kind = ScheduledOperation::Kind;

    struct Value {
        Breadth breadth{};
        std::int32_t last_use = -1;  // the last instruction that takes it
        bool only_reduced = true;    // whether reductions alone take it
        std::vector<std::size_t> stores;
    };

    // The memory of a store before its own values are written.
    struct Lent {
        std::size_t store;
        bool is_free;
    };

    std::size_t number(const Reference& reference) const {
        return (reference.load ? 0 : loads_) + static_cast<std::size_t>(reference.index);
    }

    Value& value(const Reference& reference) { return values_[number(reference)]; }

    template <class Function>
    void each_operand(std::size_t i, const Function& function) {
        const RegionInstruction& instruction = region_.instructions[i];
        for (std::int32_t k = 0; k < instruction.operand_count; ++k) {
            const auto at = static_cast<std::size_t>(instruction.first_operand + k);
            function(region_.operands[at], result_.operands[at]);
        }
    }

    void note_uses() {
        for (std::size_t i = 0; i < region_.instructions.size(); ++i) {
            each_operand(i, [&](const Reference& operand, const ScheduledOperand&) {
                value(operand).last_use = static_cast<std::int32_t>(i);
                value(operand).only_reduced &= region_.instructions[i].reduction != nullptr;
            });
        }
        for (std::size_t s = 0; s < region_.stores.size(); ++s) {
            value(region_.stores[s].source).only_reduced = false;
            value(region_.stores[s].source).stores.push_back(s);
        }
    }

    // Operations on what is narrow come after those for the pieces of long rows.
    void append(Kind kind, std::size_t index, bool narrow, bool once = false, bool by_row = false) {
        (narrow && blocking_.is_long ? result_.after : result_.pieces)
            .push_back({kind, narrow, once, static_cast<std::int32_t>(index), by_row});
    }

    void append_before(Kind kind, std::size_t index) {
        (blocking_.is_long ? result_.before : result_.pieces)
            .push_back({kind, true, false, static_cast<std::int32_t>(index)});
    }

    std::int32_t add_register(std::size_t bytes, bool is_wide) {
        result_.registers.push_back({bytes, is_wide});
        is_free_.push_back(false);
        return static_cast<std::int32_t>(is_free_.size()) - 1;
    }

    // A register for elements of so many bytes. What is wide may take one that is free and has elements of that size;
    // an operand's, too, since kernels write in place.
    Location place(std::size_t item, Breadth breadth) {
        if (breadth == Breadth::narrow) {
            return {Location::Kind::scratch, add_register(item * static_cast<std::size_t>(blocking_.width), false)};
        }
        for (std::size_t r = 0; breadth == Breadth::wide && r < is_free_.size(); ++r) {
            if (is_free_[r] && result_.registers[r].bytes == item) {
                is_free_[r] = false;
                return {Location::Kind::scratch, static_cast<std::int32_t>(r)};
            }
        }
        return {Location::Kind::scratch, add_register(item, true)};
    }

    // Results of a row may lie where its last one is written, if nobody takes them afterwards: then the memory comes
    // into the nearest cache while they are computed. Only rows: the pieces of other regions are too short for that.
    void lend_stores() {
        for (std::size_t s = 0; region_.has_rows() && s < region_.stores.size(); ++s) {
            if (!region_.stores[s].source.load && !region_.stores[s].narrow && is_written_at_once(s)) {
                lent_.push_back({s, true});
            }
        }
    }

    Lent* lent(const Location& location) {
        const auto found =
            std::ranges::find_if(lent_, [&](const Lent& each) { return memory_of(each.store) == location; });
        return found == lent_.end() ? nullptr : &*found;
    }

    // The memory of a store for an instruction's result.
    Lent* find_lent(std::size_t i) {
        const auto fits = [&](const Lent& each) {
            const std::int32_t written_by = region_.stores[each.store].source.index;
            return each.is_free && static_cast<std::int32_t>(i) < written_by &&
                   values_[loads_ + i].last_use <= written_by &&
                   blocking_.streams[loads_ + each.store].item == item_size(region_.instructions[i].result);
        };
        const auto found = std::ranges::find_if(lent_, fits);
        return values_[loads_ + i].breadth != Breadth::wide || found == lent_.end() ? nullptr : &*found;
    }

    // Frees the register of a value that no instruction after this one takes.
    void release(std::size_t number, std::int32_t instruction) {
        const Location& location = result_.values[number];
        if (values_[number].breadth != Breadth::wide || values_[number].last_use > instruction) {
            return;
        }
        if (location.kind == Location::Kind::scratch) {
            is_free_[static_cast<std::size_t>(location.index)] = true;
        } else if (Lent* const memory = number < loads_ ? nullptr : lent(location)) {
            memory->is_free = true;
        }
    }

    void release_temporaries() {
        for (const std::int32_t each : temporary_) {
            is_free_[static_cast<std::size_t>(each)] = true;
        }
        temporary_.clear();
    }

    // Makes the elements of a load be somewhere; results are.
    Location require(const Reference& reference) {
        Location& location = result_.values[number(reference)];
        if (!reference.load || location.kind != Location::Kind::none) {
            return location;
        }
        const auto load = static_cast<std::size_t>(reference.index);
        const Stream& stream = blocking_.streams[load];
        const bool by_line = blocking_.has_tiles() ? values_[load].stores.empty() : values_[load].only_reduced;
        if (stream.breadth == Breadth::scalar || stream.direct || (stream.lined && by_line)) {
            return location = {Location::Kind::memory, reference.index};
        }
        location = place(stream.item, stream.breadth);
        if (stream.breadth != Breadth::narrow) {
            append(Kind::gather, load, false, stream.breadth == Breadth::fixed);
            return location;
        }
        append_before(Kind::gather, load);
        if (blocking_.is_long) {
            append(Kind::gather, load, true);
        }
        return location;
    }

    bool is_repeated(const Reference& reference, bool narrow) {
        const Breadth breadth = value(reference).breadth;
        return breadth == Breadth::scalar || (breadth == Breadth::narrow && !narrow);
    }

    // Whether a kernel that is called for each row repeats what is narrow faster than it is repeated in memory.
    bool may_go_by_row() const {
        const bool whole_rows = region_.has_rows() && !blocking_.has_columns() && !blocking_.is_long;
        return (whole_rows || blocking_.has_tiles()) && blocking_.piece >= shortest_by_row;
    }

    bool is_row_of_tile(const Location& location) const {
        return blocking_.has_tiles() && location.kind == Location::Kind::memory;
    }

    // Whether an instruction is executed by row, and if so the operands' steps.
    bool goes_by_row(std::size_t i) {
        bool by_row = is_row_of_tile(result_.values[loads_ + i]);
        each_operand(i, [&](const Reference& operand, ScheduledOperand& scheduled) {
            const auto item = static_cast<std::int64_t>(item_size(region_.type(operand)));
            const bool narrow = value(operand).breadth == Breadth::narrow && scheduled.single;
            const bool lined = !scheduled.single && is_row_of_tile(scheduled.location);
            scheduled.item = scheduled.single || lined ? 0 : item;
            scheduled.step = lined ? blocking_.row_stride(scheduled.location.index) : narrow ? item : 0;
            by_row |= lined || (narrow && blocking_.width > 1);
        });
        return by_row;
    }

    void spread(const Reference& from, const Location& to, bool narrow) {
        const auto item = static_cast<std::uint8_t>(item_size(region_.type(from)));
        const Location location = require(from);
        append(Kind::spread, result_.spreads.size(), narrow);
        result_.spreads.push_back({location, to, value(from).breadth, !narrow, item});
    }

    // A value as something narrow or wide takes it: what has fewer elements is repeated, unless a kernel does that.
    ScheduledOperand take(const Reference& reference, bool narrow, bool by_kernel) {
        const Location location = require(reference);
        if (!is_repeated(reference, narrow)) {
            return {location, false};
        }
        const bool scalar = value(reference).breadth == Breadth::scalar;
        if (by_kernel && (scalar || blocking_.width == 1 || (!narrow && may_go_by_row()))) {
            return {location, true};
        }
        const Location to = place(item_size(region_.type(reference)), narrow ? Breadth::narrow : Breadth::wide);
        spread(reference, to, narrow);
        if (!narrow) {
            temporary_.push_back(to.index);
        }
        return {to, false};
    }

    void instruction(std::size_t i) {
        const RegionInstruction& instruction = region_.instructions[i];
        Value& result = values_[loads_ + i];
        if (result.last_use < 0 && result.stores.empty()) {
            return;  // nobody wants it
        }
        const bool reduces = instruction.reduction != nullptr;
        each_operand(i, [&](const Reference& operand, ScheduledOperand& scheduled) {
            scheduled = take(operand, instruction.narrow && !reduces, !reduces);
        });
        result.breadth = breadth(i);
        if (reduces) {
            start_reduction(i);
        }
        each_operand(i, [&](const Reference& operand, const ScheduledOperand&) {
            release(number(operand), static_cast<std::int32_t>(i));
        });
        release_temporaries();
        const Location location = result_.values[loads_ + i] = place_result(i);
        if (result.breadth == Breadth::scalar) {
            result_.scalars.push_back(static_cast<std::int32_t>(i));
        } else {
            append(reduces ? Kind::finish : Kind::execute, i, instruction.narrow, result.breadth == Breadth::fixed,
                   goes_by_row(i));
        }
        for (const std::size_t s : result.stores) {
            if (location != memory_of(s)) {
                store(s);
            }
        }
        release(loads_ + i, static_cast<std::int32_t>(i));
    }

    Breadth breadth(std::size_t i) {
        const RegionInstruction& instruction = region_.instructions[i];
        Breadth most = instruction.counts || instruction.reduction != nullptr ? Breadth::wide : Breadth::scalar;
        each_operand(i, [&](const Reference& operand, const ScheduledOperand&) {
            most = std::max(most, value(operand).breadth);
        });
        if (instruction.narrow) {
            return std::min(most, Breadth::narrow);
        }
        return most == Breadth::narrow ? Breadth::wide : most;
    }

    void start_reduction(std::size_t i) {
        const Reduction& reduction = *region_.instructions[i].reduction;
        result_.reductions.push_back(static_cast<std::int32_t>(i));
        result_.states[i] = add_register(reduction.state_bytes * static_cast<std::size_t>(blocking_.width), false);
        result_.states_bytes += aligned_state_bytes(reduction);
        append_before(Kind::start, i);
        append(Kind::take, i, false);
    }

    Location memory_of(std::size_t store) const {
        return {Location::Kind::memory, static_cast<std::int32_t>(loads_ + store)};
    }

    bool is_written_at_once(std::size_t store) const {
        const Stream& stream = blocking_.streams[loads_ + store];
        return stream.direct && !stream.streaming;
    }

    // Whether the result of an instruction that is executed by row is.
    bool is_written_by_row(std::size_t store) const {
        const Stream& stream = blocking_.streams[loads_ + store];
        return blocking_.has_tiles() && stream.lined;
    }

    // The memory of a store that the result is written into at once, else a register.
    Location place_result(std::size_t i) {
        const RegionInstruction& instruction = region_.instructions[i];
        const Value& result = values_[loads_ + i];
        if (result.breadth == Breadth::scalar) {
            return {Location::Kind::scalar, static_cast<std::int32_t>(result_.scalars.size())};
        }
        for (const std::size_t s : result.stores) {
            if (result.breadth != Breadth::fixed && region_.stores[s].narrow == instruction.narrow &&
                is_written_at_once(s)) {
                return memory_of(s);
            }
        }
        if (result.breadth == Breadth::wide && result.stores.size() == 1 && is_written_by_row(result.stores.front())) {
            return memory_of(result.stores.front());
        }
        if (Lent* const memory = find_lent(i)) {
            memory->is_free = false;
            return memory_of(memory->store);
        }
        return place(item_size(instruction.result), result.breadth);
    }

    void store(std::size_t s) {
        const auto& [view, source, narrow] = region_.stores[s];
        if (is_repeated(source, narrow) && blocking_.streams[loads_ + s].direct) {
            return spread(source, memory_of(s), narrow);
        }
        Location& location = result_.values[number(source)];
        const bool gathered = location.kind == Location::Kind::none && !blocking_.streams[number(source)].direct;
        if (gathered && value(source).last_use < 0 && value(source).breadth != Breadth::narrow &&
            is_written_at_once(s)) {
            location = memory_of(s);
            return append(Kind::gather, number(source), false);
        }
        result_.stored[s] = take(source, narrow, false).location;
        append(Kind::store, s, narrow);
        release_temporaries();
    }

    const Blocking& blocking_;
    const Region& region_;
    Operations result_;
    const std::size_t loads_;
    std::vector<Value> values_;  // the loads, then the instructions' results
    std::vector<bool> is_free_;  // by register
    std::vector<Lent> lent_;
    std::vector<std::int32_t> temporary_;  // registers of repeated elements
};

}  // namespace

Operations assign(const Blocking& blocking, const Region& region) { return Assignment(blocking, region).run(); }

}  // namespace dmlgraph::cpu
