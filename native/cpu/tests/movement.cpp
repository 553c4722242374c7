// Movement: views, copied pieces, and steps that need packed tensors.
#include <doctest/doctest.h>

#include "cpu/tests/runs.h"

namespace dmlgraph::cpu::tests {
namespace {

constexpr DataType types[] = {DataType::float32, DataType::uint8, DataType::int16, DataType::int64};

int doubled(Graph& graph, int value) { return graph.apply(add, {graph.read(value), graph.read(value)}); }

}  // namespace

TEST_CASE("slices") {
    for (const DataType type : types) {
        Graph graph;
        const int x = graph.input(type, {9, 10, 40});
        const int y = doubled(graph, x);
        for (const int value : {x, y}) {
            const int inner = graph.slice(graph.read(value), {4, 5, 20}, {1, 2, 3}, {2, 1, 1});
            const int backwards = graph.slice(graph.read(value), {9, 5, 13}, {8, 8, 38}, {-1, -2, -3});
            graph.output(inner);
            graph.output(doubled(graph, backwards));
            graph.output(graph.slice(graph.read(inner), {2, 5, 7}, {3, 0, 19}, {-3, 1, -2}));
            graph.output(graph.apply(copied, {graph.transposed(backwards, 0, 2)}));
        }
        check_graph(graph);
    }
}

TEST_CASE("splits and joins") {
    for (const DataType type : types) {
        for (const int axis : {0, 1, 2}) {
            Graph graph;
            const int x = graph.input(type, {6, 6, 70}), y = graph.input(type, {6, 6, 70});
            const Shape parts = axis == 2 ? Shape{1, 33, 36} : Shape{1, 2, 3};
            const std::vector<int> pieces = graph.split(graph.read(doubled(graph, x)), axis, parts);
            const int first = doubled(graph, pieces[2]);
            const int joined =
                graph.join({graph.read(first), graph.read(pieces[0]), graph.read(y), graph.read(pieces[1])}, axis);
            graph.output(joined);
            graph.output(first);
            graph.output(doubled(graph, graph.join({graph.read(joined), graph.read(joined), graph.read(x)}, axis)));
            check_graph(graph);
        }
    }
}

TEST_CASE("joins of what is computed for them") {
    Graph graph;
    const int x = graph.input(DataType::float32, {300, 100}), y = graph.input(DataType::float32, {300, 100});
    const int a = doubled(graph, x), b = graph.apply(add, {graph.read(x), graph.read(y)});
    const int inner = graph.join({graph.read(a), graph.read(b)}, 1);
    const int two = graph.fill(DataType::float32, {300, 5}, 2);
    const int turned = graph.apply(negate, {graph.transposed(y, 0, 1)});
    const int outer = graph.join({graph.read(inner), graph.read(two), graph.transposed(turned, 0, 1)}, 1);
    graph.output(outer);
    graph.output(doubled(graph, inner));
    check_graph(graph);
}

// Its gaps are cleared by one step and its elements written by the next, which may not give its memory to another
// result.
TEST_CASE("a result with gaps that nothing reads") {
    Graph graph;
    const int x = graph.input(DataType::float32, {2});
    const int made = graph.step(graph.read(x), true);
    const int sum = doubled(graph, made);
    const int gapped = graph.apply(negate, {graph.read(made)}, strided(DataType::float32, {2}, {2}));
    graph.same(graph.view(gapped, {3}, {1}), packed(DataType::float32, {3}));
    graph.output(graph.step(graph.read(sum), true));
    check_graph(graph);
}

// A dimension of size 1 of what is joined or padded is elsewhere than where it was computed.
TEST_CASE("views whose dimensions of size 1 are elsewhere") {
    const Shape orders[] = {{5, 1, 8}, {1, 5, 8}, {5, 8, 1}, {5, 8}, {1, 5, 8, 1}, {5, 1, 1, 8}};
    for (const Shape& made : orders) {
        for (const Shape& read : orders) {
            Graph graph;
            const int x = graph.input(DataType::float32, made), y = graph.input(DataType::float32, read);
            const int a = doubled(graph, x), b = graph.step(graph.read(x), true);
            Shape strides(read.size());
            std::int64_t unit = 1;
            for (std::size_t d = read.size(); d-- > 0; unit *= read[d]) {
                strides[d] = unit;
            }
            const Operand first = graph.view(a, read, strides), second = graph.view(b, read, strides);
            for (int axis = 0; axis < static_cast<int>(read.size()); ++axis) {
                graph.output(graph.join({graph.read(y), first, second, first}, axis));
            }
            const Shape around(read.size(), 1);
            graph.output(doubled(graph, graph.pad(second, around, around, 3)));
            graph.output(b);
            check_graph(graph);
        }
    }
}

TEST_CASE("padding") {
    for (const DataType type : types) {
        Graph graph;
        const int x = graph.input(type, {5, 6, 30});
        const int y = doubled(graph, x);
        graph.output(graph.pad(graph.read(x), {1, 0, 2}, {0, 3, 1}, 3));
        graph.output(graph.pad(graph.read(y), {2, 1, 0}, {1, 1, 7}, 0));
        graph.output(doubled(graph, graph.pad(graph.transposed(y, 0, 2), {0, 0, 1}, {0, 0, 0}, 1)));
        check_graph(graph);
    }
}

TEST_CASE("tiles") {
    for (const DataType type : types) {
        Graph graph;
        const int x = graph.input(type, {3, 1, 40});
        graph.output(graph.tile(graph.read(x), {2, 5, 3}));
        graph.output(graph.tile(graph.read(doubled(graph, x)), {1, 300, 1}));
        graph.output(doubled(graph, graph.tile(graph.read(x), {1, 1, 1})));
        check_graph(graph);
    }
}

TEST_CASE("steps of their own") {
    for (const bool takes_strides : {false, true}) {
        Graph graph;
        const int x = graph.input(DataType::int32, {6, 40, 8});
        const int y = graph.step(graph.read(x), takes_strides);
        const int gapped =
            graph.apply(add, {graph.read(y), graph.read(x)}, strided(DataType::int32, {6, 40, 8}, {700, 17, 2}));
        graph.output(graph.step(graph.read(gapped), true));
        graph.output(graph.step(graph.read(graph.fill(DataType::int32, {6, 40, 8}, 5)), takes_strides));
        graph.output(graph.step(graph.read(graph.constant(DataType::int32, {6, 40, 8}, 5)), takes_strides));
        const int part = graph.slice(graph.read(y), {6, 20, 8}, {0, 1, 7}, {1, 2, -1});
        graph.output(graph.join({graph.read(graph.step(graph.read(part), true)), graph.read(y)}, 1));
        const int last = graph.step(graph.read(y), takes_strides);
        graph.output(last);
        graph.output(last);
        graph.step(graph.read(last), takes_strides);  // nothing reads it
        check_graph(graph);
    }
}

}  // namespace dmlgraph::cpu::tests
