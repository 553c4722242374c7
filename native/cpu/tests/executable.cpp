// Executables that several threads run at the same time, closed executables, and invalid graphs.
#include "cpu/runtime/executable.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cpu/products/panels.h"
#include "cpu/runtime/packings.h"
#include "cpu/tests/any_thread.h"
#include "cpu/tests/random.h"
#include "cpu/tests/runs.h"

namespace dmlgraph::cpu::tests {
namespace {

constexpr std::int64_t side = 200;  // large enough for several threads

Graph graph_of(int variant) {
    Graph graph;
    const Shape sizes{side, side};
    const int x = graph.input(DataType::float32, sizes), y = graph.input(DataType::float32, sizes);
    int value = graph.apply(add, {graph.read(x), graph.transposed(y, 0, 1)});
    if (variant % 2 == 1) {
        const int sum = graph.reduce("SUM", graph.read(value), {variant % 4 == 1 ? 1 : 0}, DataType::float32);
        value = graph.apply(subtract, {graph.read(value), graph.spread(sum, sizes)});
    }
    const int turned = graph.apply(negate, {graph.transposed(value, 0, 1)});
    graph.output(graph.apply(greater, {graph.transposed(turned, 0, 1), graph.read(x)}));
    graph.output(graph.slice(graph.read(turned), {side / 2, side}, {1, 0}, {2, 1}));
    return graph;
}

constexpr int runs = 6;

}  // namespace

TEST_CASE("one executable on several threads") {
    for (const int variant : {0, 1, 3}) {
        const Graph graph = graph_of(variant);
        Executable executable(plan(graph.spec()), 3);
        std::mutex mutex;  // only one thread at a time gets a context
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t) {
            threads.emplace_back([&, t] {
                const Sample sample(graph, static_cast<std::uint64_t>(t));
                Trial trial(graph, sample, {.threads = 3});
                for (int run = 0; run < runs; ++run) {
                    Executable::Context* context = nullptr;
                    {
                        const std::lock_guard lock(mutex);
                        context = &executable.acquire();
                    }
                    trial.run(executable, *context);
                    const std::lock_guard lock(mutex);
                    executable.release(*context);
                    if (run % 4 == 3) {
                        executable.trim();  // while others are running
                    }
                }
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
    }
}

// A step keeps the schedule of the strides that it has seen last.
TEST_CASE("one executable of arrays of changing strides") {
    for (const int variant : {0, 1, 3}) {
        const Graph graph = graph_of(variant);
        Executable executable(plan(graph.spec()), 2);
        std::vector<std::thread> threads;
        std::vector<Executable::Context*> contexts{&executable.acquire(), &executable.acquire()};
        for (std::size_t t = 0; t < contexts.size(); ++t) {
            threads.emplace_back([&, t] {
                const Sample sample(graph, t);
                for (std::size_t run = t; run < 2 * std::size(lies) + t; ++run) {
                    const Lie inputs = lies[run % std::size(lies)], outputs = lies[run / 2 % std::size(lies)];
                    Trial trial(graph, sample, {.threads = 2, .inputs = inputs, .outputs = outputs});
                    trial.run(executable, *contexts[t]);
                    trial.run(executable, *contexts[t]);
                }
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
    }
}

TEST_CASE("runs are timed while others are not") {
    const Graph graph = graph_of(1);
    Executable executable(plan(graph.spec()), 2);
    std::vector<Executable::Context*> contexts;
    for (int t = 0; t < 4; ++t) {
        contexts.push_back(&executable.acquire());
    }
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            const Sample sample(graph, static_cast<std::uint64_t>(t));
            Trial trial(graph, sample, {.threads = 2});
            std::vector<double> seconds;
            StepClock clock(&seconds);
            for (int run = 0; run < runs; ++run) {
                const bool timed = (t + run) % 2 == 0;
                seconds.clear();
                trial.run(executable, *contexts[static_cast<std::size_t>(t)], timed ? &clock : nullptr);
                check_on_any_thread(seconds.size() == (timed ? executable.program().steps.size() : 0),
                                    "the steps of timed runs");
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

TEST_CASE("a run is cancelled by another thread") {
    const Graph graph = graph_of(1);
    const Sample sample(graph, 1);
    for (const int workers : {1, 3}) {
        Executable executable(plan(graph.spec()), workers);
        Executable::Context& context = executable.acquire();
        Trial trial(graph, sample, {.threads = workers});
        bool cancelled = false;
        std::atomic<bool> over = false;
        std::thread other([&] {
            while (!over) {
                context.cancel();
            }
        });
        while (!cancelled) {
            try {
                trial.run(executable, context);
            } catch (const Cancelled&) {
                cancelled = true;
            }
        }
        over = true;
        other.join();
        context.renew();
        trial.run(executable, context);  // it finds what the cancelled run left
        executable.release(context);
    }
}

TEST_CASE("executables come and go on several threads") {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([t] {
            const Graph graph = graph_of(t);
            const Sample sample(graph, static_cast<std::uint64_t>(t));
            for (int run = 0; run < runs; ++run) {
                check_run(graph, sample, {.threads = 1 + (t + run) % 4});
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

TEST_CASE("an executable that is closed keeps nothing") {
    const Graph graph = graph_of(1);
    Executable executable(plan(graph.spec()), 2);
    const Sample sample(graph, 1);
    Trial trial(graph, sample, {.threads = 2});
    Executable::Context* const first = &executable.acquire();
    Executable::Context* const second = &executable.acquire();
    CHECK_MESSAGE(first != second, "two runs have memory of their own");
    trial.run(executable, *first);
    executable.release(*first);
    executable.trim();
    trial.run(executable, *second);  // it was in use
    executable.release(*second);
    CHECK_MESSAGE(&executable.acquire() == second, "memory is used again");
    executable.release(*second);
    executable.trim();
    trial.run(executable, executable.acquire());
}

TEST_CASE("constants that steps keep are not read in runs") {
    Random random(9);
    for (int i = 0; i < 20; ++i) {
        const std::int64_t m = random.between(6, 60), k = random.between(1, 60), n = random.between(20, 90);
        Graph graph;
        const int x = graph.input(DataType::float32, {m, k});
        const int kept = graph.input(DataType::float32, {k, n}), turned = graph.input(DataType::float32, {n, k});
        const int also_read = graph.input(DataType::float32, {k, n}),
                  in_part = graph.input(DataType::float32, {k, n + 1});
        const int part = graph.slice(graph.read(in_part), {k, n}, {0, 1}, {1, 1});
        const int less = graph.slice(graph.read(x), {m - 1, k}, {1, 0}, {1, 1});
        for (const Operand& each :
             {graph.read(kept), graph.transposed(turned, 0, 1), graph.read(also_read), graph.read(part)}) {
            for (const int rows : {x, less, x}) {  // which share what is packed
                graph.output(graph.product(graph.read(rows), each));
            }
        }
        graph.output(graph.apply(negate, {graph.read(also_read)}));
        const Sample sample(graph, static_cast<std::uint64_t>(i));
        Binding binding(graph.input_count(), graph.output_count());
        std::vector<TestArray> inputs, outputs;
        for (std::size_t slot = 0; slot < graph.input_count(); ++slot) {
            inputs.emplace_back(graph.input_desc(slot), Lie::packed).set(sample.inputs[slot]);
            binding.inputs[slot] = inputs.back().array();
        }
        for (std::size_t slot = 0; slot < graph.output_count(); ++slot) {
            binding.outputs[slot] = outputs.emplace_back(graph.output_desc(slot), Lie::packed).array();
        }
        Executable executable(plan(graph.spec()), 2);
        Binding constants = binding;
        constants.inputs[0] = {};
        std::set<std::size_t> gone;
        executable.prepare(constants, [] {}, [&](std::size_t slot) { gone.insert(slot); });
        CHECK_MESSAGE((gone == std::set<std::size_t>{1, 2}), "what only products read, as a whole");
        for (const std::size_t slot : gone) {
            const std::size_t bytes = graph.input_desc(slot).total_bytes();
            const Block memory(bytes);
            unpack(executable.program(), slot, memory.get());
            CHECK_MESSAGE(std::memcmp(memory.get(), inputs[slot].array().data, bytes) == 0, "constant ", slot,
                          " is as it was");
            binding.inputs[slot] = {};
        }
        executable.run(executable.acquire(), binding);
        for (std::size_t slot = 0; slot < outputs.size(); ++slot) {
            CHECK_MESSAGE(outputs[slot].numbers() == sample.outputs[slot], "output ", slot, " is as expected");
        }
    }
}

TEST_CASE("an executable that never runs") {
    const Graph graph = graph_of(0);
    const Executable executable(plan(graph.spec()), 2);
    CHECK_MESSAGE((executable.threads() == 2 && !executable.program().steps.empty()), "it is ready");
}

TEST_CASE("graphs that are none") {
    const struct {
        std::string_view what;
        void (*spoil)(GraphSpec& graph);
    } cases[] = {
        {"an output of no value", [](GraphSpec& graph) { graph.outputs[0] = 1000; }},
        {"an output of value -1", [](GraphSpec& graph) { graph.outputs[0] = -1; }},
        {"an output that is an input", [](GraphSpec& graph) { graph.outputs[0] = 0; }},
        {"a node that reads itself", [](GraphSpec& graph) { graph.nodes[0].sources[0] = 2; }},
        {"a node that reads a later one", [](GraphSpec& graph) { graph.nodes[0].sources[1] = 3; }},
        {"fewer sources than inputs", [](GraphSpec& graph) { graph.nodes[0].sources.pop_back(); }},
    };
    for (const auto& [what, spoil] : cases) {
        GraphSpec spec = graph_of(0).spec();
        spoil(spec);
        bool refused = false;
        try {
            plan(std::move(spec));
        } catch (const std::invalid_argument&) {
            refused = true;
        }
        CHECK_MESSAGE(refused, what);
    }
}

TEST_CASE("a plan whose views leave their memory is not made") {
    const struct {
        std::string_view what;
        AffineMap map;
    } cases[] = {
        {"before the first element", {{0, 1}, {1, 1}, {-1, 0}}},
        {"behind the last element", {{0, 1}, {1, 1}, {0, 1}}},
        {"with too long steps", {{0, 1}, {2, 1}, {0, 0}}},
        {"backwards from the first element", {{0, 1}, {1, -1}, {0, 0}}},
    };
    for (const bool computed : {false, true}) {
        for (const auto& [what, map] : cases) {
            Graph graph;
            const int x = graph.input(DataType::float32, {side, side});
            const int from = computed ? graph.step(graph.read(x), false) : x;
            graph.output(graph.slice(graph.read(from), {side, side}, {0, 0}, {1, 1}));
            GraphSpec spec = graph.spec();
            spec.nodes.back().name = "the slice";
            spec.nodes.back().maps = {map};
            std::string problem;
            try {
                plan(std::move(spec));
            } catch (const PlanError& error) {
                problem = error.what();
            }
            CHECK_MESSAGE(problem.find("'the slice'") != std::string::npos, what, ": ", problem);
        }
    }
}

TEST_CASE("a step that throws leaves the context usable") {
    class Thrower final : public Step {
    public:
        explicit Thrower(std::vector<View> outputs) : to_(outputs.at(0)) {}
        void run(RunContext& context) const override {
            if (has_run_) {
                throw std::runtime_error("no");
            }
            has_run_ = true;
            context.data(to_)[0] = std::byte{1};
        }
        void visit(const Visitor& visitor) override { visitor(to_, true); }

    private:
        View to_;
        mutable bool has_run_ = false;  // not in the output, which is new in each run where red zones are around it
    };
    class Maker final : public StepFactory {
    public:
        std::unique_ptr<Step> make(StepTensors tensors) const override {
            return std::make_unique<Thrower>(std::move(tensors.outputs));
        }
    };
    GraphSpec spec;
    NodeSpec& node = spec.nodes.emplace_back();
    node.name = "thrower";
    node.kind = NodeKind::step;
    node.outputs = {packed(DataType::uint8, {4})};
    node.make_step = std::make_unique<Maker>();
    spec.outputs = {0};
    Executable executable(plan(std::move(spec)), 1);
    std::byte result[4] = {};
    Binding binding(0, 1);
    binding.outputs[0].data = result;
    Executable::Context& context = executable.acquire();
    for (const bool expected : {false, true, true}) {
        bool thrown = false;
        try {
            executable.run(context, binding);
        } catch (const std::runtime_error&) {
            thrown = true;
        }
        CHECK_MESSAGE(thrown == expected, "what a step throws arrives");
    }
    executable.release(context);
}

}  // namespace dmlgraph::cpu::tests
