// The planner's state while it makes a program from a graph, and its passes in the order in which `plan` calls them.
// Each pass says what it fills in; it reads what earlier passes have filled in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cpu/plan/plan.h"

namespace dmlgraph::cpu {

// An input of a node.
struct Reader {
    std::int32_t node;
    std::int32_t port;
};

struct Value {
    TensorDesc desc;
    std::int32_t node = -1;  // its producer; -1: a graph input
    std::int32_t port = 0;
    std::vector<Reader> readers;
    std::vector<std::int32_t> slots;  // the graph outputs that are this value
    std::int32_t fill = -1;           // of a fill: the offset of its one element in the constants
    bool raw_needed = false;          // some reader's strides in the buffer are not steps along the value
    bool raw = false;                 // the buffer has the layout of its description
    bool allocated = false;           // whether it has its own memory
    View view;                        // where it is: in its own memory, or for a view in that of another value
    std::vector<View> copies;         // further memory where it is written too

    // Whether some reader reads the gaps between its elements, which are zeros then.
    bool has_read_gaps() const { return raw_needed && !desc.packed && desc.span() > desc.element_count(); }
};

// The iteration domain of reductions, and of nodes connected to them, that run row by row; it has no dimensions of size
// 1.
struct RowDomain {
    int rank = 0;
    Sizes sizes{};
    std::uint32_t reduced = 0;  // a bit for each dimension of a row
    bool is_trailing = false;   // whether these dimensions are the last ones
    bool is_columns = false;    // whether the last dimension is not one of them
    bool is_long = false;       // whether rows are split into several blocks

    bool reduces(int dimension) const { return (reduced >> dimension & 1) != 0; }
    bool operator==(const RowDomain&) const = default;
};

struct Node {
    NodeSpec spec;
    std::int32_t first_value = 0;
    std::int32_t data_offset = -1;  // of a fill: the offset of its one element in the constants
    bool is_virtual = false;        // computed where it is read: fills and sequences
    std::int32_t domain = -1;       // index in Plan::domains of a node that may run row by row
    bool is_narrow = false;         // an element-wise node with one element per row
    std::int32_t stage = 0;
    std::int32_t group = 0;  // the parent in the union of groups: nodes of one group are one step

    bool is_computed() const { return spec.kind == NodeKind::element_wise || spec.kind == NodeKind::reduce; }
    // Whether its result has one element per row.
    bool gives_one_a_row() const { return spec.kind == NodeKind::reduce || is_narrow; }
};

struct Plan {
    std::vector<Node> nodes;
    std::vector<Value> values;
    std::vector<RowDomain> domains;
    std::vector<std::int32_t> outputs;         // values
    std::vector<std::size_t> temporary_bytes;  // by temporary buffer
    Program program;

    Value& value(std::int32_t id) { return values[static_cast<std::size_t>(id)]; }
    const Value& value(std::int32_t id) const { return values[static_cast<std::size_t>(id)]; }
    Node& node(std::int32_t id) { return nodes[static_cast<std::size_t>(id)]; }
    const Node& node(std::int32_t id) const { return nodes[static_cast<std::size_t>(id)]; }
    std::int32_t result(std::int32_t node_id, std::int32_t port = 0) const { return node(node_id).first_value + port; }
    const RowDomain& domain(const Node& of) const { return domains[static_cast<std::size_t>(of.domain)]; }
};

// epilogues.cpp: nodes that follow a product become part of it.
void absorb_followers(GraphSpec& graph);

// planner.cpp: the numbers of values, their producers and their readers.
Plan number_values(GraphSpec graph);
void connect(Plan& plan);

// row_domains.cpp: Node::domain and is_narrow.
void find_row_domains(Plan& plan);
// Whether a wide node reads this narrow node while the row is in the cache.
bool in_row(const Plan& plan, const Node& producer, const Value& made, const Node& consumer, const TensorDesc& desc);

// groups.cpp: Node::stage, then Node::group.
void assign_stages(Plan& plan);
void delay(Plan& plan);  // NodeSpec::late: the last stage in which its readers still find what it computes
void sink_into_later_stages(Plan& plan);
void unite_groups(Plan& plan);
std::int32_t find_group(Plan& plan, std::int32_t node_id);
// Whether a reader reads the value element by element, in the order in which its producer computes it.
bool in_register(const Plan& plan, const Value& value, const Reader& reader);
// Whether a reader computes the value itself, or reads it from a register of its region.
bool is_inlined(Plan& plan, const Value& value, const Reader& reader);

// allocations.cpp: Value::view, copies and fill, and the constants.
void allocate_inputs_and_constants(Plan& plan);
void pass_fills_through_views(Plan& plan);
void allocate_outputs(Plan& plan);
void allocate_joined_parts(Plan& plan);
void allocate_others(Plan& plan);
void see_through_views(Plan& plan);
// The view through which a node reads its input.
View read(Plan& plan, std::int32_t node_id, std::int32_t port);
// One element of the constants, repeated.
View fill_view(const Plan& plan, std::int32_t offset, DataType type, int rank, const Sizes& sizes);
View temporary(Plan& plan, const TensorDesc& desc);
void require_packed(Plan& plan, BufferId buffer);

// steps.cpp: Program::steps.
void emit_groups(Plan& plan);

// bounds.cpp: throw PlanError if a value's view has other sizes than the value or a step's view leaves its allocation,
// and if a node's view is not broadcast to the sizes at which the node reads or writes it.
void check_views(Plan& plan);
void check_broadcast(const View& view, int rank, const Sizes& sizes, const std::string& node);

// arena.cpp: what follows from the order of the steps: Program::temporaries, last_read, first_write and sizes.
void assign_arena(Plan& plan);

}  // namespace dmlgraph::cpu
