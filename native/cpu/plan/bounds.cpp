// The planner's check of itself, after all steps are made: whatever a step reads or writes lies inside its allocation.
#include <algorithm>
#include <cstddef>
#include <string>

#include "cpu/plan/planning.h"

namespace dmlgraph::cpu {
namespace {

// From the first byte to the one behind the last, counted from the buffer's first.
struct Reach {
    std::int64_t first = 0;
    std::int64_t last = 0;
};

Reach reach_of(const View& view) {
    Reach reach{view.offset, view.offset + static_cast<std::int64_t>(item_size(view.type))};
    for (int d = 0; d < view.rank; ++d) {
        const std::int64_t along = (view.sizes[d] - 1) * view.strides[d];
        (along < 0 ? reach.first : reach.last) += along;
    }
    return reach;
}

std::size_t bytes_of(const Plan& plan, BufferId buffer) {
    const Program& program = plan.program;
    auto index = static_cast<std::size_t>(buffer);
    for (const auto* const descs : {&program.inputs, &program.outputs}) {
        if (index < descs->size()) {  // an array of the caller has no byte more
            return static_cast<std::size_t>((*descs)[index].element_count()) * item_size((*descs)[index].type);
        }
        index -= descs->size();
    }
    return index == 0 ? program.constants.size() : plan.temporary_bytes.at(index - 1);
}

// Whether a view's map onto the dimensions of the caller's array gives the same elements as its strides, all inside.
bool is_mapped_inside(const View& view, const TensorDesc& array) {
    const View all = whole(view.buffer, array, true);
    std::int64_t offset = 0;
    for (int a = 0; a < array.rank; ++a) {
        std::int64_t first = view.map.origin[a], last = first;
        for (int d = 0; d < view.rank; ++d) {
            if (view.map.axis[d] == a) {
                const std::int64_t along = view.map.step[d] * (view.sizes[d] - 1);
                (along < 0 ? first : last) += along;
            }
        }
        if (first < 0 || last >= array.sizes[a]) {
            return false;
        }
        offset += view.map.origin[a] * all.strides[a];
    }
    bool same = offset == view.offset;
    for (int d = 0; d < view.rank; ++d) {
        const int axis = view.map.axis[d];
        same = same && axis < array.rank &&
               (view.sizes[d] == 1 || view.strides[d] == (axis < 0 ? 0 : view.map.step[d] * all.strides[axis]));
    }
    return same;
}

void check_view(const Plan& plan, const View& view, const std::string& name) {
    const std::size_t bytes = bytes_of(plan, view.buffer);
    const Reach reach = reach_of(view);
    if (reach.first < 0 || reach.last > static_cast<std::int64_t>(bytes)) {
        throw PlanError(name, "a view reaches from byte " + std::to_string(reach.first) + " to " +
                                  std::to_string(reach.last) + " of a buffer of " + std::to_string(bytes));
    }
    const auto index = static_cast<std::size_t>(view.buffer), inputs = plan.program.inputs.size();
    if (view.mapped && !is_mapped_inside(view, index < inputs ? plan.program.inputs[index]
                                                              : plan.program.outputs.at(index - inputs))) {
        throw PlanError(name, "a view has other elements than its map onto the caller's array");
    }
}

}  // namespace

PlanError::PlanError(const std::string& node, const std::string& problem)
    : std::logic_error("a mistake in the plan of node '" + node + "': " + problem) {}

void check_broadcast(const View& view, int rank, const Sizes& sizes, const std::string& node) {
    if (!broadcasts_to(view, rank, sizes)) {
        throw PlanError(node, "a view does not have the sizes of what is read or written there");
    }
}

void check_views(Plan& plan) {
    for (const Value& each : plan.values) {
        if (each.view.buffer != no_buffer && (each.view.rank != each.desc.rank || each.view.sizes != each.desc.sizes)) {
            throw PlanError(each.node < 0 ? "" : plan.node(each.node).spec.name,
                            "its value lies in a view of other sizes");
        }
    }
    for (const auto& step : plan.program.steps) {
        step->visit([&](const View& view, bool) {
            if (view.buffer != no_buffer && view.element_count() > 0) {
                check_view(plan, view, step->nodes.front());
            }
        });
    }
}

}  // namespace dmlgraph::cpu
