// Reductions, alone and together with nodes that run row by row; short rows, long rows, and columns.
#include <array>
#include <string>

#include <doctest/doctest.h>

#include "cpu/tests/runs.h"
#include "cpu/tests/sanitizers.h"

namespace dmlgraph::cpu::tests {
namespace {

struct Space {
    Shape sizes;
    std::vector<int> axes;
};

// Rows of a few elements, of some blocks, longer than what fits in a cache; the same along leading
// dimensions.
const Space spaces[] = {
    {{5, 7}, {1}},       {{300, 3}, {1}},    {{2, 6, 10}, {1, 2}},   {{3, 2500}, {1}},
    {{2, 70'000}, {1}},  {{1, 90'001}, {1}}, {{5, 7}, {0}},          {{300, 301}, {0}},
    {{2, 300, 40}, {1}}, {{70'000, 3}, {0}}, {{6, 5, 4, 3}, {0, 2}}, {{6, 5, 4, 300}, {1, 3}},
    {{4, 1, 9}, {1}},    {{50, 60}, {0, 1}}, {{1, 1}, {0, 1}},       {{40, 2, 300}, {0, 2}},
};

std::string name_of(const Space& space) { return "space " + std::to_string(&space - spaces); }

}  // namespace

TEST_CASE("every reduction of every space") {
    constexpr auto same = DataType{};
    const struct {
        std::string_view name;
        DataType type;
        DataType result;
    } cases[] = {
        {"SUM", DataType::float32, same},
        {"SUM", DataType::float16, same},
        {"SUM", DataType::int32, same},
        {"SUM_ABS", DataType::int64, same},
        {"MAX", DataType::float32, same},
        {"MAX", DataType::uint8, same},
        {"MIN", DataType::float16, same},
        {"MIN", DataType::int64, same},
        {"ARGMAX", DataType::float32, DataType::uint32},
        {"ARGMAX", DataType::float16, DataType::int64},
        {"LAST_ARGMIN", DataType::int8, DataType::int32},
        {"LAST_ARGMIN", DataType::int64, DataType::uint32},
    };
    for (const Space& space : spaces) {
        for (const auto& [name, type, result] : cases) {
            const bool is_large = packed(type, space.sizes).element_count() > 20'000;
            if (is_large && (type == DataType::float16 || (watches_threads && name != "SUM"))) {
                continue;  // the sum is not a float16; threads share rows in the same way for all types
            }
            INFO(std::string(name), " of ", name_of(space));
            Graph graph;
            const int x = graph.input(type, space.sizes);
            graph.output(graph.reduce(name, graph.read(x), space.axes, result == same ? type : result));
            const Sample sample(graph, 5);
            check_run(graph, sample, {});
            check_run(graph, sample, {4, Lie::reversed, Lie::gapped});
            if (!is_large) {
                check_run(graph, sample, {4, Lie::transposed, Lie::packed});
            }
        }
    }
}

TEST_CASE("rows with what is around them") {
    for (const Space& space : spaces) {
        INFO(name_of(space));
        Graph graph;
        const int x = graph.input(DataType::float32, space.sizes), y = graph.input(DataType::float32, space.sizes);
        const int sum = graph.apply(add, {graph.read(x), graph.read(y)});
        const int most = graph.reduce("MAX", graph.read(sum), space.axes, DataType::float32);
        const int less = graph.apply(subtract, {graph.read(sum), graph.spread(most, space.sizes)});
        const int total = graph.reduce("SUM", graph.read(less), space.axes, DataType::float32);
        const int narrow = graph.apply(add, {graph.read(total), graph.read(most)});
        graph.output(graph.apply(subtract, {graph.read(less), graph.spread(narrow, space.sizes)}));
        graph.output(narrow);
        graph.output(graph.reduce("ARGMAX", graph.read(less), space.axes, DataType::uint32));
        const Sample sample(graph, 3);
        check_run(graph, sample, {});
        check_run(graph, sample, {4, Lie::transposed, Lie::reversed});
        check_run(graph, sample, {4, Lie::gapped, Lie::packed});
        check_run(graph, sample, {4, Lie::packed, Lie::packed, Overlap{0, 0, 0}});
        check_run(graph, sample, {4, Lie::packed, Lie::packed, Overlap{0, 1, 2}});
    }
}

TEST_CASE("rows of other operands") {
    for (const Space& space : spaces) {
        INFO(name_of(space));
        Graph graph;
        const Shape& sizes = space.sizes;
        const int x = graph.input(DataType::float32, sizes);
        Shape turned_sizes = sizes, single(sizes.size(), 1);
        const int last = static_cast<int>(sizes.size()) - 1;
        std::swap(turned_sizes.front(), turned_sizes.back());
        const int turned = graph.input(DataType::float32, turned_sizes);
        const int one = graph.input(DataType::float32, single);
        const int a = graph.apply(add, {graph.read(x), graph.transposed(turned, 0, last)});
        const int b = graph.apply(subtract, {graph.read(a), graph.spread(one, sizes)});
        const int c = graph.apply(add, {graph.read(b), graph.read(graph.sequence(DataType::float32, sizes, 0, 1))});
        const int least = graph.reduce("MIN", graph.read(c), space.axes, DataType::float32);
        graph.output(least);
        const Shape kept = sizes_of(graph.desc(least));
        const int row =
            graph.apply(add, {graph.read(least), graph.read(graph.sequence(DataType::float32, kept, 5, 1))});
        graph.output(graph.apply(add, {graph.read(x), graph.spread(row, sizes)}));
        graph.output(graph.apply(subtract, {graph.read(a), graph.spread(least, sizes)}));
        graph.output(
            graph.reduce("SUM", graph.read(graph.fill(DataType::float32, sizes, 2)), space.axes, DataType::float32));
        const Sample sample(graph, 4);
        check_run(graph, sample, {});
        check_run(graph, sample, {4, Lie::reversed, Lie::transposed});
    }
}

// What is computed of operands that are the same in every row, or in every element: once, unless it counts.
TEST_CASE("rows of operands that repeat") {
    for (const Space& space : spaces) {
        const Shape& sizes = space.sizes;
        INFO(name_of(space));
        Graph graph;
        Shape row(sizes.size(), 1);
        for (const int axis : space.axes) {
            row[static_cast<std::size_t>(axis)] = sizes[static_cast<std::size_t>(axis)];
        }
        const int x = graph.input(DataType::float32, sizes), r = graph.input(DataType::float32, row);
        const int one = graph.input(DataType::float32, Shape(sizes.size(), 1));
        const int sequence = graph.sequence(DataType::float32, sizes, 0, 1);
        const int counted = graph.apply(multiply, {graph.spread(r, sizes), graph.read(sequence)});
        graph.output(graph.reduce("MAX", graph.read(counted), space.axes, DataType::float32));
        const int fixed = graph.apply(add, {graph.spread(r, sizes), graph.spread(one, sizes)});
        const int both = graph.apply(greater, {graph.read(fixed), graph.read(x)});
        const int most = graph.reduce("MAX", graph.read(both), space.axes, DataType::float32);
        graph.output(graph.apply(subtract, {graph.read(both), graph.spread(most, sizes)}));
        graph.output(fixed);
        const int scalar = graph.apply(negate, {graph.spread(one, sizes)});
        graph.output(scalar);
        graph.output(graph.apply(multiply, {graph.read(scalar), graph.spread(most, sizes)}));
        graph.output(graph.reduce("SUM", graph.read(scalar), space.axes, DataType::float32));
        const Shape kept = sizes_of(graph.desc(most));
        const int narrow = graph.apply(add, {graph.spread(one, kept), graph.spread(one, kept)});
        graph.output(graph.apply(subtract, {graph.read(most), graph.read(narrow)}));
        graph.output(narrow);
        const Sample sample(graph, 6);
        check_run(graph, sample, {});
        check_run(graph, sample, {4, Lie::reversed, Lie::transposed});
    }
}

}  // namespace dmlgraph::cpu::tests
