#include "directml/run.h"

#include <algorithm>
#include <string>

namespace dmlgraph {
namespace {

void require(bool holds, const std::string& what) {
    if (!holds) {
        throw Error(ErrorKind::use, what);
    }
}

std::string bytes_text(std::uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

void require_tensor(const Resident& tensor, std::uint64_t bytes, const Device& device, const std::string& what) {
    require(tensor.device().get() == &device, what + " is on another device");
    require(tensor.bytes() == bytes,
            what + " needs " + bytes_text(bytes) + ", the tensor has " + bytes_text(tensor.bytes()));
}

// The bytes of one step, or, whole, those of every step.
void require_data(std::size_t given, std::uint64_t bytes, std::size_t steps, const std::string& what) {
    if (steps == 1 || given != steps * bytes) {
        require_bytes(given, bytes, what);
    }
}

}  // namespace

void require_count(std::size_t count, std::size_t expected, const char* what) {
    require(count == expected,
            "expected data for " + std::to_string(expected) + " " + what + ", got " + std::to_string(count));
}

void require_bytes(std::size_t bytes, std::uint64_t expected, const std::string& what) {
    require(bytes <= expected && bytes + 4 > expected,
            what + " needs " + bytes_text(expected) + ", got " + std::to_string(bytes));
}

void require_valid(const GraphDesc& graph, const Run& run, const Device& device) {
    require_count(run.inputs.size(), graph.inputs.size(), "inputs");
    require_count(run.outputs.size(), graph.outputs.size(), "outputs");
    require(run.steps > 0, "a run has at least one step");
    std::vector<bool> read(graph.inputs.size());
    std::vector<bool> written(graph.outputs.size());
    for (const Chain& chain : run.chains) {
        require(chain.input < read.size() && chain.output < written.size(), "a chain of a missing input or output");
        require(chain.tensors.size() > std::min<std::size_t>(run.steps, 2), "a chain has too few tensors");
        read[chain.input] = written[chain.output] = true;
        for (const Resident* tensor : chain.tensors) {
            require_tensor(*tensor, graph.inputs[chain.input].bytes, device, "a chain");
            require_tensor(*tensor, graph.outputs[chain.output].bytes, device, "a chain");
        }
    }
    for (const Append& append : run.appends) {
        require(append.output < written.size() && graph.outputs[append.output].target == Target::rows,
                "rows of an output that has none");
        written[append.output] = true;
        require(append.blocks * append.rows * append.row_bytes <= graph.outputs[append.output].bytes &&
                    append.begin + run.steps * append.rows <= append.capacity,
                "rows that do not fit");
        require(append.state->device().get() == &device &&
                    append.blocks * append.capacity * append.row_bytes <= append.state->bytes(),
                "rows of another device, or that do not fit");
    }
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
        const GraphInput& input = graph.inputs[i];
        const std::string what = "input '" + input.name + "'";
        if (run.inputs[i].resident) {
            require(!input.owned, what + " is owned");
            require_tensor(*run.inputs[i].resident, input.bytes, device, what);
        } else if (input.resident) {
            require(read[i], what + " needs a tensor on the device");
        } else if (!input.owned) {
            require_data(run.inputs[i].bytes.size(), input.bytes, run.steps, what);
        }
    }
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
        const GraphOutput& output = graph.outputs[i];
        const std::string what = "output '" + output.name + "'";
        if (run.outputs[i].resident) {
            require(output.target != Target::rows, what + " goes into a state");
            require_tensor(*run.outputs[i].resident, output.bytes, device, what);
        } else if (output.target != Target::back) {
            require(written[i], what + " needs a tensor on the device");
        } else {
            require_data(run.outputs[i].bytes.size(), output.bytes, run.steps, what);
        }
    }
}

}  // namespace dmlgraph
