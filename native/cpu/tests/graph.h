// Graphs for the planner; each node has its meaning next to it: a loop over coordinates on plain buffers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cpu/plan/plan.h"
#include "cpu/tests/tensors.h"

namespace dmlgraph::cpu::tests {

// The function of an instruction on numbers, before rounding.
struct Operation {
    Opcode opcode;
    double (*function)(const double* operands);
};

extern const Operation add, subtract, multiply, greater, lesser, absolute, negate, relu, copied;

// A value in the form in which a node reads it.
struct Operand {
    int value;
    TensorDesc desc;
};

class Graph {
public:
    int input(DataType type, const Shape& sizes);
    int constant(DataType type, const Shape& sizes, std::uint64_t seed);
    int fill(DataType type, const Shape& sizes, double number);
    int sequence(DataType type, const Shape& sizes, std::int64_t start, std::int64_t delta);
    // Packed, or with the description `result`.
    int apply(const Operation& operation, const std::vector<Operand>& operands);
    int apply(const Operation& operation, const std::vector<Operand>& operands, const TensorDesc& result);
    int convert(const Operand& operand, DataType type);
    // Several instructions in a node: max(a + b, a) − b.
    int compound(const Operand& a, const Operand& b);
    // The operand unchanged; the planner may need no copy.
    int same(const Operand& operand, const TensorDesc& result);
    // The part of an operand with these origins and steps.
    int slice(const Operand& operand, const Shape& sizes, const Shape& origin, const Shape& steps);
    std::vector<int> split(const Operand& operand, int axis, const Shape& parts);
    int join(const std::vector<Operand>& operands, int axis);
    int pad(const Operand& operand, const Shape& before, const Shape& after, double number);
    int tile(const Operand& operand, const Shape& repeats);
    int reduce(std::string_view name, const Operand& operand, const std::vector<int>& axes, DataType type);
    // The product of matrices of float32, {…, M, K} · {…, K, N}; other nodes may join its step.
    int product(const Operand& a, const Operand& b);
    // A native step that adds 1: one that supports any strides, or one that needs packed tensors.
    int step(const Operand& operand, bool takes_strides);

    void output(int value) { outputs_.push_back(value); }

    const TensorDesc& desc(int value) const { return values_[static_cast<std::size_t>(value)]; }
    std::size_t input_count() const { return inputs_.size(); }
    std::size_t output_count() const { return outputs_.size(); }
    const TensorDesc& input_desc(std::size_t slot) const { return desc(inputs_[slot]); }
    TensorDesc output_desc(std::size_t slot) const;

    GraphSpec spec() const;
    // The outputs' numbers for the inputs' numbers.
    std::vector<std::vector<double>> evaluate(const std::vector<std::vector<double>>& inputs) const;

    // A value with the layout of its buffer.
    Operand read(int value) const { return {value, desc(value)}; }
    // Repeated along dimensions of size 1.
    Operand spread(int value, const Shape& sizes) const;
    // With two dimensions exchanged.
    Operand transposed(int value, int one, int other) const;
    // Its buffer, read with other sizes and strides.
    Operand view(int value, const Shape& sizes, const Shape& strides) const;

private:
    struct Buffer {
        TensorDesc desc;
        std::vector<double> numbers;
        double& at(const Sizes& coordinate) { return numbers.at(static_cast<std::size_t>(place(desc, coordinate))); }
        double at(const Sizes& coordinate) const {
            return numbers.at(static_cast<std::size_t>(place(desc, coordinate)));
        }
    };
    using Buffers = std::vector<Buffer>;
    // Reads buffers with the node's own descriptions.
    using Meaning = std::function<void(const Buffers& inputs, Buffers& outputs)>;
    struct Node {
        std::function<NodeSpec()> spec;  // without sources and descriptions
        std::vector<Operand> operands;
        std::vector<TensorDesc> results;
        int first_value = 0;
        Meaning meaning;
    };

    int node(std::function<NodeSpec()> spec, std::vector<Operand> operands, std::vector<TensorDesc> results,
             Meaning meaning);
    int instructions(std::vector<InstructionSpec> code, std::vector<Operand> operands, const TensorDesc& result,
                     double (*function)(const double*));
    int move(std::vector<std::byte> data, std::vector<Piece> pieces, std::vector<Operand> operands,
             const TensorDesc& result);

    std::vector<TensorDesc> values_;
    std::vector<int> inputs_;
    std::vector<Node> nodes_;
    std::vector<int> outputs_;
};

// Small whole numbers, which additions do not round.
std::vector<double> numbers_for(const TensorDesc& desc, std::uint64_t seed);

}  // namespace dmlgraph::cpu::tests
