// Runs without enough memory: each allocation fails in turn, on the caller or on a helper, which is an exception to the
// caller; afterwards the executable runs as before.
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cpu/runtime/executable.h"
#include "cpu/runtime/thread_pool.h"
#include "cpu/steps/native_step.h"
#include "cpu/tests/failing_allocations.h"
#include "cpu/tests/graph.h"
#include "cpu/tests/random.h"
#include "cpu/tests/tensors.h"

namespace dmlgraph::cpu::tests {
namespace {

constexpr int threads = 3;

class NativeFactory final : public StepFactory {
public:
    explicit NativeFactory(StepParameters parameters) : parameters_(std::move(parameters)) {}
    std::unique_ptr<Step> make(StepTensors tensors) const override { return make_native_step(tensors, parameters_); }

private:
    StepParameters parameters_;
};

// A graph of one native step, whose first output it returns; an empty description is an absent tensor.
GraphSpec native(const StepParameters& parameters, const std::vector<TensorDesc>& inputs,
                 const std::vector<TensorDesc>& outputs) {
    GraphSpec spec;
    NodeSpec node;
    node.name = "step";
    node.kind = NodeKind::step;
    node.inputs = inputs;
    node.outputs = outputs;
    for (const TensorDesc& desc : inputs) {
        node.sources.push_back(desc.present() ? static_cast<std::int32_t>(spec.inputs.size()) : -1);
        if (desc.present()) {
            spec.inputs.push_back(desc);
        }
    }
    node.make_step = std::make_unique<NativeFactory>(parameters);
    spec.outputs.push_back(static_cast<std::int32_t>(spec.inputs.size()));
    spec.nodes.push_back(std::move(node));
    return spec;
}

const TensorDesc absent{};

TensorDesc floats(const Shape& sizes) { return packed(DataType::float32, sizes); }

GraphSpec element_wise() {
    Graph graph;
    const Shape sizes{300, 500};
    const int x = graph.input(DataType::float32, sizes), y = graph.input(DataType::float32, sizes);
    const int sum = graph.apply(add, {graph.read(x), graph.read(y)});
    graph.output(graph.apply(multiply, {graph.read(sum), graph.read(y)}));
    graph.output(graph.reduce("SUM", graph.read(sum), {1}, DataType::float32));
    return graph.spec();
}

// Its arrays have strides of their own.
GraphSpec transposed() {
    Graph graph;
    const int x = graph.input(DataType::float32, {400, 300});
    graph.output(graph.apply(negate, {graph.transposed(x, 0, 1)}));
    return graph.spec();
}

GraphSpec product() {
    const GemmParameters parameters{};
    return native(parameters, {floats({1, 1, 200, 300}), floats({1, 1, 300, 260})}, {floats({1, 1, 200, 260})});
}

GraphSpec integer_product() {
    const GemmParameters parameters{};
    const TensorDesc a = packed(DataType::uint8, {1, 1, 200, 300}), b = packed(DataType::int8, {1, 1, 300, 260});
    return native(parameters, {a, b, absent, absent}, {packed(DataType::int32, {1, 1, 200, 260})});
}

ConvolutionParameters convolution_of(std::int64_t groups, std::int64_t stride, bool backward) {
    ConvolutionParameters parameters{};
    parameters.groups = groups;
    parameters.strides = {stride, stride};
    parameters.dilations = {1, 1};
    parameters.padding = {1, 1};
    parameters.mirrored = false;
    parameters.backward = backward;
    return parameters;
}

GraphSpec convolution() {
    return native(convolution_of(1, 1, false), {floats({2, 24, 40, 40}), floats({32, 24, 3, 3})},
                  {floats({2, 32, 40, 40})});
}

GraphSpec depthwise_convolution() {
    return native(convolution_of(32, 1, false), {floats({2, 32, 60, 60}), floats({32, 1, 3, 3})},
                  {floats({2, 32, 60, 60})});
}

GraphSpec integer_depthwise_convolution() {
    const TensorDesc input = packed(DataType::uint8, {2, 32, 60, 60}), filters = packed(DataType::int8, {32, 1, 3, 3});
    return native(convolution_of(32, 1, false), {input, filters, absent, absent},
                  {packed(DataType::int32, {2, 32, 60, 60})});
}

GraphSpec backward_convolution() {
    return native(convolution_of(1, 2, true), {floats({1, 24, 30, 30}), floats({24, 32, 3, 3})},
                  {floats({1, 32, 59, 59})});
}

GraphSpec attention() {
    AttentionParameters parameters{};
    parameters.query = {0, -1}, parameters.key = {1, -1}, parameters.value = {2, -1};
    parameters.bias = parameters.mask = parameters.positions = -1;
    parameters.past_key = parameters.past_value = parameters.past_lengths = -1;
    parameters.query_heads = parameters.key_heads = 4;
    parameters.factors = {0.125f, -1e9f};
    const TensorDesc each = floats({1, 2, 90, 256});
    return native(parameters, {each, each, each}, {each, absent, absent});
}

GraphSpec recurrent_network() {
    RecurrentParameters parameters{};
    parameters.gates = 1;
    parameters.backward = {0, 1};
    InstructionSpec tangent;
    tangent.opcode = Opcode::TANH;
    tangent.operand = tangent.result = DataType::float32;
    tangent.kernel = find_kernel(Opcode::TANH, DataType::float32, DataType::float32);
    tangent.operands = {0};
    parameters.activations = {tangent, tangent};
    const std::vector<TensorDesc> inputs{
        floats({1, 20, 8, 64}), floats({1, 2, 128, 64}), floats({1, 2, 128, 128}), absent, absent, absent};
    return native(parameters, inputs, {floats({20, 2, 8, 128}), absent});
}

GraphSpec aligned_regions() {
    RegionAlignmentParameters parameters{};
    parameters.scales = {1, 1};
    parameters.offsets = {0.5, 0.5};
    parameters.bounds = {0, 0};
    parameters.least_samples = 1, parameters.most_samples = 4;
    const std::vector<TensorDesc> inputs{floats({1, 130, 40, 40}), floats({1, 1, 12, 4}),
                                         packed(DataType::uint32, {1, 1, 1, 12})};
    return native(parameters, inputs, {floats({12, 130, 6, 6})});
}

struct Subject {
    const char* name;
    GraphSpec (*spec)();
    bool has_own_strides = false;
};

constexpr std::array subjects{Subject{"element-wise", element_wise},
                              Subject{"element-wise, on arrays of other strides", transposed, true},
                              Subject{"product", product},
                              Subject{"product of integers", integer_product},
                              Subject{"convolution", convolution},
                              Subject{"depthwise convolution", depthwise_convolution},
                              Subject{"depthwise convolution of integers", integer_depthwise_convolution},
                              Subject{"backward convolution", backward_convolution},
                              Subject{"attention", attention},
                              Subject{"recurrent network", recurrent_network},
                              Subject{"aligned regions", aligned_regions}};

// The caller's memory: small numbers in the inputs.
class Arrays {
public:
    explicit Arrays(const Subject& subject) : binding(0, 0) {
        const GraphSpec spec = subject.spec();
        std::vector<TensorDesc> values = spec.inputs;
        for (const NodeSpec& node : spec.nodes) {
            values.insert(values.end(), node.outputs.begin(), node.outputs.end());
        }
        const Lie lie = subject.has_own_strides ? Lie::gapped : Lie::packed;
        for (const TensorDesc& desc : spec.inputs) {
            inputs_.emplace_back(desc, lie);
            inputs_.back().set(numbers_for(desc, inputs_.size()));
            binding.inputs.push_back(inputs_.back().array());
        }
        for (const std::int32_t output : spec.outputs) {
            outputs_.emplace_back(values[static_cast<std::size_t>(output)], lie);
            binding.outputs.push_back(outputs_.back().array());
        }
    }

    // What a run writes.
    std::vector<std::vector<double>> results() const {
        std::vector<std::vector<double>> all;
        for (const TestArray& output : outputs_) {
            all.push_back(output.numbers());
        }
        return all;
    }
    void soil() {
        for (TestArray& output : outputs_) {
            output.soil();
        }
    }

    Binding binding;

private:
    std::vector<TestArray> inputs_, outputs_;
};

// A run in memory that is made for it.
void run_once(Executable& executable, const Binding& binding) {
    executable.trim();
    Executable::Context& context = executable.acquire();
    try {
        executable.run(context, binding);
    } catch (...) {
        executable.release(context);
        throw;
    }
    executable.release(context);
}

// Calls function() with a failing allocation: first the first one, at last none. Calls then() after each.
void fail_each_allocation(const char* name, const std::function<void()>& function, const std::function<void()>& then) {
    bool fails = true;
    for (std::int64_t before = 0; fails; ++before) {
        std::string problem;
        {
            const FailingAllocation failing(before);
            try {
                function();
            } catch (const std::bad_alloc&) {
            } catch (const std::exception& error) {
                problem = error.what();
            }
            fails = failing.has_failed();
        }
        CHECK_MESSAGE(problem.empty(), name << ", allocation " << before << ": " << problem);
        then();
    }
}

}  // namespace

TEST_CASE("an allocation that fails in a run is an exception, and the next run is right") {
    for (const Subject& subject : subjects) {
        Arrays arrays(subject);
        Executable executable(plan(subject.spec()), threads);
        run_once(executable, arrays.binding);
        const auto expected = arrays.results();
        const auto check = [&] {
            arrays.soil();
            run_once(executable, arrays.binding);
            CHECK_MESSAGE(arrays.results() == expected, subject.name);
        };
        fail_each_allocation(subject.name, [&] { run_once(executable, arrays.binding); }, check);
    }
}

TEST_CASE("an allocation that fails while a graph is planned is an exception") {
    for (const Subject& subject : subjects) {
        Arrays arrays(subject);
        GraphSpec spec = subject.spec();
        const auto make = [&] {
            Executable executable(plan(std::move(spec)), threads);
            Binding constants = arrays.binding;
            constants.inputs.front() = {};  // the others are constants
            executable.prepare(constants, [] {}, [](std::size_t) {});
            executable.keep(arrays.binding, std::vector<bool>(arrays.binding.inputs.size(), true), [] {});
        };
        fail_each_allocation(subject.name, make, [&] { spec = subject.spec(); });
    }
}

TEST_CASE("runs on threads of others, and in their parallel sections") {
    for (const Subject& subject : subjects) {
        Arrays arrays(subject);
        Executable executable(plan(subject.spec()), threads);
        run_once(executable, arrays.binding);
        const auto expected = arrays.results();
        constexpr std::int64_t callers = 4;
        std::vector<Arrays> all;
        std::vector<Executable::Context*> contexts;
        for (std::int64_t c = 0; c < callers; ++c) {
            all.emplace_back(subject).soil();
            contexts.push_back(&executable.acquire());
        }
        const auto run = [&](std::int64_t caller) {
            const auto c = static_cast<std::size_t>(caller);
            executable.run(*contexts[c], all[c].binding);
        };
        const auto check = [&](const char* where) {
            for (Arrays& each : all) {
                CHECK_MESSAGE(each.results() == expected, subject.name << where);
                each.soil();
            }
        };
        std::vector<std::thread> others;
        for (std::int64_t c = 0; c < callers; ++c) {
            others.emplace_back(run, c);
        }
        for (std::thread& other : others) {
            other.join();
        }
        check(", on threads");
        run_parallel(callers, threads, [&](int, Chunks& chunks) {
            for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
                for (std::int64_t c = first; c < last; ++c) {
                    run(c);
                }
            }
        });
        check(", in a task");
    }
}

}  // namespace dmlgraph::cpu::tests
