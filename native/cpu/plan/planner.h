// The planner's state, shared by its passes: stages.cpp forms regions, places.cpp gives values their places,
// emit.cpp writes the steps.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "cpu/plan/plan.h"

namespace dmlgraph::cpu {

struct Region;

struct Reader {
    std::int32_t node;
    std::int32_t port;
};

struct Value {
    TensorDesc desc;
    std::int32_t node = -1;  // -1: a graph input
    std::int32_t port = 0;
    std::vector<Reader> readers;
    std::vector<std::int32_t> slots;  // graph outputs it is
    std::int32_t fill = -1;           // offset in the constants of the one element it is made of
    bool raw_needed = false;          // some reader reads the buffer by strides that are no steps along the value
    bool raw = false;                 // the buffer holds it as its description says
    bool placed = false;
    View place;
    std::vector<View> copies;  // further places to write it into
};

// Where reductions and what is connected to them run row by row; dimensions of size 1 are left out.
struct RowSpace {
    int rank = 0;
    Sizes sizes{};
    std::uint32_t reduced = 0;  // a bit for each dimension of a row
    bool is_trailing = false;   // whether those are the last ones
    bool is_columns = false;    // whether the last one is none of them
    bool is_long = false;       // whether rows are taken in pieces

    bool reduces(int dimension) const { return (reduced >> dimension & 1) != 0; }
    bool operator==(const RowSpace&) const = default;
};

class Planner {
public:
    explicit Planner(GraphSpec graph);
    Program run();

private:
    struct Node {
        NodeSpec spec;
        std::int32_t first_value = 0;
        std::int32_t stage = 0;
        std::int32_t data_offset = -1;  // of its one element in the constants
        std::int32_t group = 0;         // the parent in the union of groups
        bool is_virtual = false;        // computed where it is read: fills and sequences
        std::int32_t space = -1;        // in spaces_, of nodes that may run row by row
        bool is_narrow = false;         // an element-wise node of one element a row
    };

    // stages.cpp
    void connect();
    void settle_views();
    void find_spaces();  // row_spaces.cpp
    void assign_stages();
    void sink();
    void unite();
    // places.cpp
    void place_constants();
    void place_outputs();
    void place_parts();
    void place_others();
    void place_views();
    // emit.cpp
    void order_groups();
    void emit_group(std::span<const std::int32_t> nodes);
    void emit_region(std::span<const std::int32_t> nodes);
    void emit_rows(Region region, std::vector<std::string> names);
    void emit_view(std::int32_t node_id);
    void emit_moves(std::int32_t node_id);
    void emit_step(std::int32_t node_id);
    void emit_copy(const View& from, const View& to, const std::string& name);
    void emit_clear(const Value& value, const std::string& name);
    void add(std::unique_ptr<Step> step, std::vector<std::string> names);
    void finish();

    Value& value(std::int32_t id) { return values_[static_cast<std::size_t>(id)]; }
    const Value& value(std::int32_t id) const { return values_[static_cast<std::size_t>(id)]; }
    Node& node(std::int32_t id) { return nodes_[static_cast<std::size_t>(id)]; }
    const Node& node(std::int32_t id) const { return nodes_[static_cast<std::size_t>(id)]; }
    std::int32_t result(std::int32_t node_id, std::int32_t port = 0) const { return node(node_id).first_value + port; }
    std::int32_t find(std::int32_t node_id);
    void join_groups(std::int32_t one, std::int32_t other);
    // Whether a reader takes the value element by element, as the node that makes it makes it.
    bool in_register(const Value& value, const Reader& reader) const;
    // Whether a node of one element a row is taken by one of all elements while the row is at hand.
    bool in_row(const Node& maker, const Value& made, const Node& taker, const TensorDesc& desc) const;
    static bool is_computed(const Node& node) {
        return node.spec.kind == NodeKind::element_wise || node.spec.kind == NodeKind::reduce;
    }
    // Whether a reader computes the value by itself or takes it from a register of its region.
    bool inlined(const Value& value, const Reader& reader);
    // The view through which a node reads its input.
    View read(std::int32_t node_id, std::int32_t port);
    // The offset of a number in the constants.
    std::int32_t number(float value);
    View fill_view(std::int32_t offset, DataType type, int rank, const Sizes& sizes) const;
    // Whether the value is a part of another one's memory, at no cost.
    bool seen_through(const Value& value) const;
    bool needs_place(const Value& value);
    // Whether the piece is all of an input as it stands, so that the input can be written in place.
    bool is_whole(const NodeSpec& spec, const Piece& piece) const;
    void require_packed(BufferId buffer);
    BufferId output_buffer(std::int32_t slot) const;
    View temporary(const TensorDesc& desc);

    friend class RegionWriter;

    std::vector<Node> nodes_;
    std::vector<Value> values_;
    std::vector<RowSpace> spaces_;
    std::vector<std::int32_t> outputs_;
    std::vector<std::size_t> temporary_bytes_;
    std::unordered_map<std::uint32_t, std::int32_t> numbers_;  // offsets in the constants by bits
    Program program_;
};

}  // namespace dmlgraph::cpu
