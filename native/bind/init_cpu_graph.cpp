// A graph for the CPU executor, built node by node: dmlgraph._native.CpuGraph.
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bind/cpu_arrays.h"
#include "bind/cpu_casters.h"
#include "bind/cpu_graph.h"
#include "bind/cpu_steps.h"
#include "bind/init.h"

namespace dmlgraph::cpu {
namespace {

// Calls a Python function on the tensors of a node.
class PythonStep final : public Step {
public:
    PythonStep(py::object function, StepTensors tensors)
        : function_(std::move(function)), tensors_(std::move(tensors)) {}
    ~PythonStep() override {
        acquired([&] { function_ = {}; });
    }

    void run(RunContext& context) const override {
        acquired([&] {
            call_python(function_, arrays(context, tensors_.inputs, false), arrays(context, tensors_.outputs, true));
        });
    }
    Kind kind() const override { return Kind::python; }
    double cost() const override { return 0; }  // it holds the GIL anyway
    void visit(const Visitor& visitor) override {
        for (View& view : tensors_.inputs)
            visitor(view, false);
        for (View& view : tensors_.outputs)
            visitor(view, true);
    }

private:
    static py::list arrays(const RunContext& context, const std::vector<View>& views, bool writable) {
        py::list result(views.size());
        for (std::size_t i = 0; i < views.size(); ++i) {
            if (views[i].buffer == no_buffer) {
                result[i] = py::none();
            } else {
                result[i] = borrow(context.tensor(views[i]), writable);
            }
        }
        return result;
    }

    py::object function_;
    StepTensors tensors_;
};

class PythonStepFactory final : public StepFactory {
public:
    explicit PythonStepFactory(py::object function) : function_(std::move(function)) {}
    std::unique_ptr<Step> make(StepTensors tensors) const override {
        return std::make_unique<PythonStep>(function_, std::move(tensors));
    }

private:
    py::object function_;
};

class NativeStepFactory final : public StepFactory {
public:
    explicit NativeStepFactory(StepParameters parameters) : parameters_(std::move(parameters)) {}
    std::unique_ptr<Step> make(StepTensors tensors) const override { return make_native_step(tensors, parameters_); }
    bool strided() const override {
        return std::visit([](const auto& each) { return is_strided<std::decay_t<decltype(each)>>; }, parameters_);
    }
    std::vector<InstructionSpec>* epilogue() override {
        return std::visit(
            [](auto& each) -> std::vector<InstructionSpec>* {
                if constexpr (takes_followers<std::decay_t<decltype(each)>>) {
                    return &each.epilogue;
                } else {
                    return nullptr;
                }
            },
            parameters_);
    }

private:
    StepParameters parameters_;
};

// The named tuples of dmlgraph.devices.cpu.nodes, in the order of their fields.
using Numbers = std::vector<std::int64_t>;
using GivenInstruction =
    std::tuple<std::string_view, std::vector<std::int16_t>, DataType, DataType, std::vector<Immediate>>;
using GivenMap = std::tuple<Numbers, Numbers, Numbers>;  // axis, step, origin
using GivenPiece = std::tuple<std::int32_t, Numbers, std::optional<GivenMap>, GivenMap>;

[[noreturn]] void refuse(const NodeSpec& node, const std::string& problem) {
    throw py::value_error("node '" + node.name + "': " + problem);
}

InstructionSpec instruction(const NodeSpec& node, std::int32_t index, const GivenInstruction& given) {
    const auto& [name, operands, operand_type, result_type, immediates] = given;
    const auto opcode = find_opcode(name);
    const Kernel kernel = opcode ? find_kernel(*opcode, operand_type, result_type) : nullptr;
    if (kernel == nullptr) {
        refuse(node, "there is no kernel " + std::string(name) + " for these data types");
    }
    for (const std::int16_t operand : operands) {
        if (operand >= static_cast<std::int64_t>(node.sources.size()) || ~operand >= index) {
            refuse(node, "an operand is not an input or an earlier result");
        }
    }
    if (operands.size() != operand_count(*opcode) || immediates.size() != immediate_count(*opcode)) {
        refuse(node, "wrong number of operands or immediates for " + std::string(name));
    }
    return {*opcode, operand_type, result_type, kernel, operands, immediates};
}

std::vector<InstructionSpec> instructions(const NodeSpec& node, const std::vector<GivenInstruction>& given) {
    std::vector<InstructionSpec> result;
    result.reserve(given.size());
    for (const GivenInstruction& each : given) {
        result.push_back(instruction(node, static_cast<std::int32_t>(result.size()), each));
    }
    return result;
}

std::vector<std::byte> bytes(const py::bytes& given) {
    const std::string_view text = given;
    const auto* const first = reinterpret_cast<const std::byte*>(text.data());
    return {first, first + text.size()};
}

void set(const NodeSpec& node, const Numbers& numbers, Sizes& sizes) {
    if (numbers.size() > sizes.size()) {
        refuse(node, "more than 8 dimensions");
    }
    std::ranges::copy(numbers, sizes.begin());
}

AffineMap affine_map(const NodeSpec& node, const GivenMap& given, std::size_t rank) {
    const auto& [axis, step, origin] = given;
    if (axis.size() != rank || step.size() != rank) {
        refuse(node, "an affine map and its tensor differ in their number of dimensions");
    }
    AffineMap map;
    std::ranges::transform(axis, map.axis.begin(), [](std::int64_t each) { return static_cast<std::int8_t>(each); });
    set(node, step, map.step);
    set(node, origin, map.origin);
    return map;
}

Piece piece(const NodeSpec& node, const GivenPiece& given) {
    const auto& [port, sizes, from, to] = given;
    Piece made;
    made.port = port;
    made.rank = static_cast<std::uint8_t>(sizes.size());
    set(node, sizes, made.sizes);
    if (from) {
        made.from = affine_map(node, *from, sizes.size());
    } else if (port >= 0) {
        refuse(node, "a piece of an input lacks its map");
    }
    made.to = affine_map(node, to, sizes.size());
    return made;
}

void reduce(NodeSpec& node, std::string_view function, const std::vector<int>& axes) {
    if (node.inputs.size() != 1 || node.outputs.size() != 1) {
        refuse(node, "a reduction must have one input and one output");
    }
    node.reduction = find_reduction(function, node.inputs[0].type, node.outputs[0].type);
    if (node.reduction == nullptr) {
        refuse(node, "there is no reduction " + std::string(function) + " for these data types");
    }
    for (const int axis : axes) {
        if (axis < 0 || axis >= node.inputs[0].rank) {
            refuse(node, "an axis is out of range");
        }
        node.axes |= 1u << axis;
    }
}

void view(NodeSpec& node, const std::vector<GivenMap>& maps) {
    if (maps.size() != node.outputs.size()) {
        refuse(node, "a view must have an affine map for each output");
    }
    for (std::size_t i = 0; i < maps.size(); ++i) {
        node.maps.push_back(affine_map(node, maps[i], node.outputs[i].rank));
    }
}

void move(NodeSpec& node, const std::optional<py::bytes>& element, const std::vector<GivenPiece>& pieces) {
    if (element) {
        node.data = bytes(*element);
    }
    for (const GivenPiece& each : pieces) {
        node.pieces.push_back(piece(node, each));
    }
}

void native(NodeSpec& node, const BoundStep& step, const std::vector<GivenInstruction>& followers) {
    StepParameters parameters = step.parameters;
    std::visit(
        [&](auto& each) {
            if constexpr (requires { each.epilogue; }) {
                each.epilogue = instructions(node, followers);
            } else if constexpr (requires { each.activations; }) {
                each.activations = instructions(node, followers);
            } else if (!followers.empty()) {
                refuse(node, "no instructions can follow this step");
            }
        },
        parameters);
    node.make_step = std::make_unique<NativeStepFactory>(std::move(parameters));
}

// A method that adds a node: what all have, then what `fill` takes.
template <class... Payload, class Fill>
auto adding(NodeKind kind, Fill fill) {
    using Descs = std::vector<std::optional<TensorDesc>>;
    return [kind, fill](GraphBuilder& graph, std::string name, std::vector<std::int32_t> sources, const Descs& inputs,
                        const Descs& outputs, const Payload&... payload) {
        NodeSpec node;
        node.name = std::move(name);
        node.kind = kind;
        node.sources = std::move(sources);
        for (const auto& each : inputs)
            node.inputs.push_back(each.value_or(TensorDesc{}));
        for (const auto& each : outputs)
            node.outputs.push_back(each.value_or(TensorDesc{}));
        fill(node, payload...);
        graph.add(std::move(node));
    };
}

}  // namespace

GraphBuilder::GraphBuilder(std::vector<TensorDesc> inputs) {
    graph_.inputs = std::move(inputs);
    for (const TensorDesc& desc : graph_.inputs) {
        if (!desc.packed) {
            throw py::value_error("inputs must be packed");
        }
    }
}

void GraphBuilder::delay() {
    if (graph_.nodes.empty()) {
        throw py::value_error("the graph has no node");
    }
    graph_.nodes.back().late = true;
}

GraphSpec GraphBuilder::take(std::vector<std::int32_t> outputs) {
    graph_.outputs = std::move(outputs);
    return std::exchange(graph_, {});
}

}  // namespace dmlgraph::cpu

namespace dmlgraph {

void init_cpu_graph(pybind11::module_& module) {
    using namespace cpu;
    const auto set_data = [](NodeSpec& node, const py::bytes& data) { node.data = bytes(data); };
    const auto set_code = [](NodeSpec& node, const std::vector<GivenInstruction>& given) {
        node.instructions = instructions(node, given);
    };
    const auto set_function = [](NodeSpec& node, const py::function& function) {
        node.make_step = std::make_unique<PythonStepFactory>(function);
    };
    py::class_<GraphBuilder> graph(module, "CpuGraph",
                                   "A graph for the CPU executor, node by node in executable order.");
    graph.def(py::init<std::vector<TensorDesc>>(), py::arg("inputs"));
    const auto add = [&](const char* kind, const auto& method, const auto&... payload) {
        graph.def(kind, method, py::arg("name"), py::arg("sources"), py::arg("inputs"), py::arg("outputs"), payload...);
    };
    add("fill", adding<py::bytes>(NodeKind::fill, set_data), py::arg("element"));
    add("constant", adding<py::bytes>(NodeKind::constant, set_data), py::arg("data"));
    add("element_wise", adding<std::vector<GivenInstruction>>(NodeKind::element_wise, set_code),
        py::arg("instructions"));
    add("reduce", adding<std::string_view, std::vector<int>>(NodeKind::reduce, &reduce), py::arg("function"),
        py::arg("axes"));
    add("view", adding<std::vector<GivenMap>>(NodeKind::view, &view), py::arg("maps"));
    add("move", adding<std::optional<py::bytes>, std::vector<GivenPiece>>(NodeKind::move, &move), py::arg("element"),
        py::arg("pieces"));
    add("native", adding<BoundStep, std::vector<GivenInstruction>>(NodeKind::step, &native), py::arg("step"),
        py::arg("followers"));
    graph.def("delay", &GraphBuilder::delay, "Lets the last node run right before its readers.");
    add("evaluate", adding<py::function>(NodeKind::step, set_function), py::arg("function"));
}

}  // namespace dmlgraph
