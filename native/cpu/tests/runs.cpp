#include "cpu/tests/runs.h"

#include <cmath>
#include <string>

#include "cpu/tests/any_thread.h"

namespace dmlgraph::cpu::tests {
namespace {

constexpr int many_threads = 4;

bool same(const std::vector<double>& one, const std::vector<double>& other) {
    if (one.size() != other.size()) {
        return false;
    }
    for (std::size_t i = 0; i < one.size(); ++i) {
        if (one[i] != other[i] && !(std::isnan(one[i]) && std::isnan(other[i]))) {
            return false;
        }
    }
    return true;
}

}  // namespace

Sample::Sample(const Graph& graph, std::uint64_t seed) {
    for (std::size_t i = 0; i < graph.input_count(); ++i) {
        inputs.push_back(numbers_for(graph.input_desc(i), seed + i));
    }
    outputs = graph.evaluate(inputs);
}

Trial::Trial(const Graph& graph, const Sample& sample, const Arrangement& arrangement)
    : sample_(sample), binding_(graph.input_count(), graph.output_count()) {
    for (std::size_t i = 0; i < graph.input_count(); ++i) {
        inputs_.emplace_back(graph.input_desc(i), arrangement.inputs);
    }
    for (std::size_t o = 0; o < graph.output_count(); ++o) {
        if (arrangement.overlap && arrangement.overlap->output == o) {
            outputs_.emplace_back(graph.output_desc(o), inputs_[arrangement.overlap->input],
                                  arrangement.overlap->shift);
        } else {
            outputs_.emplace_back(graph.output_desc(o), arrangement.outputs);
        }
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
        binding_.inputs[i] = inputs_[i].array();
    }
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
        binding_.outputs[o] = outputs_[o].array();
    }
    binding_.may_overlap = arrangement.overlap.has_value();
}

void Trial::run(const Executable& executable, Executable::Context& context, StepClock* clock) {
    for (TestArray& output : outputs_) {
        output.soil();
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
        inputs_[i].set(sample_.inputs[i]);
    }
    executable.run(context, binding_, clock);
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
        check_on_any_thread(same(outputs_[o].numbers(), sample_.outputs[o]),
                            "output " + std::to_string(o) + " is as expected");
        check_on_any_thread(binding_.may_overlap || outputs_[o].gaps_are_untouched(),
                            "nothing is written beside the output");
    }
    for (std::size_t i = 0; !binding_.may_overlap && i < inputs_.size(); ++i) {
        check_on_any_thread(same(inputs_[i].numbers(), sample_.inputs[i]), "inputs stay what they are");
    }
}

void check_run(const Graph& graph, const Sample& sample, const Arrangement& arrangement) {
    Executable executable(plan(graph.spec()), arrangement.threads);
    Executable::Context& context = executable.acquire();
    Trial trial(graph, sample, arrangement);
    std::vector<double> step_seconds;
    StepClock clock(&step_seconds);
    trial.run(executable, context);
    trial.run(executable, context, arrangement.timed ? &clock : nullptr);
    check_on_any_thread(!arrangement.timed || step_seconds.size() == executable.program().steps.size(),
                        "every step is timed");
    executable.release(context);
}

void check_graph(const Graph& graph, std::uint64_t seed) {
    const Sample sample(graph, seed);
    check_run(graph, sample, {.timed = true});
    for (const Lie inputs : lies) {
        for (const Lie outputs : lies) {
            if (inputs == outputs || inputs == Lie::packed || outputs == Lie::packed) {
                check_run(graph, sample, {many_threads, inputs, outputs});
            }
        }
    }
    for (std::size_t o = 0; o < graph.output_count(); ++o) {
        for (std::size_t i = 0; i < graph.input_count(); ++i) {
            const TensorDesc output = graph.output_desc(o), input = graph.input_desc(i);
            if (output.type != input.type) {
                continue;
            }
            for (const std::int64_t shift : {0, 1, -3}) {
                check_run(graph, sample, {many_threads, Lie::packed, Lie::packed, Overlap{o, i, shift}});
            }
        }
    }
}

}  // namespace dmlgraph::cpu::tests
