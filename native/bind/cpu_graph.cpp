#include "bind/cpu_graph.h"

#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "bind/cpu_arrays.h"
#include "bind/gil.h"
#include "cpu/steps/native_step.h"

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
        acquired([&] { call_python(function_, arrays(context, tensors_.inputs, false), arrays(context, tensors_.outputs, true)); });
    }
    Kind kind() const override { return Kind::python; }
    double cost() const override { return 0; }  // it holds the GIL anyway
    void visit(const Visitor& visitor) override {
        for (View& view : tensors_.inputs) visitor(view, false);
        for (View& view : tensors_.outputs) visitor(view, true);
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

[[noreturn]] void fail() {
    throw py::error_already_set();
}

PyObject* check(PyObject* object) {
    if (object == nullptr) {
        fail();
    }
    return object;
}

std::int64_t integer(PyObject* object) {
    const long long number = PyLong_AsLongLong(object);
    if (number == -1 && PyErr_Occurred()) {
        fail();
    }
    return number;
}

std::string_view text(PyObject* object) {
    Py_ssize_t size = 0;
    const char* const characters = PyUnicode_AsUTF8AndSize(object, &size);
    if (characters == nullptr) {
        fail();
    }
    return {characters, static_cast<std::size_t>(size)};
}

PyObject* item(PyObject* tuple, Py_ssize_t index) {
    if (!PyTuple_Check(tuple) || index >= PyTuple_GET_SIZE(tuple)) {
        throw py::type_error("a part of the graph is not a tuple of the expected length");
    }
    return PyTuple_GET_ITEM(tuple, index);
}

Py_ssize_t length(PyObject* tuple) {
    if (!PyTuple_Check(tuple)) {
        throw py::type_error("a part of the graph is not a tuple");
    }
    return PyTuple_GET_SIZE(tuple);
}

// The parameters of a native step: the fields of a dictionary, each of which must be read, and the instructions that
// follow a product.
class Fields {
public:
    Fields(PyObject* dictionary, std::vector<InstructionSpec> epilogue)
        : dictionary_(dictionary), epilogue_(std::move(epilogue)) {
        if (!PyDict_Check(dictionary)) {
            throw py::type_error("the parameters of a native step are no dictionary");
        }
    }

    std::int64_t number(const char* name) const { return integer(find(name)); }
    bool flag(const char* name) const { return integer(find(name)) != 0; }
    std::vector<std::int64_t> numbers(const char* name) const {
        PyObject* const tuple = find(name);
        std::vector<std::int64_t> result;
        for (Py_ssize_t i = 0; i < length(tuple); ++i) {
            result.push_back(integer(item(tuple, i)));
        }
        return result;
    }

    double real(const char* name) const { return real_of(find(name)); }
    std::vector<double> doubles(const char* name) const {
        PyObject* const tuple = find(name);
        std::vector<double> result;
        for (Py_ssize_t i = 0; i < length(tuple); ++i) {
            result.push_back(real_of(item(tuple, i)));
        }
        return result;
    }
    std::vector<float> floats(const char* name) const {
        const std::vector<double> numbers = doubles(name);
        return {numbers.begin(), numbers.end()};
    }

    std::vector<InstructionSpec> epilogue() const { return epilogue_; }

    void require_all_read(const std::string& where) const {
        if (read_ != PyDict_Size(dictionary_)) {
            throw py::value_error(where + ": got other parameters than it takes");
        }
    }

private:
    static double real_of(PyObject* object) {
        const double number = PyFloat_AsDouble(object);
        if (number == -1 && PyErr_Occurred()) {
            fail();
        }
        return number;
    }

    PyObject* find(const char* name) const {
        PyObject* const found = PyDict_GetItemString(dictionary_, name);
        if (found == nullptr) {
            throw py::value_error("a native step lacks the parameter '" + std::string(name) + "'");
        }
        ++read_;
        return found;
    }

    PyObject* dictionary_;
    std::vector<InstructionSpec> epilogue_;
    mutable Py_ssize_t read_ = 0;
};

struct NativeStep {
    std::string_view name;
    StepParameters (*read)(const Fields& fields);
};

// The names are those that dmlgraph/devices/cpu uses.
constexpr std::array<NativeStep, std::variant_size_v<StepParameters>> native_steps{{
    {"scan",
     [](const Fields& fields) -> StepParameters {
         return ScanParameters{.axis = fields.number("axis"),
                               .from_end = fields.flag("from_end"),
                               .is_exclusive = fields.flag("is_exclusive"),
                               .is_product = fields.flag("is_product")};
     }},
    {"gather",
     [](const Fields& fields) -> StepParameters {
         return GatherParameters{.batches = fields.number("batches"),
                                 .tuples = fields.number("tuples"),
                                 .slice = fields.number("slice"),
                                 .is_shared = fields.flag("is_shared"),
                                 .sizes = fields.numbers("sizes")};
     }},
    {"gather_elements",
     [](const Fields& fields) -> StepParameters {
         return GatherElementsParameters{.outer = fields.number("outer"),
                                         .inner = fields.number("inner"),
                                         .size = fields.number("size"),
                                         .taken = fields.number("taken")};
     }},
    {"scatter",
     [](const Fields& fields) -> StepParameters {
         return ScatterParameters{.tuples = fields.number("tuples"),
                                  .slice = fields.number("slice"),
                                  .sizes = fields.numbers("sizes")};
     }},
    {"scatter_elements",
     [](const Fields& fields) -> StepParameters {
         return ScatterElementsParameters{.outer = fields.number("outer"),
                                          .inner = fields.number("inner"),
                                          .size = fields.number("size"),
                                          .given = fields.number("given")};
     }},
    {"gemm",
     [](const Fields& fields) -> StepParameters {
         return GemmParameters{.transposes_a = fields.flag("transposes_a"),
                               .transposes_b = fields.flag("transposes_b"),
                               .epilogue = fields.epilogue()};
     }},
    {"convolution",
     [](const Fields& fields) -> StepParameters {
         return ConvolutionParameters{.groups = fields.number("groups"),
                                      .strides = fields.numbers("strides"),
                                      .dilations = fields.numbers("dilations"),
                                      .padding = fields.numbers("padding"),
                                      .mirrored = fields.flag("mirrored"),
                                      .backward = fields.flag("backward"),
                                      .epilogue = fields.epilogue()};
     }},
    {"resampling",
     [](const Fields& fields) -> StepParameters {
         return ResamplingParameters{.axes = fields.numbers("axes"),
                                     .taps = fields.numbers("taps"),
                                     .indices = fields.numbers("indices"),
                                     .weights = fields.floats("weights"),
                                     .epilogue = fields.epilogue()};
     }},
    {"resampling_gradient",
     [](const Fields& fields) -> StepParameters {
         return ResamplingGradientParameters{.axes = fields.numbers("axes"),
                                             .counts = fields.numbers("counts"),
                                             .indices = fields.numbers("indices"),
                                             .weights = fields.floats("weights"),
                                             .epilogue = fields.epilogue()};
     }},
    {"pooling",
     [](const Fields& fields) -> StepParameters {
         return PoolingParameters{.is_maximum = fields.flag("is_maximum"),
                                  .from_infinity = fields.flag("from_infinity"),
                                  .power = fields.number("power"),
                                  .taps = fields.numbers("taps"),
                                  .strides = fields.numbers("strides"),
                                  .dilations = fields.numbers("dilations"),
                                  .padding = fields.numbers("padding"),
                                  .epilogue = fields.epilogue()};
     }},
    {"pooling_gradient",
     [](const Fields& fields) -> StepParameters {
         return PoolingGradientParameters{.is_maximum = fields.flag("is_maximum"),
                                          .taps = fields.numbers("taps"),
                                          .strides = fields.numbers("strides"),
                                          .dilations = fields.numbers("dilations"),
                                          .padding = fields.numbers("padding")};
     }},
    {"attention",
     [](const Fields& fields) -> StepParameters {
         return AttentionParameters{.query = fields.numbers("query"),
                                    .key = fields.numbers("key"),
                                    .value = fields.numbers("value"),
                                    .bias = fields.number("bias"),
                                    .mask = fields.number("mask"),
                                    .positions = fields.number("positions"),
                                    .past_key = fields.number("past_key"),
                                    .past_value = fields.number("past_value"),
                                    .past_lengths = fields.number("past_lengths"),
                                    .query_heads = fields.number("query_heads"),
                                    .key_heads = fields.number("key_heads"),
                                    .mask_type = fields.number("mask_type"),
                                    .factors = fields.floats("factors")};
     }},
    {"recurrent",
     [](const Fields& fields) -> StepParameters {
         return RecurrentParameters{.gates = fields.number("gates"),
                                    .backward = fields.numbers("backward"),
                                    .bound = fields.floats("bound"),
                                    .couples_input_forget = fields.flag("couples_input_forget"),
                                    .resets_after_product = fields.flag("resets_after_product"),
                                    .activations = fields.epilogue()};
     }},
    {"top",
     [](const Fields& fields) -> StepParameters {
         return TopParameters{.axis = fields.number("axis"),
                              .count = fields.number("count"),
                              .descending = fields.flag("descending")};
     }},
    {"four_bits",
     [](const Fields& fields) -> StepParameters {
         return FourBitsParameters{.spreads = fields.flag("spreads"),
                                   .is_signed = fields.flag("is_signed"),
                                   .count = fields.number("count")};
     }},
    {"fold",
     [](const Fields& fields) -> StepParameters {
         return FoldParameters{.planes = fields.number("planes"),
                               .sizes = fields.numbers("sizes"),
                               .blocks = fields.numbers("blocks"),
                               .window = fields.numbers("window"),
                               .strides = fields.numbers("strides"),
                               .dilations = fields.numbers("dilations"),
                               .padding = fields.numbers("padding")};
     }},
    {"nonzero",
     [](const Fields& fields) -> StepParameters { return NonzeroParameters{.members = fields.number("members")}; }},
    {"random",
     [](const Fields& fields) -> StepParameters {
         return RandomParameters{.count = fields.number("count"), .is_state = fields.flag("is_state")};
     }},
    {"region_alignment",
     [](const Fields& fields) -> StepParameters {
         return RegionAlignmentParameters{.is_maximum = fields.flag("is_maximum"),
                                          .is_nearest = fields.flag("is_nearest"),
                                          .aligns_to_corners = fields.flag("aligns_to_corners"),
                                          .least_samples = fields.number("least_samples"),
                                          .most_samples = fields.number("most_samples"),
                                          .scales = fields.doubles("scales"),
                                          .offsets = fields.doubles("offsets"),
                                          .bounds = fields.doubles("bounds")};
     }},
    {"region_pooling",
     [](const Fields& fields) -> StepParameters {
         return RegionPoolingParameters{.scale = fields.real("scale"), .least = fields.real("least")};
     }},
    {"reversal",
     [](const Fields& fields) -> StepParameters {
         return ReversalParameters{.outer = fields.number("outer"),
                                   .size = fields.number("size"),
                                   .inner = fields.number("inner")};
     }},
    {"block_gemm",
     [](const Fields& fields) -> StepParameters {
         return BlockGemmParameters{.transposes_a = fields.flag("transposes_a"),
                                    .transposes_b = fields.flag("transposes_b"),
                                    .has_four_bits = fields.flag("has_four_bits"),
                                    .is_signed = fields.flag("is_signed"),
                                    .sizes = fields.numbers("sizes"),
                                    .scale = fields.numbers("scale"),
                                    .zero_point = fields.numbers("zero_point"),
                                    .epilogue = fields.epilogue()};
     }},
}};

using DataTypes = std::array<PyObject*, data_type_count>;

// The members of Python's DataType, found once: they live as long as Python. A static initialiser would not do: it
// would wait for the interpreter lock while threads that hold the lock wait for the initialiser.
const DataTypes& members() {
    static DataTypes found{};
    static bool complete = false;
    if (!complete) {
        DataTypes types{};
        const py::object data_type = imported("dmlgraph.base.tensor", "DataType");
        for (std::size_t value = 1; value < types.size(); ++value) {
            types[value] = call_python(data_type, py::int_(value)).ptr();
        }
        found = types;
        complete = true;
    }
    return found;
}

// Reads the parts of a graph. Members of Python's DataType are identified by their addresses.
class Reader {
public:
    DataType type(PyObject* object) const {
        for (std::size_t i = 1; i < types_.size(); ++i) {
            if (types_[i] == object) {
                return static_cast<DataType>(i);
            }
        }
        throw py::type_error("expected a data type");
    }

    // A TensorDesc, or None. 4-bit tensors are the bytes of their buffer.
    TensorDesc desc(PyObject* object) const {
        TensorDesc result;
        if (object == Py_None) {
            return result;
        }
        const py::handle given(object);
        result.type = type(py::object(given.attr(dtype_)).ptr());
        const py::object sizes = given.attr(sizes_), strides = given.attr(strides_);
        result.rank = static_cast<std::uint8_t>(read_sizes(sizes.ptr(), result.sizes));
        if (strides.is_none()) {
            std::int64_t unit = 1;
            for (int d = result.rank - 1; d >= 0; --d) {
                result.strides[d] = unit;
                unit *= result.sizes[d];
            }
        } else {
            read_sizes(strides.ptr(), result.strides);
            result.packed = is_packed(result);
        }
        if (item_size(result.type) == 0) {
            const auto bytes = static_cast<std::int64_t>(result.total_bytes());
            result = {};
            result.type = DataType::uint8;
            result.rank = 1;
            result.sizes[0] = bytes;
            result.strides[0] = 1;
        }
        return result;
    }

    // (kind, name, sources, inputs, outputs, payload)
    NodeSpec node(PyObject* tuple) const {
        NodeSpec result;
        const std::string_view kind = text(item(tuple, 0));
        result.name = text(item(tuple, 1));
        PyObject* const sources = item(tuple, 2);
        for (Py_ssize_t i = 0; i < length(sources); ++i) {
            result.sources.push_back(static_cast<std::int32_t>(integer(item(sources, i))));
        }
        read_descs(item(tuple, 3), result.inputs);
        read_descs(item(tuple, 4), result.outputs);
        PyObject* const payload = item(tuple, 5);
        for (const auto& [name, value, read] : kinds) {
            if (name == kind) {
                result.kind = value;
                (this->*read)(payload, result);
                return result;
            }
        }
        throw py::value_error("'" + std::string(kind) + "' is no kind of node");
    }

private:
    using Read = void (Reader::*)(PyObject*, NodeSpec&) const;
    struct Kind {
        std::string_view name;
        NodeKind value;
        Read read;
    };
    static const std::array<Kind, 8> kinds;

    static int read_sizes(PyObject* tuple, Sizes& sizes) {
        const Py_ssize_t count = length(tuple);
        if (count > max_rank) {
            throw py::value_error("more than 8 dimensions");
        }
        for (Py_ssize_t d = 0; d < count; ++d) {
            sizes[static_cast<std::size_t>(d)] = integer(item(tuple, d));
        }
        return static_cast<int>(count);
    }

    void read_descs(PyObject* tuple, std::vector<TensorDesc>& descs) const {
        const Py_ssize_t count = length(tuple);
        descs.reserve(static_cast<std::size_t>(count));
        for (Py_ssize_t i = 0; i < count; ++i) {
            descs.push_back(desc(item(tuple, i)));
        }
    }

    void read_data(PyObject* payload, NodeSpec& node) const {
        char* bytes = nullptr;
        Py_ssize_t count = 0;
        if (PyBytes_AsStringAndSize(payload, &bytes, &count) != 0) {
            fail();
        }
        const auto* const first = reinterpret_cast<const std::byte*>(bytes);
        node.data.assign(first, first + count);
    }

    // Instructions as in dmlgraph.devices.cpu.element_wise: (opcode, operands, operand type, result type, immediates).
    void read_instructions(PyObject* payload, NodeSpec& node) const {
        const Py_ssize_t count = length(payload);
        node.instructions.resize(static_cast<std::size_t>(count));
        for (Py_ssize_t i = 0; i < count; ++i) {
            PyObject* const given = item(payload, i);
            InstructionSpec& made = node.instructions[static_cast<std::size_t>(i)];
            const std::string_view name = text(item(given, 0));
            const auto opcode = find_opcode(name);
            made.operand = type(item(given, 2));
            made.result = type(item(given, 3));
            made.kernel = opcode ? find_kernel(*opcode, made.operand, made.result) : nullptr;
            if (made.kernel == nullptr) {
                throw py::value_error("node '" + node.name + "': there is no kernel " + std::string(name) +
                                      " for these data types");
            }
            made.opcode = *opcode;
            PyObject* const operands = item(given, 1);
            for (Py_ssize_t k = 0; k < length(operands); ++k) {
                const std::int64_t operand_index = integer(item(operands, k));
                if (operand_index >= static_cast<std::int64_t>(node.sources.size()) || ~operand_index >= i) {
                    throw py::value_error("node '" + node.name + "': an operand is not an input or an earlier result");
                }
                made.operands.push_back(static_cast<std::int16_t>(operand_index));
            }
            if (made.operands.size() != operand_count(*opcode)) {
                throw py::value_error("node '" + node.name + "': wrong number of operands for " + std::string(name));
            }
            PyObject* const immediates = item(given, 4);
            for (Py_ssize_t k = 0; k < length(immediates); ++k) {
                PyObject* const value = item(immediates, k);
                Immediate immediate{};
                if (PyFloat_Check(value)) {
                    immediate.f = PyFloat_AS_DOUBLE(value);
                } else {
                    immediate.u = PyLong_AsUnsignedLongLongMask(value);  // two's complement for negative numbers
                    if (PyErr_Occurred()) {
                        fail();
                    }
                }
                made.immediates.push_back(immediate);
            }
            if (made.immediates.size() != immediate_count(*opcode)) {
                throw py::value_error("node '" + node.name + "': wrong number of immediates for " + std::string(name));
            }
        }
    }

    // (name, axes)
    void read_reduction(PyObject* payload, NodeSpec& node) const {
        const std::string_view name = text(item(payload, 0));
        if (node.inputs.size() != 1 || node.outputs.size() != 1) {
            throw py::value_error("node '" + node.name + "': a reduction must have one input and one output");
        }
        node.reduction = find_reduction(name, node.inputs[0].type, node.outputs[0].type);
        if (node.reduction == nullptr) {
            throw py::value_error("node '" + node.name + "': there is no reduction " + std::string(name) +
                                  " for these data types");
        }
        PyObject* const axes = item(payload, 1);
        for (Py_ssize_t i = 0; i < length(axes); ++i) {
            const std::int64_t axis = integer(item(axes, i));
            if (axis < 0 || axis >= node.inputs[0].rank) {
                throw py::value_error("node '" + node.name + "': an axis is out of range");
            }
            node.axes |= 1u << axis;
        }
    }

    // (axis, step, origin), each a tuple.
    static AffineMap affine_map(PyObject* tuple, int rank) {
        AffineMap map;
        Sizes axes{};
        if (read_sizes(item(tuple, 0), axes) != rank || read_sizes(item(tuple, 1), map.step) != rank) {
            throw py::value_error("an affine map and its tensor differ in their number of dimensions");
        }
        read_sizes(item(tuple, 2), map.origin);
        for (int d = 0; d < rank; ++d) {
            map.axis[d] = static_cast<std::int8_t>(axes[d]);
        }
        return map;
    }

    // A map for each output.
    void read_maps(PyObject* payload, NodeSpec& node) const {
        for (std::size_t i = 0; i < node.outputs.size(); ++i) {
            node.maps.push_back(affine_map(item(payload, static_cast<Py_ssize_t>(i)), node.outputs[i].rank));
        }
    }

    // (bytes of one element or None, pieces); a piece is (port, sizes, map from, map to).
    void read_pieces(PyObject* payload, NodeSpec& node) const {
        if (item(payload, 0) != Py_None) {
            read_data(item(payload, 0), node);
        }
        PyObject* const pieces = item(payload, 1);
        for (Py_ssize_t i = 0; i < length(pieces); ++i) {
            PyObject* const given = item(pieces, i);
            Piece piece;
            piece.port = static_cast<std::int32_t>(integer(item(given, 0)));
            piece.rank = static_cast<std::uint8_t>(read_sizes(item(given, 1), piece.sizes));
            if (piece.port >= 0) {
                piece.from = affine_map(item(given, 2), piece.rank);
            }
            piece.to = affine_map(item(given, 3), piece.rank);
            node.pieces.push_back(piece);
        }
    }

    void read_function(PyObject* payload, NodeSpec& node) const {
        node.make_step = std::make_unique<PythonStepFactory>(py::reinterpret_borrow<py::object>(payload));
    }

    // (name, parameters by name), and the instructions that follow a product
    void read_native(PyObject* payload, NodeSpec& node) const {
        const std::string_view name = text(item(payload, 0));
        for (const NativeStep& step : native_steps) {
            if (step.name == name) {
                if (length(payload) > 2) {
                    read_instructions(item(payload, 2), node);
                }
                const Fields fields(item(payload, 1), std::move(node.instructions));
                node.make_step = std::make_unique<NativeStepFactory>(step.read(fields));
                fields.require_all_read("node '" + node.name + "', " + std::string(name));
                return;
            }
        }
        throw py::value_error("node '" + node.name + "': there is no native step '" + std::string(name) + "'");
    }

    const DataTypes& types_ = members();
    py::str dtype_ = py::reinterpret_steal<py::str>(check(PyUnicode_InternFromString("dtype")));
    py::str sizes_ = py::reinterpret_steal<py::str>(check(PyUnicode_InternFromString("sizes")));
    py::str strides_ = py::reinterpret_steal<py::str>(check(PyUnicode_InternFromString("strides")));
};

const std::array<Reader::Kind, 8> Reader::kinds{{
    {"element_wise", NodeKind::element_wise, &Reader::read_instructions},
    {"reduce", NodeKind::reduce, &Reader::read_reduction},
    {"fill", NodeKind::fill, &Reader::read_data},
    {"constant", NodeKind::constant, &Reader::read_data},
    {"view", NodeKind::view, &Reader::read_maps},
    {"move", NodeKind::move, &Reader::read_pieces},
    {"python", NodeKind::step, &Reader::read_function},
    {"native", NodeKind::step, &Reader::read_native},
}};

}  // namespace

GraphSpec read_graph(const py::sequence& inputs, const py::sequence& nodes, const py::sequence& outputs) {
    const Reader reader;
    GraphSpec graph;
    for (const py::handle desc : inputs) {
        graph.inputs.push_back(reader.desc(desc.ptr()));
        if (!graph.inputs.back().packed) {
            throw py::value_error("inputs must be packed");
        }
    }
    graph.nodes.reserve(nodes.size());
    for (const py::handle node : nodes) {
        graph.nodes.push_back(reader.node(node.ptr()));
    }
    for (const py::handle value : outputs) {
        graph.outputs.push_back(static_cast<std::int32_t>(integer(value.ptr())));
    }
    return graph;
}

}  // namespace dmlgraph::cpu
