// Where values lie: in the caller's arrays where they are outputs, as parts of a join's output, as views of one
// another, and else in temporary buffers.
#include <algorithm>
#include <bit>
#include <stdexcept>

#include "cpu/plan/planner.h"
#include "cpu/runtime/cache_line.h"

namespace dmlgraph::cpu {
namespace {

// Puts bytes behind the constants, on a line of their own; where they are.
std::size_t append(std::vector<std::byte>& constants, std::span<const std::byte> bytes) {
    const std::size_t offset = constants.size();
    constants.insert(constants.end(), bytes.begin(), bytes.end());
    constants.resize(align_to_line(constants.size()));
    return offset;
}

}  // namespace

void Planner::place_constants() {
    for (std::size_t slot = 0; slot < program_.inputs.size(); ++slot) {
        Value& each = values_[slot];
        each.place = whole(static_cast<BufferId>(slot), each.desc, true);
        each.placed = each.raw = true;
    }
    const auto buffer = static_cast<BufferId>(program_.inputs.size() + outputs_.size());
    for (Node& each : nodes_) {
        if (each.spec.data.empty()) {
            continue;
        }
        const std::size_t offset = append(program_.constants, each.spec.data);
        Value& made = value(each.first_value);
        if (each.spec.kind != NodeKind::constant) {
            each.data_offset = static_cast<std::int32_t>(offset);
            made.fill = each.spec.kind == NodeKind::fill ? each.data_offset : -1;
            continue;
        }
        if (each.spec.data.size() < made.desc.total_bytes()) {
            throw std::invalid_argument("the constant '" + each.spec.name + "' has too few bytes");
        }
        made.place = whole(buffer, made.desc, false);
        made.place.offset = static_cast<std::int64_t>(offset);
        made.placed = made.raw = true;
    }
    program_.needs_packed.resize(program_.inputs.size() + outputs_.size());
}

bool Planner::seen_through(const Value& value) const {
    return value.node >= 0 && node(value.node).spec.kind == NodeKind::view && value.slots.empty() &&
           !value.raw_needed && value.fill < 0;
}

bool Planner::needs_place(const Value& value) {
    return !value.slots.empty() || std::ranges::any_of(value.readers, [&](const Reader& reader) {
        const bool seen = value.fill >= 0 && node(reader.node).spec.kind == NodeKind::view;
        return !seen && !inlined(value, reader);
    });
}

BufferId Planner::output_buffer(std::int32_t slot) const {
    return static_cast<BufferId>(program_.inputs.size()) + slot;
}

void Planner::require_packed(BufferId buffer) {
    if (buffer >= 0 && buffer < static_cast<BufferId>(program_.needs_packed.size())) {
        program_.needs_packed[static_cast<std::size_t>(buffer)] = true;
    }
}

View Planner::temporary(const TensorDesc& desc) {
    temporary_bytes_.push_back(desc.total_bytes());
    return whole(program_.constants_buffer() + static_cast<BufferId>(temporary_bytes_.size()), desc, false);
}

void Planner::place_outputs() {
    for (Value& each : values_) {
        if (each.slots.empty()) {
            continue;
        }
        if (each.placed) {
            throw std::invalid_argument("an input or constant cannot be an output itself");
        }
        for (const std::int32_t slot : each.slots) {
            each.copies.push_back(whole(output_buffer(slot), each.desc, true));
        }
        if (each.raw_needed && !each.desc.packed) {
            each.place = temporary(each.desc);
        } else {
            each.place = each.copies.front();
            each.copies.erase(each.copies.begin());
        }
        each.raw = each.raw_needed || each.desc.packed;
        each.placed = true;
    }
}

bool Planner::is_whole(const NodeSpec& spec, const Piece& piece) const {
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

// What is joined is written where it is wanted. The outer joins come first, so that what is joined twice lies in the
// outer one.
void Planner::place_parts() {
    for (auto n = static_cast<std::int32_t>(nodes_.size()) - 1; n >= 0; --n) {
        const NodeSpec& spec = node(n).spec;
        if (spec.kind != NodeKind::move) {
            continue;
        }
        Value& joined = value(result(n));
        if (!joined.placed) {
            joined.place = temporary(joined.desc);
            joined.placed = joined.raw = true;
        }
        for (const Piece& piece : spec.pieces) {
            if (!is_whole(spec, piece)) {
                continue;
            }
            const TensorDesc& desc = spec.inputs[static_cast<std::size_t>(piece.port)];
            Value& part = value(spec.sources[static_cast<std::size_t>(piece.port)]);
            if (part.placed || part.raw_needed || part.fill >= 0 || part.desc.rank != desc.rank ||
                !same_elements(part.desc, desc)) {
                continue;
            }
            const NodeSpec& maker = node(part.node).spec;
            const bool writes_anywhere = is_computed(node(part.node)) || maker.kind == NodeKind::move ||
                                         (maker.kind == NodeKind::step && maker.make_step->strided());
            if (writes_anywhere) {
                part.place = through(joined.place, piece.to, piece.rank, piece.sizes);
                part.placed = true;
            }
        }
    }
}

void Planner::place_others() {
    for (Value& each : values_) {
        if (!each.placed && each.desc.present() && !seen_through(each) && needs_place(each)) {
            each.place = temporary(each.desc);
            each.placed = each.raw = true;
        }
    }
}

void Planner::place_views() {
    for (std::int32_t n = 0; n < static_cast<std::int32_t>(nodes_.size()); ++n) {
        const NodeSpec& spec = node(n).spec;
        if (spec.kind != NodeKind::view) {
            continue;
        }
        for (std::size_t port = 0; port < spec.outputs.size(); ++port) {
            Value& seen = value(result(n, static_cast<std::int32_t>(port)));
            if (seen_through(seen)) {
                seen.place = through(read(n, 0), spec.maps[port], seen.desc.rank, seen.desc.sizes);
            }
        }
    }
}

// The view through which a node reads its input.
View Planner::read(std::int32_t node_id, std::int32_t port) {
    const NodeSpec& spec = node(node_id).spec;
    const std::int32_t source = spec.sources[static_cast<std::size_t>(port)];
    if (source < 0) {
        return {};
    }
    const TensorDesc& desc = spec.inputs[static_cast<std::size_t>(port)];
    const Value& from = value(source);
    if (from.fill >= 0 && !(spec.kind == NodeKind::step && from.placed)) {
        return fill_view(from.fill, desc.type, desc.rank, desc.sizes);
    }
    if (const auto map = express(desc, from.desc)) {
        return through(from.place, *map, desc.rank, desc.sizes);
    }
    View view = whole(from.place.buffer, desc, false);
    view.offset = from.place.offset;
    require_packed(view.buffer);
    return view;
}

std::int32_t Planner::number(float value) {
    const auto [found, added] = numbers_.try_emplace(std::bit_cast<std::uint32_t>(value), 0);
    if (added) {
        const auto bytes = std::as_bytes(std::span(&value, 1));
        found->second = static_cast<std::int32_t>(append(program_.constants, bytes));
    }
    return found->second;
}

View Planner::fill_view(std::int32_t offset, DataType type, int rank, const Sizes& sizes) const {
    View view;
    view.buffer = program_.constants_buffer();
    view.type = type;
    view.rank = static_cast<std::uint8_t>(rank);
    view.offset = offset;
    view.sizes = sizes;
    return view;
}

}  // namespace dmlgraph::cpu
