// From a graph's nodes to a program: which steps run in which order, and where their buffers are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/reduce.h"
#include "cpu/runtime/step.h"
#include "cpu/tensor/layout.h"

namespace dmlgraph::cpu {

enum class NodeKind : std::uint8_t {
    constant,      // `data` is the bytes of the output
    fill,          // `data` is one element, which the whole output repeats
    element_wise,  // `instructions`; none: the output is the first input
    reduce,        // `reduction` along `axes`, whose sizes are 1 in the output
    view,          // every output is a part of the first input, through its affine map
    move,          // the output consists of `pieces` of the inputs
    step,          // `make_step`
};

// Operand k ≥ 0 is the node's input k; operand ~j is the result of the node's instruction j.
struct InstructionSpec {
    Opcode opcode{};
    DataType operand{};
    DataType result{};
    Kernel kernel = nullptr;  // the result of `find_kernel` for these
    std::vector<std::int16_t> operands;
    std::vector<Immediate> immediates;
};

// Makes the node's step from the views of its tensors.
class StepFactory {
public:
    virtual ~StepFactory() = default;
    virtual std::unique_ptr<Step> make(StepTensors tensors) const = 0;
    // Whether the step supports any strides; otherwise a tensor that is described as packed is packed.
    virtual bool strided() const { return true; }
    // The instructions on the step's sums before they are stored, to which the planner adds others, see
    // products/epilogue.h; null if the step takes none.
    virtual std::vector<InstructionSpec>* epilogue() { return nullptr; }
};

// A rectangular piece of an input that is copied into the output.
struct Piece {
    std::int32_t port = 0;  // -1: the one element of the node's `data`, repeated
    std::uint8_t rank = 0;
    Sizes sizes{};
    AffineMap from;  // of the piece's dimensions onto the input's
    AffineMap to;    // … and onto the output's
};

struct NodeSpec {
    std::string name;
    std::vector<std::string> also;  // the names of other nodes that it computes
    NodeKind kind{};
    std::vector<std::int32_t> sources;  // by input: a value, or -1 if it is absent
    std::vector<TensorDesc> inputs;
    std::vector<TensorDesc> outputs;
    std::vector<InstructionSpec> instructions;
    const Reduction* reduction = nullptr;
    std::uint32_t axes = 0;  // bits
    std::vector<std::byte> data;
    std::vector<AffineMap> maps;
    std::vector<Piece> pieces;
    std::unique_ptr<StepFactory> make_step;
    bool late = false;  // runs right before its readers, so that what it computes is not kept
};

// Values are numbered: the inputs, then every node's outputs in order, absent ones too.
struct GraphSpec {
    std::vector<TensorDesc> inputs;  // packed
    std::vector<NodeSpec> nodes;     // in an executable order
    std::vector<std::int32_t> outputs;
    std::vector<int> grows;  // by input: the axis along which it grows; -1, or nothing: it does not
};

// A temporary buffer: the steps at which it is used, and where it is.
struct Lifetime {
    std::size_t bytes = 0;
    std::int32_t first = -1;  // steps, both included; -1: never used
    std::int32_t last = -1;
    std::size_t offset = 0;  // in the arena

    void extend(std::int32_t step) {
        first = first < 0 ? step : first;
        last = step;
    }
    bool lives_at(std::int32_t step) const { return first >= 0 && first <= step && step <= last; }
};

// Buffers are numbered: inputs, outputs, the buffer of all constants, then the temporary ones, which are in the arena.
struct Program {
    std::vector<TensorDesc> inputs;
    std::vector<TensorDesc> outputs;  // packed
    std::vector<std::byte> constants;
    std::vector<Lifetime> temporaries;
    std::vector<std::unique_ptr<Step>> steps;
    std::size_t arena_bytes = 0;
    std::size_t scratch_bytes = 0;  // of a worker
    // By input or output: whether some step needs its memory packed, whatever the strides of the caller's array.
    std::vector<bool> needs_packed;
    // The last step that reads an input, and the first step that writes an output; -1: none.
    std::vector<std::int32_t> last_read;
    std::vector<std::int32_t> first_write;

    std::size_t buffer_count() const { return inputs.size() + outputs.size() + 1 + temporaries.size(); }
    BufferId constants_buffer() const { return static_cast<BufferId>(inputs.size() + outputs.size()); }
};

// The planner's own mistake: the program would touch memory that is not its node's, or a step refuses its tensors. It
// is never run.
class PlanError : public std::logic_error {
public:
    PlanError(const std::string& node, const std::string& problem);
};

// Throws std::invalid_argument for an invalid graph, and PlanError.
Program plan(GraphSpec graph);

}  // namespace dmlgraph::cpu
