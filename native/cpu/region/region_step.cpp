#include "cpu/region/region_step.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cpu/runtime/cache_line.h"
#include "cpu/runtime/memory.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::size_t most_customs = 4;  // making one takes about a microsecond
constexpr std::int64_t least_rows = 64;  // by which written rows are counted
constexpr std::int64_t row_counts = 16;  // at most

// The strides of memory laid out as the region describes it.
std::vector<Sizes> standard_strides(const Region& region) {
    std::vector<Sizes> result;
    result.reserve(region.stream_count());
    for (std::size_t s = 0; s < region.stream_count(); ++s) {
        result.push_back(region.stream(s).strides);
    }
    return result;
}

}  // namespace

RegionStep::RegionStep(Region region) : region_(std::move(region)), way_(way_of(region_, standard_strides(region_))) {}

RegionStep::Way RegionStep::way_of(const Region& region, const std::vector<Sizes>& strides) {
    if (std::optional<Copying> copying = make_copying(region, strides)) {
        return *std::move(copying);
    }
    return make_schedule(region, strides);
}

void RegionStep::run(RunContext& context) const {
    const std::size_t count = region_.stream_count();
    constexpr std::size_t usual = 32;
    std::array<std::byte*, usual> usual_bases;
    std::vector<std::byte*> many_bases(count > usual ? count : 0);
    std::byte** const bases = count > usual ? many_bases.data() : usual_bases.data();
    for (std::size_t s = 0; s < count; ++s) {
        const View& view = region_.stream(s);
        if (context.any_custom && context.custom[view.buffer] != nullptr) {
            return run_custom(context);
        }
        bases[s] = context.data(view);
    }
    std::byte* const states = states_.buffer == no_buffer ? nullptr : context.data(states_);
    const RegionMemory memory{bases, context.scratch_base, context.scratch_stride, states};
    if (const Shorter* const shorter = shorter_for(context)) {
        std::visit([&](const auto& way) { cpu::run(way, shorter->region, context, memory); }, shorter->way);
    } else {
        std::visit([&](const auto& way) { cpu::run(way, region_, context, memory); }, way_);
    }
}

void RegionStep::follow(const GrowingTensor& tensor) {
    growing_.resize(region_.loads.size());
    for (std::size_t l = 0; l < region_.loads.size(); ++l) {
        if (const std::optional<int> found = dimension_of_rows(region_.loads[l], tensor)) {
            growing_[l] = found;
            growing_inputs_.insert(growing_inputs_.end(), tensor.inputs.begin(), tensor.inputs.end());
        }
    }
}

std::optional<GrowingTensor> RegionStep::made_by_row() const {
    if (!region_.is_product || growing_.empty() || !growing_.front() ||
        !std::ranges::all_of(growing_, [&](const std::optional<int>& each) { return each == growing_.front(); })) {
        return std::nullopt;
    }
    const View& made = region_.stores.front().view;
    TensorDesc desc;
    desc.type = made.type;
    desc.rank = static_cast<std::uint8_t>(region_.rank);
    desc.sizes = region_.sizes;
    auto stride = static_cast<std::int64_t>(item_size(made.type));
    for (int d = region_.rank - 1; d >= 0; --d) {
        if (region_.sizes[d] > 1 && made.strides[d] != stride) {
            return std::nullopt;
        }
        stride *= region_.sizes[d];
    }
    return made.offset == 0 ? std::optional(GrowingTensor{made.buffer, desc, *growing_.front(), growing_inputs_})
                            : std::nullopt;
}

void RegionStep::make_written_rows() {
    const int along = *growing_.front();
    const std::int64_t all = region_.sizes[along];
    unit_ = std::max(least_rows, quotient_up(all, row_counts));
    for (std::int64_t rows = unit_; rows < all; rows += unit_) {
        Region region = region_;
        region.sizes[along] = rows;
        Way way = way_of(region, standard_strides(region));
        shorter_.push_back({std::move(region), std::move(way)});
    }
}

// Null: all rows.
const RegionStep::Shorter* RegionStep::shorter_for(const RunContext& context) const {
    if (shorter_.empty()) {
        return nullptr;
    }
    const std::int64_t rows = context.written(growing_inputs_, region_.sizes[*growing_.front()]);
    const auto units = static_cast<std::size_t>(quotient_up(std::max<std::int64_t>(rows, 1), unit_));
    return units <= shorter_.size() ? &shorter_[units - 1] : nullptr;
}

std::size_t RegionStep::scratch_bytes() const {
    const auto of = [](const Way& each) { return std::visit([](const auto& way) { return way.scratch_bytes; }, each); };
    std::size_t most = of(way_);
    for (const Shorter& each : shorter_) {
        most = std::max(most, of(each.way));
    }
    return most;
}

void RegionStep::run_custom(RunContext& context) const {
    const std::size_t count = region_.stream_count();
    std::vector<std::byte*> bases(count);
    std::vector<Sizes> strides(count);
    for (std::size_t s = 0; s < count; ++s) {
        const Tensor tensor = context.tensor(region_.stream(s));
        bases[s] = tensor.data;
        strides[s] = tensor.strides;
    }
    const std::shared_ptr<const Custom> custom = custom_for(std::move(strides));
    RegionMemory memory{bases.data(), context.scratch_base, context.scratch_stride, nullptr};
    Memory scratch, states;  // where those of the plan are too small
    std::visit(
        [&](const auto& way) {
            if (way.scratch_bytes > context.scratch_bytes) {
                memory.scratch_stride = align_to_line(way.scratch_bytes);
                scratch = Memory(memory.scratch_stride * static_cast<std::size_t>(context.workers));
                memory.scratch = scratch.get();
            }
            if (way.shared_state_bytes() > 0) {
                states = Memory(way.shared_state_bytes());
                memory.states = states.get();
            }
            cpu::run(way, region_, context, memory);
        },
        custom->way);
}

std::shared_ptr<const RegionStep::Custom> RegionStep::custom_for(std::vector<Sizes> strides) const {
    const std::lock_guard lock(mutex_);
    for (const std::shared_ptr<const Custom>& each : customs_) {
        if (each->strides == strides) {
            return each;
        }
    }
    if (customs_.size() == most_customs) {
        customs_.erase(customs_.begin());
    }
    Way way = way_of(region_, strides);
    customs_.push_back(std::make_shared<const Custom>(Custom{std::move(strides), std::move(way)}));
    return customs_.back();
}

bool RegionStep::may_overwrite(BufferId read, BufferId written) const {
    const auto is_written = [&](const RegionStore& store) { return store.view.buffer == read; };
    if (region_.has_rows() || std::ranges::any_of(region_.stores, is_written)) {
        return false;
    }
    for (std::size_t s = 0; s < region_.stores.size(); ++s) {
        for (std::size_t l = 0; region_.stores[s].view.buffer == written && l < region_.loads.size(); ++l) {
            if (region_.loads[l].buffer == read && !may_overwrite(l, s)) {
                return false;
            }
        }
    }
    return true;
}

// Block by block the load is read before the store is written if no later instruction reads it.
bool RegionStep::may_overwrite(std::size_t load_index, std::size_t store_index) const {
    const RegionStore& store = region_.stores[store_index];
    const View& load = region_.loads[load_index];
    const auto is_load = [&](const Reference& reference) {
        return reference.load && static_cast<std::size_t>(reference.index) == load_index;
    };
    bool same = item_size(load.type) == item_size(store.view.type) && load.offset == store.view.offset;
    for (int d = 0; d < region_.rank; ++d) {
        same = same && (region_.sizes[d] == 1 || load.strides[d] == store.view.strides[d]);
    }
    const auto reads = [&](const RegionInstruction& instruction) {
        const Reference* const first = region_.operands.data() + instruction.first_operand;
        return std::any_of(first, first + instruction.operand_count, is_load);
    };
    const std::int32_t written_by = store.source.load ? -1 : store.source.index;
    if (!same || std::any_of(region_.instructions.begin() + (written_by + 1), region_.instructions.end(), reads)) {
        return false;
    }
    // Another store of the load itself would come too late.
    for (std::size_t other = 0; written_by < 0 && other < region_.stores.size(); ++other) {
        if (other != store_index && is_load(region_.stores[other].source)) {
            return false;
        }
    }
    return true;
}

void RegionStep::visit(const Visitor& visitor) {
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
