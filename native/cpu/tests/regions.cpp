// Element-wise regions: operands of every layout, sizes near those of blocks, and intermediate values that are fills,
// sequences or outputs.
#include <string>

#include <doctest/doctest.h>

#include "cpu/tests/runs.h"

namespace dmlgraph::cpu::tests {
namespace {

constexpr DataType types[] = {DataType::float32, DataType::float16, DataType::int32, DataType::int64, DataType::uint8};

// Below, at and above the least and greatest blocks, and large enough for several threads.
constexpr std::int64_t counts[] = {1, 3, 63, 64, 255, 256, 257, 1023, 1025, 2047, 2048, 2049, 6145, 70'001};

std::string name_of(DataType type) { return "type " + std::to_string(static_cast<int>(type)); }

}  // namespace

TEST_CASE("a chain of every count") {
    for (const std::int64_t count : counts) {
        INFO(count, " elements");
        Graph graph;
        const int x = graph.input(DataType::float32, {count}), y = graph.input(DataType::float32, {count});
        const int sum = graph.apply(add, {graph.read(x), graph.read(y)});
        const int product = graph.apply(multiply, {graph.read(sum), graph.read(x)});
        graph.output(graph.apply(relu, {graph.read(product)}));
        check_graph(graph);
    }
}

TEST_CASE("a chain of every type") {
    for (const DataType type : types) {
        INFO(name_of(type));
        Graph graph;
        const int x = graph.input(type, {7, 301}), y = graph.input(type, {7, 301});
        const int most = graph.apply(greater, {graph.read(x), graph.read(y)});
        const int sum = graph.apply(add, {graph.read(most), graph.read(y)});
        graph.output(sum);
        graph.output(graph.apply(lesser, {graph.read(sum), graph.read(x)}));
        check_graph(graph);
    }
}

TEST_CASE("operands of several types") {
    for (const DataType from : types) {
        for (const DataType to : types) {
            INFO(name_of(from), " to ", name_of(to));
            Graph graph;
            const int x = graph.input(from, {5, 517});
            const int positive = graph.apply(greater, {graph.read(x), graph.read(graph.fill(from, {5, 517}, 0))});
            const int converted = graph.convert(graph.read(positive), to);
            graph.output(graph.apply(add, {graph.read(converted), graph.read(converted)}));
            check_graph(graph);
        }
    }
}

TEST_CASE("broadcast operands") {
    const struct {
        Shape whole;
        Shape part;
    } cases[] = {
        {{300, 300}, {1, 300}},           {{300, 300}, {300, 1}},       {{5, 7, 11}, {1, 7, 1}},
        {{5, 7, 11}, {5, 1, 11}},         {{2, 3, 5, 7}, {2, 1, 5, 1}}, {{4, 2050}, {1, 1}},
        {{2, 3, 4, 512}, {1, 3, 1, 512}}, {{3, 1, 257}, {1, 1, 257}},   {{1, 1}, {1, 1}},
    };
    for (const auto& [whole, part] : cases) {
        INFO("broadcast case ", &whole - &cases[0].whole);
        Graph graph;
        const int x = graph.input(DataType::float32, whole), y = graph.input(DataType::float32, part);
        const int doubled = graph.apply(add, {graph.read(y), graph.read(y)});
        const int sum = graph.apply(add, {graph.read(x), graph.spread(doubled, whole)});
        graph.output(graph.apply(multiply, {graph.read(sum), graph.spread(y, whole)}));
        check_graph(graph);
    }
}

TEST_CASE("an outer product") {
    Graph graph;
    const int x = graph.input(DataType::float32, {260, 1}), y = graph.input(DataType::float32, {1, 270});
    graph.output(graph.apply(multiply, {graph.spread(x, {260, 270}), graph.spread(y, {260, 270})}));
    check_graph(graph);
}

TEST_CASE("transposed operands") {
    const Shape cases[] = {{3, 5}, {64, 33}, {130, 99}, {4, 260}, {2, 65, 40}, {3, 4, 5, 6}};
    for (const DataType type : types) {
        for (const Shape& sizes : cases) {
            INFO(name_of(type), ", sizes of rank ", sizes.size());
            Graph graph;
            const int x = graph.input(type, sizes);
            const int last = static_cast<int>(sizes.size()) - 1;
            const Operand turned = graph.transposed(x, 0, last);
            const int y = graph.apply(add, {turned, turned});
            graph.output(y);
            graph.output(graph.apply(subtract, {graph.transposed(y, 0, last), graph.read(x)}));
            check_graph(graph);
        }
    }
}

TEST_CASE("results with strides") {
    Graph graph;
    const int x = graph.input(DataType::int32, {6, 50, 9});
    const TensorDesc gapped = strided(DataType::int32, {6, 50, 9}, {1000, 20, 2});
    const TensorDesc turned = strided(DataType::int32, {6, 50, 9}, {450, 1, 50});
    const int y = graph.apply(add, {graph.read(x), graph.read(x)}, gapped);
    const int z = graph.apply(negate, {graph.read(y)}, turned);
    graph.output(graph.apply(subtract, {graph.read(z), graph.read(x)}));
    graph.output(y);
    // The gaps of y are zero where its buffer is read as a line.
    graph.output(graph.apply(copied, {graph.view(y, {graph.desc(y).span()}, {1})}));
    check_graph(graph);
}

TEST_CASE("buffers read in other sizes") {
    Graph graph;
    const int x = graph.input(DataType::float32, {12, 35});
    const int doubled = graph.apply(add, {graph.read(x), graph.read(x)});
    const int line = graph.apply(add, {graph.view(doubled, {420}, {1}), graph.view(x, {420}, {1})});
    graph.output(graph.apply(negate, {graph.view(line, {4, 5, 21}, {105, 21, 1})}));
    graph.output(graph.apply(add, {graph.view(line, {418, 3}, {1, 1}), graph.view(doubled, {418, 3}, {1, 1})}));
    graph.output(graph.apply(copied, {graph.view(doubled, {35, 12}, {1, 35})}));
    graph.output(graph.apply(copied, {graph.view(doubled, {6, 7}, {70, 5})}));
    check_graph(graph);
}

TEST_CASE("fills and sequences") {
    for (const DataType type : types) {
        INFO(name_of(type));
        Graph graph;
        const Shape sizes{3, 7, 100};
        const int x = graph.input(type, sizes);
        const int two = graph.fill(type, sizes, 2), count = graph.sequence(type, sizes, 0, 1);
        const int still = graph.sequence(type, sizes, 3, 0);
        graph.output(two);
        graph.output(count);
        graph.output(graph.apply(add, {graph.read(two), graph.read(graph.fill(type, sizes, 1))}));
        graph.output(graph.compound(graph.read(x), graph.read(two)));
        graph.output(graph.apply(greater, {graph.read(x), graph.read(still)}));
        if (type == DataType::int32 || type == DataType::float32) {
            graph.output(graph.apply(subtract, {graph.read(count), graph.read(x)}));
            graph.output(
                graph.apply(add, {graph.read(x), graph.transposed(graph.sequence(type, {100, 7, 3}, 5, -2), 0, 2)}));
        }
        graph.output(graph.apply(greater, {graph.read(x), graph.read(graph.constant(type, sizes, 9))}));
        graph.output(graph.apply(lesser, {graph.read(x), graph.spread(graph.constant(type, {1, 7, 1}, 8), sizes)}));
        check_graph(graph);
    }
}

TEST_CASE("several outputs and copies") {
    Graph graph;
    const int x = graph.input(DataType::float32, {9, 333}), y = graph.input(DataType::float32, {9, 333});
    const int sum = graph.apply(add, {graph.read(x), graph.read(y)});
    const int difference = graph.apply(subtract, {graph.read(x), graph.read(y)});
    const int both = graph.apply(greater, {graph.read(sum), graph.read(difference)});
    const int again = graph.same(graph.read(both), packed(DataType::float32, {9, 333}));
    graph.apply(negate, {graph.read(both)});  // nothing reads it
    for (const int value : {sum, both, sum, again, difference}) {
        graph.output(value);
    }
    graph.output(graph.same(graph.read(x), packed(DataType::float32, {9, 333})));
    graph.output(graph.same(graph.transposed(y, 0, 1), packed(DataType::float32, {333, 9})));
    check_graph(graph);
}

TEST_CASE("more tensors than usual") {
    Graph graph;
    std::vector<int> inputs;
    for (int k = 0; k < 40; ++k) {
        inputs.push_back(graph.input(DataType::float32, {700}));
    }
    int sum = inputs[0];
    for (const int each : inputs) {
        sum = graph.apply(add, {graph.read(sum), graph.read(each)});
    }
    graph.output(sum);
    const Sample sample(graph, 1);
    check_run(graph, sample, {});
    check_run(graph, sample, {4, Lie::reversed, Lie::gapped});
}

TEST_CASE("buffers are used again") {
    Graph graph;
    const Shape sizes{130, 181};
    const int x = graph.input(DataType::float32, sizes);
    int value = x;
    for (int k = 0; k < 30; ++k) {  // a transposition ends a region
        const Shape now = sizes_of(graph.desc(value));
        const int turned = graph.apply(negate, {graph.transposed(value, 0, 1)});
        value = graph.apply(
            greater, {graph.read(turned), graph.read(graph.fill(DataType::float32, {now[1], now[0]}, k % 3 - 3))});
    }
    graph.output(value);
    check_graph(graph);
    const Program program = plan(graph.spec());
    CHECK_MESSAGE(program.arena_bytes <= 2 * (130 * 181 * 4 + 64 + red_zone), "a chain needs two buffers");
}

TEST_CASE("streams of large results") {
    // 32 MiB are written past the caches.
    Graph graph;
    const std::int64_t count = (32 << 20) / 4 + 37;
    const int x = graph.input(DataType::float32, {count});
    const int y = graph.apply(add, {graph.read(x), graph.read(x)});
    graph.output(graph.apply(relu, {graph.read(y)}));
    graph.output(y);
    graph.output(graph.fill(DataType::float32, {count}, 3));
    Executable executable(plan(graph.spec()), 3);
    Executable::Context& context = executable.acquire();
    std::vector<float> in(static_cast<std::size_t>(count)), positive(in.size()), doubled(in.size()), filled(in.size());
    for (std::size_t i = 0; i < in.size(); ++i) {
        in[i] = static_cast<float>(static_cast<std::int64_t>(i % 1001) - 500);
    }
    Binding binding(1, 3);
    binding.inputs[0].data = reinterpret_cast<std::byte*>(in.data());
    std::size_t slot = 0;
    for (std::vector<float>* const each : {&positive, &doubled, &filled}) {
        binding.outputs[slot++].data = reinterpret_cast<std::byte*>(each->data());
    }
    executable.run(context, binding);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
        const float twice = 2 * in[i];
        wrong += doubled[i] != twice || positive[i] != (twice > 0 ? twice : 0) || filled[i] != 3;
    }
    CHECK_MESSAGE(wrong == 0, "all elements are right");
    executable.release(context);
}

}  // namespace dmlgraph::cpu::tests
