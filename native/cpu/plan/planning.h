// What the planner knows of a graph while it makes a program of it, and its passes in the order in which `plan` calls
// them. Each says what it fills in; what it reads was filled in by those before it.
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
    std::vector<std::int32_t> slots;  // graph outputs it is
    std::int32_t fill = -1;           // offset in the constants of the one element it is made of
    bool raw_needed = false;          // some reader reads the buffer by strides that are no steps along the value
    bool raw = false;                 // the buffer holds it as its description says
    bool allocated = false;           // whether it has memory of its own
    View view;                        // where it is: in that memory, or, of a view, in that of another value
    std::vector<View> copies;         // further memory to write it into
};

// The iteration domain in which reductions and what is connected to them run row by row; dimensions of size 1 are left
// out.
struct RowDomain {
    int rank = 0;
    Sizes sizes{};
    std::uint32_t reduced = 0;  // a bit for each dimension of a row
    bool is_trailing = false;   // whether those are the last ones
    bool is_columns = false;    // whether the last one is none of them
    bool is_long = false;       // whether rows are taken in pieces

    bool reduces(int dimension) const { return (reduced >> dimension & 1) != 0; }
    bool operator==(const RowDomain&) const = default;
};

struct Node {
    NodeSpec spec;
    std::int32_t first_value = 0;
    std::int32_t data_offset = -1;  // of its one element in the constants
    bool is_virtual = false;        // computed where it is read: fills and sequences
    std::int32_t domain = -1;       // in Plan::domains, of nodes that may run row by row
    bool is_narrow = false;         // an element-wise node of one element a row
    std::int32_t stage = 0;
    std::int32_t group = 0;  // the parent in the union of groups: nodes of one group are one step

    bool is_computed() const { return spec.kind == NodeKind::element_wise || spec.kind == NodeKind::reduce; }
    // Whether its result has one element a row.
    bool gives_one_a_row() const { return spec.kind == NodeKind::reduce || is_narrow; }
};

struct Plan {
    std::vector<Node> nodes;
    std::vector<Value> values;
    std::vector<RowDomain> domains;
    std::vector<std::int32_t> outputs;         // values
    std::vector<std::size_t> temporary_bytes;  // by temporary buffer
    std::unordered_map<std::uint32_t, std::int32_t> numbers;  // offsets in the constants by bits
    Program program;

    Value& value(std::int32_t id) { return values[static_cast<std::size_t>(id)]; }
    const Value& value(std::int32_t id) const { return values[static_cast<std::size_t>(id)]; }
    Node& node(std::int32_t id) { return nodes[static_cast<std::size_t>(id)]; }
    const Node& node(std::int32_t id) const { return nodes[static_cast<std::size_t>(id)]; }
    std::int32_t result(std::int32_t node_id, std::int32_t port = 0) const { return node(node_id).first_value + port; }
    const RowDomain& domain(const Node& of) const { return domains[static_cast<std::size_t>(of.domain)]; }
};

// planner.cpp: values are numbered, and know their producers and readers.
Plan number_values(GraphSpec graph);
void connect(Plan& plan);

// row_domains.cpp: Node::domain and is_narrow.
void find_row_domains(Plan& plan);
// Whether a node of one element a row is read by one of all elements while the row is at hand.
bool in_row(const Plan& plan, const Node& producer, const Value& made, const Node& consumer, const TensorDesc& desc);

// groups.cpp: Node::stage, then Node::group.
void assign_stages(Plan& plan);
void sink_into_later_stages(Plan& plan);
void unite_groups(Plan& plan);
std::int32_t find_group(Plan& plan, std::int32_t node_id);
// Whether a reader takes the value element by element, as the node that makes it makes it.
bool in_register(const Plan& plan, const Value& value, const Reader& reader);
// Whether a reader computes the value by itself or takes it from a register of its region.
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
// The offset of a number in the constants.
std::int32_t number_offset(Plan& plan, float value);
// One element of the constants, repeated.
View fill_view(const Plan& plan, std::int32_t offset, DataType type, int rank, const Sizes& sizes);
View temporary(Plan& plan, const TensorDesc& desc);
void require_packed(Plan& plan, BufferId buffer);

// steps.cpp: Program::steps.
void emit_groups(Plan& plan);

// arena.cpp: what follows from the order of the steps: Program::temporaries, last_read, first_write and sizes.
void assign_arena(Plan& plan);

}  // namespace dmlgraph::cpu
