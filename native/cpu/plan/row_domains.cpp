// Which nodes may run row by row with reductions.
//
// Every reduction has a space: the sizes it reads and the dimensions it reduces. Element-wise nodes that it is connected
// to belong to the space, too: wide ones, of all the sizes, and narrow ones, of those that are kept. Dimensions of
// size 1 do not count.
#include <vector>

#include "cpu/plan/planner.h"
#include "cpu/region/row.h"

namespace dmlgraph::cpu {
namespace {

// The dimensions that are not of size 1; a bit of `reduced` for each that is among the node's axes.
RowSpace space_of(const TensorDesc& desc, std::uint32_t axes) {
    RowSpace space;
    std::int64_t length = 1;
    for (int d = 0; d < desc.rank; ++d) {
        if (desc.sizes[d] == 1) {
            continue;
        }
        if ((axes >> d & 1) != 0) {
            space.reduced |= 1u << space.rank;
            length *= desc.sizes[d];
        }
        space.sizes[space.rank++] = desc.sizes[d];
    }
    space.is_trailing = true;
    for (int d = 1; d < space.rank; ++d) {
        space.is_trailing = space.is_trailing && (space.reduces(d) || !space.reduces(d - 1));
    }
    space.is_columns = space.reduced != 0 && !space.reduces(space.rank - 1);
    space.is_long = is_long_row(length, space.is_columns);
    return space;
}

bool has_sizes(const TensorDesc& desc, const RowSpace& space) {
    int i = 0;
    for (int d = 0; d < desc.rank; ++d) {
        if (desc.sizes[d] != 1 && (i == space.rank || desc.sizes[d] != space.sizes[i++])) {
            return false;
        }
    }
    return i == space.rank;
}

// Whether a wide node reads `narrow` so that every element is repeated along a row.
bool repeats(const TensorDesc& reader, const TensorDesc& narrow, const RowSpace& space) {
    if (reader.type != narrow.type || !has_sizes(reader, space)) {
        return false;
    }
    int i = 0, n = 0;
    for (int d = 0; d < reader.rank; ++d) {
        if (reader.sizes[d] == 1) {
            continue;
        }
        if (space.reduces(i++)) {
            if (reader.strides[d] != 0) {
                return false;
            }
            continue;
        }
        while (n < narrow.rank && narrow.sizes[n] == 1) ++n;
        if (n == narrow.rank || narrow.sizes[n] != reader.sizes[d] || narrow.strides[n] != reader.strides[d]) {
            return false;
        }
        ++n;
    }
    while (n < narrow.rank && narrow.sizes[n] == 1) ++n;
    return n == narrow.rank;
}

}  // namespace

void Planner::find_spaces() {
    std::vector<std::int32_t> found;
    const auto join = [&](std::int32_t n, std::int32_t space, bool narrow) {
        Node& each = node(n);
        if (each.spec.kind != NodeKind::element_wise || each.is_virtual || each.space >= 0) {
            return;
        }
        // The elements of a sequence are counted in the order of the tensor, which rows go along only if they are its last
        // dimensions.
        for (const std::int32_t source : each.spec.sources) {
            const Value* const read = source < 0 ? nullptr : &value(source);
            const bool sequence = read != nullptr && read->node >= 0 && read->fill < 0 && node(read->node).is_virtual;
            if (sequence && !narrow && !spaces_[static_cast<std::size_t>(space)].is_trailing) {
                return;
            }
        }
        each.space = space;
        each.is_narrow = narrow;
        found.push_back(n);
    };
    for (std::int32_t n = 0; n < static_cast<std::int32_t>(nodes_.size()); ++n) {
        Node& reduction = node(n);
        if (reduction.spec.kind != NodeKind::reduce) {
            continue;
        }
        const RowSpace space = space_of(reduction.spec.inputs[0], reduction.spec.axes);
        const auto known = std::ranges::find(spaces_, space);
        reduction.space = static_cast<std::int32_t>(known - spaces_.begin());
        if (known == spaces_.end() || space.reduced == 0) {  // with nothing to reduce it keeps to itself
            reduction.space = static_cast<std::int32_t>(spaces_.size());
            spaces_.push_back(space);
        }
        if (space.reduced != 0) {
            found.push_back(n);
        }
    }
    while (!found.empty()) {
        const std::int32_t n = found.back();
        found.pop_back();
        const Node& each = node(n);
        const RowSpace space = spaces_[static_cast<std::size_t>(each.space)];
        const bool is_reduction = each.spec.kind == NodeKind::reduce;
        for (std::size_t port = 0; port < each.spec.sources.size(); ++port) {
            const std::int32_t source = each.spec.sources[port];
            if (source < 0 || value(source).node < 0) {
                continue;
            }
            const TensorDesc& desc = each.spec.inputs[port];
            const Value& read = value(source);
            if (!each.is_narrow && repeats(desc, read.desc, space)) {
                join(read.node, each.space, true);
            } else if (same_elements(desc, read.desc) && (is_reduction || same_sizes(desc, each.spec.outputs[0]))) {
                join(read.node, each.space, each.is_narrow);
            }
        }
        for (const Reader& reader : value(each.first_value).readers) {
            const TensorDesc& desc = node(reader.node).spec.inputs[reader.port];
            const TensorDesc& made = value(each.first_value).desc;
            const bool narrow = is_reduction || each.is_narrow;
            if (narrow && repeats(desc, made, space) && has_sizes(node(reader.node).spec.outputs[0], space)) {
                join(reader.node, each.space, false);
            } else if (node(reader.node).spec.kind == NodeKind::element_wise && same_elements(desc, made) &&
                       same_sizes(desc, node(reader.node).spec.outputs[0])) {
                join(reader.node, each.space, narrow);
            }
        }
    }
}

bool Planner::in_row(const Node& maker, const Value& made, const Node& taker, const TensorDesc& desc) const {
    const bool is_narrow = maker.spec.kind == NodeKind::reduce || maker.is_narrow;
    if (maker.space < 0 || maker.space != taker.space || !is_narrow || taker.is_narrow ||
        taker.spec.kind != NodeKind::element_wise) {
        return false;
    }
    const RowSpace& space = spaces_[static_cast<std::size_t>(maker.space)];
    return !space.is_long && repeats(desc, made.desc, space);
}

}  // namespace dmlgraph::cpu
