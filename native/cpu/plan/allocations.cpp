// Where values are allocated: outputs in the caller's arrays, inputs of a join as parts of its output, views in other
// values, and all others in temporary buffers.
#include <algorithm>
#include <stdexcept>

#include "cpu/plan/planning.h"
#include "cpu/runtime/cache_line.h"

namespace dmlgraph::cpu {
namespace {

// Appends bytes to the constants, aligned to a cache line; returns their offset.
std::size_t append(std::vector<std::byte>& constants, std::span<const std::byte> bytes) {
    const std::size_t offset = constants.size();
    constants.insert(constants.end(), bytes.begin(), bytes.end());
    constants.resize(align_to_line(constants.size()));
    return offset;
}

}  // namespace

void allocate_inputs_and_constants(Plan& plan) {
    for (std::size_t slot = 0; slot < plan.program.inputs.size(); ++slot) {
        Value& each = plan.values[slot];
        each.view = whole(static_cast<BufferId>(slot), each.desc, true);
        each.allocated = each.raw = true;
    }
    const auto buffer = static_cast<BufferId>(plan.program.inputs.size() + plan.outputs.size());
    std::size_t bytes = 0;
    for (const Node& each : plan.nodes) {
        bytes += align_to_line(each.spec.data.size());
    }
    plan.program.constants.reserve(bytes + cache_line);  // large weights are not copied again as it grows
    for (Node& each : plan.nodes) {
        if (each.spec.data.empty()) {
            continue;
        }
        const std::size_t offset = append(plan.program.constants, each.spec.data);
        Value& made = plan.value(each.first_value);
        if (each.spec.kind != NodeKind::constant) {
            each.data_offset = static_cast<std::int32_t>(offset);
            made.fill = each.spec.kind == NodeKind::fill ? each.data_offset : -1;
            continue;
        }
        if (each.spec.data.size() < made.desc.total_bytes()) {
            throw std::invalid_argument("the constant '" + each.spec.name + "' has too few bytes");
        }
        made.view = whole(buffer, made.desc, false);
        made.view.offset = static_cast<std::int64_t>(offset);
        made.allocated = made.raw = true;
        each.spec.data = {};  // nothing else reads it
    }
    plan.program.needs_packed.resize(plan.program.inputs.size() + plan.outputs.size());
}

// A view of a fill is a fill.
void pass_fills_through_views(Plan& plan) {
    for (const Node& each : plan.nodes) {
        if (each.spec.kind != NodeKind::view) {
            continue;
        }
        for (std::size_t port = 0; port < each.spec.outputs.size(); ++port) {
            plan.value(each.first_value + static_cast<std::int32_t>(port)).fill =
                plan.value(each.spec.sources.at(0)).fill;
        }
    }
}

// Whether the value is a view that needs no step: its readers read the memory of another value.
static bool is_seen_through(const Plan& plan, const Value& value) {
    return value.node >= 0 && plan.node(value.node).spec.kind == NodeKind::view && value.slots.empty() &&
           !value.raw_needed && value.fill < 0;
}

static bool needs_allocation(Plan& plan, const Value& value) {
    return !value.slots.empty() || std::ranges::any_of(value.readers, [&](const Reader& reader) {
        const bool seen = value.fill >= 0 && plan.node(reader.node).spec.kind == NodeKind::view;
        return !seen && !is_inlined(plan, value, reader);
    });
}

static BufferId output_buffer(const Plan& plan, std::int32_t slot) {
    return static_cast<BufferId>(plan.program.inputs.size()) + slot;
}

void require_packed(Plan& plan, BufferId buffer) {
    if (buffer >= 0 && buffer < static_cast<BufferId>(plan.program.needs_packed.size())) {
        plan.program.needs_packed[static_cast<std::size_t>(buffer)] = true;
    }
}

View temporary(Plan& plan, const TensorDesc& desc) {
    plan.temporary_bytes.push_back(desc.total_bytes());
    return whole(plan.program.constants_buffer() + static_cast<BufferId>(plan.temporary_bytes.size()), desc, false);
}

void allocate_outputs(Plan& plan) {
    for (Value& each : plan.values) {
        if (each.slots.empty()) {
            continue;
        }
        if (each.allocated) {
            throw std::invalid_argument("an input or constant cannot be an output itself");
        }
        for (const std::int32_t slot : each.slots) {
            each.copies.push_back(whole(output_buffer(plan, slot), each.desc, true));
        }
        if (each.raw_needed && !each.desc.packed) {
            each.view = temporary(plan, each.desc);
        } else {
            each.view = each.copies.front();
            each.copies.erase(each.copies.begin());
        }
        each.raw = each.raw_needed || each.desc.packed;
        each.allocated = true;
    }
}

// Whether the piece is a whole unchanged input, so that the input can be written in place.
static bool is_whole(const NodeSpec& spec, const Piece& piece) {
    if (piece.port < 0) {
        return false;
    }
    const TensorDesc& desc = spec.inputs[static_cast<std::size_t>(piece.port)];
    bool whole = piece.rank == desc.rank && piece.sizes == desc.sizes;
    for (int d = 0; whole && d < piece.rank; ++d) {
        whole = piece.from.axis[d] == d && piece.from.step[d] == 1 && piece.from.origin[d] == 0;
    }
    return whole;
}

// Whether the first piece fills the whole output, which others then overwrite.
static bool is_filled_before(const NodeSpec& spec) {
    return !spec.pieces.empty() && spec.pieces[0].port < 0 && spec.pieces[0].rank == spec.outputs[0].rank &&
           spec.pieces[0].sizes == spec.outputs[0].sizes;
}

// Inputs of a join are written directly into its output. Outer joins come first, so that a value that is joined twice
// is in the outer one.
void allocate_joined_parts(Plan& plan) {
    for (auto n = static_cast<std::int32_t>(plan.nodes.size()) - 1; n >= 0; --n) {
        const NodeSpec& spec = plan.node(n).spec;
        if (spec.kind != NodeKind::move) {
            continue;
        }
        Value& joined = plan.value(plan.result(n));
        if (!joined.allocated) {
            joined.view = temporary(plan, joined.desc);
            joined.allocated = joined.raw = true;
        }
        for (const Piece& piece : spec.pieces) {
            // What lies in memory that is filled or cleared for the join must be copied there afterwards.
            if (!is_whole(spec, piece) || is_filled_before(spec) || joined.has_read_gaps()) {
                continue;
            }
            const TensorDesc& desc = spec.inputs[static_cast<std::size_t>(piece.port)];
            Value& part = plan.value(spec.sources[static_cast<std::size_t>(piece.port)]);
            // The join reads the same elements, but its dimensions of size 1 may be others than the producer's.
            const auto map = same_elements(part.desc, desc) ? express(part.desc, desc) : std::nullopt;
            if (part.allocated || part.raw_needed || part.fill >= 0 || !map) {
                continue;
            }
            const NodeSpec& producer = plan.node(part.node).spec;
            const bool writes_anywhere = plan.node(part.node).is_computed() || producer.kind == NodeKind::move ||
                                         (producer.kind == NodeKind::step && producer.make_step->strided());
            if (writes_anywhere) {
                const View place = through(joined.view, piece.to, piece.rank, piece.sizes);
                part.view = through(place, *map, part.desc.rank, part.desc.sizes);
                part.allocated = true;
            }
        }
    }
}

void allocate_others(Plan& plan) {
    for (Value& each : plan.values) {
        if (!each.allocated && each.desc.present() && !is_seen_through(plan, each) && needs_allocation(plan, each)) {
            each.view = temporary(plan, each.desc);
            each.allocated = each.raw = true;
        }
    }
}

void see_through_views(Plan& plan) {
    for (std::int32_t n = 0; n < static_cast<std::int32_t>(plan.nodes.size()); ++n) {
        const NodeSpec& spec = plan.node(n).spec;
        if (spec.kind != NodeKind::view) {
            continue;
        }
        for (std::size_t port = 0; port < spec.outputs.size(); ++port) {
            Value& seen = plan.value(plan.result(n, static_cast<std::int32_t>(port)));
            if (is_seen_through(plan, seen)) {
                seen.view = through(read(plan, n, 0), spec.maps[port], seen.desc.rank, seen.desc.sizes);
            }
        }
    }
}

// The view through which a node reads its input.
View read(Plan& plan, std::int32_t node_id, std::int32_t port) {
    const NodeSpec& spec = plan.node(node_id).spec;
    const std::int32_t source = spec.sources[static_cast<std::size_t>(port)];
    if (source < 0) {
        return {};
    }
    const TensorDesc& desc = spec.inputs[static_cast<std::size_t>(port)];
    const Value& from = plan.value(source);
    if (from.fill >= 0 && !(spec.kind == NodeKind::step && from.allocated)) {
        return fill_view(plan, from.fill, desc.type, desc.rank, desc.sizes);
    }
    if (const auto map = express(desc, from.desc)) {
        return through(from.view, *map, desc.rank, desc.sizes);
    }
    View view = whole(from.view.buffer, desc, false);
    view.offset = from.view.offset;
    require_packed(plan, view.buffer);
    return view;
}

View fill_view(const Plan& plan, std::int32_t offset, DataType type, int rank, const Sizes& sizes) {
    View view;
    view.buffer = plan.program.constants_buffer();
    view.type = type;
    view.rank = static_cast<std::uint8_t>(rank);
    view.offset = offset;
    view.sizes = sizes;
    return view;
}

}  // namespace dmlgraph::cpu
