// What products read: two operands, float32 or float16, or 8-bit integers; the tensors of their epilogue, of the
// output's sizes; and last, for integers, the zero points of both operands.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "cpu/products/zero_points.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

class ProductInputs {
public:
    // Throws std::invalid_argument for operands of other types.
    explicit ProductInputs(const StepTensors& tensors);

    const View& operator[](std::size_t port) const { return views_[port]; }
    std::size_t size() const { return views_.size(); }  // without zero points
    bool integers() const { return is_byte(views_[0].type); }
    DataType sums() const { return integers() ? DataType::int32 : DataType::float32; }

    bool reads(BufferId buffer) const;
    // Whether it is an operand that nothing else here reads, and whose bits stay when it is packed.
    bool only_operand(BufferId buffer, std::size_t operand) const;
    // Whether an operand and its zero point are known.
    bool known(const RunContext& context, std::size_t operand) const;
    // Of an operand of integers.
    ZeroPoints zero_points(const RunContext& context, std::size_t operand) const;
    void visit(const Step::Visitor& visitor);

private:
    std::vector<View> views_;
    std::array<View, 2> zero_points_{};
};

}  // namespace dmlgraph::cpu
