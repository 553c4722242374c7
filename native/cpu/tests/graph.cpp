#include "cpu/tests/graph.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "cpu/steps/gemm.h"
#include "cpu/tests/random.h"

namespace dmlgraph::cpu::tests {

const Operation add{Opcode::ADD, [](const double* x) { return x[0] + x[1]; }};
const Operation subtract{Opcode::SUBTRACT, [](const double* x) { return x[0] - x[1]; }};
const Operation multiply{Opcode::MULTIPLY, [](const double* x) { return x[0] * x[1]; }};
const Operation greater{Opcode::MAX, [](const double* x) { return std::max(x[0], x[1]); }};
const Operation lesser{Opcode::MIN, [](const double* x) { return std::min(x[0], x[1]); }};
const Operation absolute{Opcode::ABS, [](const double* x) { return std::fabs(x[0]); }};
const Operation negate{Opcode::NEGATE, [](const double* x) { return -x[0]; }};
const Operation relu{Opcode::RELU, [](const double* x) { return x[0] > 0 ? x[0] : 0; }};
const Operation copied{Opcode::IDENTITY, [](const double* x) { return x[0]; }};

namespace {

// How reductions accumulate elements, by the planner's names.
struct Folding {
    std::string_view name;
    double start;
    void (*take)(double& state, double& place, double x, double index);
    bool gives_place;
};

constexpr Folding foldings[] = {
    {"SUM", 0, [](double& state, double&, double x, double) { state += x; }, false},
    {"SUM_ABS", 0, [](double& state, double&, double x, double) { state += std::fabs(x); }, false},
    {"MAX", -INFINITY, [](double& state, double&, double x, double) { state = std::max(state, x); }, false},
    {"MIN", INFINITY, [](double& state, double&, double x, double) { state = std::min(state, x); }, false},
    {"ARGMAX", -INFINITY,
     [](double& state, double& place, double x, double index) {
         if (x > state) {
             state = x, place = index;
         }
     },
     true},
    {"LAST_ARGMIN", INFINITY,
     [](double& state, double& place, double x, double index) {
         if (x <= state) {
             state = x, place = index;
         }
     },
     true},
};

InstructionSpec instruction(Opcode opcode, DataType operand, DataType result, std::vector<std::int16_t> operands,
                            std::vector<Immediate> immediates = {}) {
    const Kernel kernel = find_kernel(opcode, operand, result);
    CHECK_MESSAGE((kernel != nullptr), std::string(opcode_name(opcode)));
    return {opcode, operand, result, kernel, std::move(operands), std::move(immediates)};
}

AffineMap part(int rank, const Shape& origin, const Shape& steps = {}) {
    AffineMap map;
    for (int d = 0; d < rank; ++d) {
        map.axis[d] = static_cast<std::int8_t>(d);
        map.step[d] = steps.empty() ? 1 : steps[static_cast<std::size_t>(d)];
        map.origin[d] = origin[static_cast<std::size_t>(d)];
    }
    return map;
}

Sizes through_map(const AffineMap& map, int rank, const Sizes& at) {
    Sizes result = map.origin;
    for (int d = 0; d < rank; ++d) {
        if (map.axis[d] >= 0) {
            result[map.axis[d]] += map.step[d] * at[d];
        }
    }
    return result;
}

Piece piece_of(std::int32_t port, const Shape& sizes, const AffineMap& from, const AffineMap& to) {
    Piece piece{port, static_cast<std::uint8_t>(sizes.size()), {}, from, to};
    std::ranges::copy(sizes, piece.sizes.begin());
    return piece;
}

class PlusOne final : public Step {
public:
    PlusOne(std::vector<View> inputs, std::vector<View> outputs) : from_(inputs.at(0)), to_(outputs.at(0)) {}

    void run(RunContext& context) const override {
        if (to_.buffer == no_buffer) {
            return;
        }
        const Tensor from = context.tensor(from_), to = context.tensor(to_);
        const TensorDesc rows = packed(from.type, {to.sizes.begin() + 1, to.sizes.begin() + to.rank});
        context.parallel(to.sizes[0], 1e9, [&](int worker, Chunks& chunks) {
            context.scratch(worker)[0] = std::byte{1};
            std::int64_t first = 0, last = 0;
            while (chunks.next(first, last)) {
                for (std::int64_t row = first; row < last; ++row) {
                    each_coordinate(rows, [&](const Sizes& at) {
                        const std::byte* source = from.data + row * from.strides[0];
                        std::byte* target = to.data + row * to.strides[0];
                        for (int d = 1; d < to.rank; ++d) {
                            source += at[d - 1] * from.strides[d];
                            target += at[d - 1] * to.strides[d];
                        }
                        store(to.type, target, load(from.type, source) + 1);
                    });
                }
            }
        });
    }
    std::size_t scratch_bytes() const override { return 1; }
    void visit(const Visitor& visitor) override {
        visitor(from_, false);
        visitor(to_, true);
    }

private:
    View from_, to_;
};

class PlusOneFactory final : public StepFactory {
public:
    explicit PlusOneFactory(bool takes_strides) : takes_strides_(takes_strides) {}
    std::unique_ptr<Step> make(StepTensors tensors) const override {
        return std::make_unique<PlusOne>(std::move(tensors.inputs), std::move(tensors.outputs));
    }
    bool strided() const override { return takes_strides_; }

private:
    bool takes_strides_;
};

class ProductFactory final : public StepFactory {
public:
    std::unique_ptr<Step> make(StepTensors tensors) const override { return make_step(tensors, parameters_); }
    std::vector<InstructionSpec>* epilogue() override { return &parameters_.epilogue; }

private:
    GemmParameters parameters_{};
};

std::vector<std::byte> bytes_of(DataType type, double number) {
    std::vector<std::byte> bytes(item_size(type));
    store(type, bytes.data(), number);
    return bytes;
}

// A NodeSpec that can be made repeatedly.
template <class Change>
std::function<NodeSpec()> spec_of(NodeKind kind, Change change) {
    return [=] {
        NodeSpec spec;
        spec.kind = kind;
        change(spec);
        return spec;
    };
}

}  // namespace

std::vector<double> numbers_for(const TensorDesc& desc, std::uint64_t seed) {
    Random random(seed);
    const bool is_unsigned = desc.type == DataType::uint8 || desc.type == DataType::uint16 ||
                             desc.type == DataType::uint32 || desc.type == DataType::uint64;
    std::vector<double> numbers(static_cast<std::size_t>(desc.element_count()));
    for (double& number : numbers) {
        number = static_cast<double>(random.between(is_unsigned ? 0 : -4, 4));
    }
    return numbers;
}

int Graph::node(std::function<NodeSpec()> spec, std::vector<Operand> operands, std::vector<TensorDesc> results,
                Meaning meaning) {
    const auto first = static_cast<int>(values_.size());
    values_.insert(values_.end(), results.begin(), results.end());
    nodes_.push_back({std::move(spec), std::move(operands), std::move(results), first, std::move(meaning)});
    return first;
}

int Graph::input(DataType type, const Shape& sizes) {
    CHECK_MESSAGE(nodes_.empty(), "inputs come first");
    inputs_.push_back(static_cast<int>(values_.size()));
    values_.push_back(packed(type, sizes));
    return inputs_.back();
}

int Graph::constant(DataType type, const Shape& sizes, std::uint64_t seed) {
    const TensorDesc desc = packed(type, sizes);
    const std::vector<double> numbers = numbers_for(desc, seed);
    std::vector<std::byte> data(desc.total_bytes());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        store(type, data.data() + i * item_size(type), numbers[i]);
    }
    return node(spec_of(NodeKind::constant, [=](NodeSpec& spec) { spec.data = data; }), {}, {desc},
                [numbers](const Buffers&, Buffers& outputs) { outputs[0].numbers = numbers; });
}

int Graph::fill(DataType type, const Shape& sizes, double number) {
    return node(spec_of(NodeKind::fill, [=](NodeSpec& spec) { spec.data = bytes_of(type, number); }), {},
                {packed(type, sizes)},
                [number](const Buffers&, Buffers& outputs) { std::ranges::fill(outputs[0].numbers, number); });
}

int Graph::sequence(DataType type, const Shape& sizes, std::int64_t start, std::int64_t delta) {
    Immediate first{}, step{};
    for (const auto& [immediate, number] : {std::pair(&first, start), std::pair(&step, delta)}) {
        const std::vector<std::byte> bytes = bytes_of(type, static_cast<double>(number));
        std::ranges::copy(bytes, reinterpret_cast<std::byte*>(&immediate->u));
    }
    const auto code = instruction(Opcode::SEQUENCE, type, type, {}, {first, step});
    return node(spec_of(NodeKind::element_wise, [=](NodeSpec& spec) { spec.instructions = {code}; }), {},
                {packed(type, sizes)}, [=](const Buffers&, Buffers& outputs) {
                    double next = static_cast<double>(start);
                    for (double& number : outputs[0].numbers) {
                        number = rounded(type, next);
                        next += static_cast<double>(delta);
                    }
                });
}

int Graph::instructions(std::vector<InstructionSpec> code, std::vector<Operand> operands, const TensorDesc& result,
                        double (*function)(const double*)) {
    return node(spec_of(NodeKind::element_wise, [=](NodeSpec& spec) { spec.instructions = code; }), std::move(operands),
                {result}, [=](const Buffers& inputs, Buffers& outputs) {
                    each_coordinate(result, [&](const Sizes& at) {
                        double numbers[3] = {};
                        for (std::size_t k = 0; k < inputs.size(); ++k) {
                            numbers[k] = inputs[k].at(at);
                        }
                        outputs[0].at(at) = rounded(result.type, function(numbers));
                    });
                });
}

int Graph::apply(const Operation& operation, const std::vector<Operand>& operands) {
    return apply(operation, operands, packed(operands[0].desc.type, sizes_of(operands[0].desc)));
}

int Graph::apply(const Operation& operation, const std::vector<Operand>& operands, const TensorDesc& result) {
    std::vector<std::int16_t> ports;
    for (std::size_t k = 0; k < operands.size(); ++k) {
        ports.push_back(static_cast<std::int16_t>(k));
    }
    return instructions({instruction(operation.opcode, result.type, result.type, ports)}, operands, result,
                        operation.function);
}

int Graph::convert(const Operand& operand, DataType type) {
    return instructions({instruction(Opcode::CONVERT, operand.desc.type, type, {0})}, {operand},
                        packed(type, sizes_of(operand.desc)), copied.function);
}

int Graph::compound(const Operand& a, const Operand& b) {
    const DataType type = a.desc.type;
    return instructions({instruction(Opcode::ADD, type, type, {0, 1}), instruction(Opcode::MAX, type, type, {-1, 0}),
                         instruction(Opcode::SUBTRACT, type, type, {-2, 1})},
                        {a, b}, packed(type, sizes_of(a.desc)),
                        [](const double* x) { return std::max(x[0] + x[1], x[0]) - x[1]; });
}

int Graph::same(const Operand& operand, const TensorDesc& result) {
    return instructions({}, {operand}, result, copied.function);
}

int Graph::slice(const Operand& operand, const Shape& sizes, const Shape& origin, const Shape& steps) {
    const AffineMap map = part(operand.desc.rank, origin, steps);
    const TensorDesc result = packed(operand.desc.type, sizes);
    return node(spec_of(NodeKind::view, [=](NodeSpec& spec) { spec.maps = {map}; }), {operand}, {result},
                [=](const Buffers& inputs, Buffers& outputs) {
                    each_coordinate(result, [&](const Sizes& at) {
                        outputs[0].at(at) = inputs[0].at(through_map(map, result.rank, at));
                    });
                });
}

std::vector<int> Graph::split(const Operand& operand, int axis, const Shape& parts) {
    std::vector<TensorDesc> results;
    std::vector<AffineMap> maps;
    Shape sizes = sizes_of(operand.desc), origin(sizes.size(), 0);
    for (const std::int64_t size : parts) {
        sizes[static_cast<std::size_t>(axis)] = size;
        results.push_back(packed(operand.desc.type, sizes));
        maps.push_back(part(operand.desc.rank, origin));
        origin[static_cast<std::size_t>(axis)] += size;
    }
    const int first = node(spec_of(NodeKind::view, [=](NodeSpec& spec) { spec.maps = maps; }), {operand}, results,
                           [=](const Buffers& inputs, Buffers& outputs) {
                               for (std::size_t k = 0; k < maps.size(); ++k) {
                                   each_coordinate(outputs[k].desc, [&](const Sizes& at) {
                                       outputs[k].at(at) = inputs[0].at(through_map(maps[k], outputs[k].desc.rank, at));
                                   });
                               }
                           });
    std::vector<int> values;
    for (std::size_t k = 0; k < parts.size(); ++k) {
        values.push_back(first + static_cast<int>(k));
    }
    return values;
}

int Graph::move(std::vector<std::byte> data, std::vector<Piece> pieces, std::vector<Operand> operands,
                const TensorDesc& result) {
    const double number = data.empty() ? 0 : load(result.type, data.data());
    return node(spec_of(NodeKind::move, [=](NodeSpec& spec) { spec.data = data, spec.pieces = pieces; }),
                std::move(operands), {result}, [=](const Buffers& inputs, Buffers& outputs) {
                    for (const Piece& piece : pieces) {
                        const TensorDesc all =
                            packed(result.type, {piece.sizes.begin(), piece.sizes.begin() + piece.rank});
                        each_coordinate(all, [&](const Sizes& at) {
                            const double moved = piece.port < 0 ? number
                                                                : inputs[static_cast<std::size_t>(piece.port)].at(
                                                                      through_map(piece.from, piece.rank, at));
                            outputs[0].at(through_map(piece.to, piece.rank, at)) = moved;
                        });
                    }
                });
}

int Graph::join(const std::vector<Operand>& operands, int axis) {
    const int rank = operands[0].desc.rank;
    Shape whole = sizes_of(operands[0].desc), origin(whole.size(), 0);
    std::int64_t& start = origin[static_cast<std::size_t>(axis)];
    std::vector<Piece> pieces;
    for (const Operand& operand : operands) {
        const auto port = static_cast<std::int32_t>(pieces.size());
        pieces.push_back(
            piece_of(port, sizes_of(operand.desc), part(rank, Shape(whole.size(), 0)), part(rank, origin)));
        start += operand.desc.sizes[axis];
    }
    whole[static_cast<std::size_t>(axis)] = start;
    return move({}, pieces, operands, packed(operands[0].desc.type, whole));
}

int Graph::pad(const Operand& operand, const Shape& before, const Shape& after, double number) {
    const std::size_t rank = before.size();
    const Shape sizes = sizes_of(operand.desc), none(rank, 0);
    Shape whole = sizes;
    for (std::size_t d = 0; d < rank; ++d) {
        whole[d] += before[d] + after[d];
    }
    std::vector<Piece> pieces{piece_of(0, sizes, part(operand.desc.rank, none), part(operand.desc.rank, before))};
    for (std::size_t axis = 0; axis < rank; ++axis) {
        for (const bool behind : {false, true}) {
            Shape slab = whole, origin = none;
            for (std::size_t d = 0; d < axis; ++d) {
                slab[d] = sizes[d], origin[d] = before[d];
            }
            slab[axis] = behind ? after[axis] : before[axis];
            origin[axis] = behind ? before[axis] + sizes[axis] : 0;
            if (slab[axis] > 0) {
                pieces.push_back(piece_of(-1, slab, {}, part(operand.desc.rank, origin)));
            }
        }
    }
    return move(bytes_of(operand.desc.type, number), pieces, {operand}, packed(operand.desc.type, whole));
}

int Graph::tile(const Operand& operand, const Shape& repeats) {
    Shape sizes, whole = sizes_of(operand.desc);
    AffineMap from, to;
    for (std::size_t d = 0; d < repeats.size(); ++d) {
        const auto axis = static_cast<std::int8_t>(d);
        from.axis[sizes.size()] = -1;
        to.axis[sizes.size()] = axis;
        to.step[sizes.size()] = whole[d];
        sizes.push_back(repeats[d]);
        from.axis[sizes.size()] = to.axis[sizes.size()] = axis;
        from.step[sizes.size()] = to.step[sizes.size()] = 1;
        sizes.push_back(whole[d]);
        whole[d] *= repeats[d];
    }
    return move({}, {piece_of(0, sizes, from, to)}, {operand}, packed(operand.desc.type, whole));
}

int Graph::reduce(std::string_view name, const Operand& operand, const std::vector<int>& axes, DataType type) {
    std::uint32_t bits = 0;
    Shape sizes = sizes_of(operand.desc);
    for (const int axis : axes) {
        bits |= 1u << axis;
        sizes[static_cast<std::size_t>(axis)] = 1;
    }
    const Reduction* const reduction = find_reduction(name, operand.desc.type, type);
    CHECK_MESSAGE(reduction != nullptr, std::string(name));
    const Folding folding = *std::ranges::find(foldings, name, &Folding::name);
    const TensorDesc result = packed(type, sizes);
    return node(spec_of(NodeKind::reduce, [=](NodeSpec& spec) { spec.reduction = reduction, spec.axes = bits; }),
                {operand}, {result}, [=](const Buffers& inputs, Buffers& outputs) {
                    Buffer states = outputs[0], places = outputs[0], taken = outputs[0];
                    std::ranges::fill(states.numbers, folding.start);
                    each_coordinate(inputs[0].desc, [&](Sizes at) {
                        const double x = inputs[0].at(at);
                        for (const int axis : axes) {
                            at[axis] = 0;
                        }
                        folding.take(states.at(at), places.at(at), x, taken.at(at)++);
                    });
                    const Buffer& found = folding.gives_place ? places : states;
                    std::ranges::transform(found.numbers, outputs[0].numbers.begin(),
                                           [&](double number) { return rounded(type, number); });
                });
}

int Graph::product(const Operand& a, const Operand& b) {
    const int row = a.desc.rank - 2, column = a.desc.rank - 1;
    Shape sizes = sizes_of(a.desc);
    sizes.back() = b.desc.sizes[column];
    const TensorDesc result = packed(DataType::float32, sizes);
    return node(spec_of(NodeKind::step, [](NodeSpec& spec) { spec.make_step = std::make_unique<ProductFactory>(); }),
                {a, b}, {result}, [=](const Buffers& inputs, Buffers& outputs) {
                    each_coordinate(result, [&](const Sizes& at) {
                        double sum = 0;
                        for (std::int64_t k = 0; k < inputs[0].desc.sizes[column]; ++k) {
                            Sizes left = at, right = at;
                            left[column] = right[row] = k;
                            sum += inputs[0].at(left) * inputs[1].at(right);
                        }
                        outputs[0].at(at) = sum;
                    });
                });
}

int Graph::step(const Operand& operand, bool takes_strides) {
    const TensorDesc result = packed(operand.desc.type, sizes_of(operand.desc));
    return node(spec_of(NodeKind::step,
                        [=](NodeSpec& spec) { spec.make_step = std::make_unique<PlusOneFactory>(takes_strides); }),
                {operand}, {result}, [=](const Buffers& inputs, Buffers& outputs) {
                    each_coordinate(result, [&](const Sizes& at) {
                        outputs[0].at(at) = rounded(result.type, inputs[0].at(at) + 1);
                    });
                });
}

Operand Graph::spread(int value, const Shape& sizes) const {
    Shape strides = strides_of(desc(value));
    for (std::size_t d = 0; d < sizes.size(); ++d) {
        strides[d] = desc(value).sizes[d] == 1 ? 0 : strides[d];
    }
    return view(value, sizes, strides);
}

Operand Graph::transposed(int value, int one, int other) const {
    Operand operand = read(value);
    std::swap(operand.desc.sizes[one], operand.desc.sizes[other]);
    std::swap(operand.desc.strides[one], operand.desc.strides[other]);
    operand.desc.packed = is_packed(operand.desc);
    return operand;
}

Operand Graph::view(int value, const Shape& sizes, const Shape& strides) const {
    return {value, strided(desc(value).type, sizes, strides)};
}

TensorDesc Graph::output_desc(std::size_t slot) const {
    const TensorDesc& given = desc(outputs_[slot]);
    return packed(given.type, sizes_of(given));
}

GraphSpec Graph::spec() const {
    GraphSpec graph;
    for (const int value : inputs_) {
        graph.inputs.push_back(desc(value));
    }
    for (const Node& each : nodes_) {
        NodeSpec spec = each.spec();
        spec.name = "node" + std::to_string(graph.nodes.size());
        for (const Operand& operand : each.operands) {
            spec.sources.push_back(operand.value);
            spec.inputs.push_back(operand.desc);
        }
        spec.outputs = each.results;
        graph.nodes.push_back(std::move(spec));
    }
    graph.outputs.assign(outputs_.begin(), outputs_.end());
    return graph;
}

std::vector<std::vector<double>> Graph::evaluate(const std::vector<std::vector<double>>& inputs) const {
    Buffers buffers;
    for (const TensorDesc& each : values_) {
        buffers.push_back({each, std::vector<double>(static_cast<std::size_t>(each.span()))});
    }
    for (std::size_t slot = 0; slot < inputs.size(); ++slot) {
        buffers[static_cast<std::size_t>(inputs_[slot])].numbers = inputs[slot];
    }
    for (const Node& each : nodes_) {
        Buffers read;
        for (const Operand& operand : each.operands) {
            read.push_back({operand.desc, buffers[static_cast<std::size_t>(operand.value)].numbers});
        }
        const auto first = buffers.begin() + each.first_value;
        Buffers made(first, first + static_cast<std::ptrdiff_t>(each.results.size()));
        each.meaning(read, made);
        std::ranges::move(made, first);
    }
    std::vector<std::vector<double>> results;
    for (const int value : outputs_) {
        const Buffer& buffer = buffers[static_cast<std::size_t>(value)];
        std::vector<double>& numbers = results.emplace_back();
        each_coordinate(buffer.desc, [&](const Sizes& at) { numbers.push_back(buffer.at(at)); });
    }
    return results;
}

}  // namespace dmlgraph::cpu::tests
