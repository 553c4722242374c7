// Runs of a graph on arrays of every kind, compared with its meaning.
#pragma once

#include <optional>
#include <vector>

#include "cpu/tests/graph.h"

namespace dmlgraph::cpu::tests {

struct Overlap {
    std::size_t output;
    std::size_t input;
    std::int64_t shift;  // elements from the input's start to the output's
};

struct Arrangement {
    int threads = 1;
    Lie inputs = Lie::packed;
    Lie outputs = Lie::packed;
    std::optional<Overlap> overlap{};
    bool timed = false;
};

// Numbers for a graph's inputs, and the expected outputs.
struct Sample {
    Sample(const Graph& graph, std::uint64_t seed);

    std::vector<std::vector<double>> inputs;
    std::vector<std::vector<double>> outputs;
};

// The arrays of a run.
class Trial {
public:
    Trial(const Graph& graph, const Sample& sample, const Arrangement& arrangement);

    // Sets the inputs, runs, and checks the outputs; with a clock, the run is timed.
    void run(const Executable& executable, Executable::Context& context, StepClock* clock = nullptr);

private:
    const Sample& sample_;
    std::vector<TestArray> inputs_;
    std::vector<TestArray> outputs_;
    Binding binding_;
};

// Runs it twice in one context, so that the second run finds the memory that the first one left.
void check_run(const Graph& graph, const Sample& sample, const Arrangement& arrangement);

// The same for every way arrays lie, for one thread and for several, and in place where sizes and types allow
// it.
void check_graph(const Graph& graph, std::uint64_t seed = 1);

}  // namespace dmlgraph::cpu::tests
