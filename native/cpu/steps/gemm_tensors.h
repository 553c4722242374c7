// The tensors of a GEMM, as its product reads and writes them: of floats and of integers alike.
//
// Side 0 of what is computed is the operand whose lines are the rows, side 1 the one whose lines are the columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/products/epilogue.h"
#include "cpu/products/product.h"
#include "cpu/steps/gemm.h"
#include "cpu/steps/product_inputs.h"

namespace dmlgraph::cpu {

class GemmTensors {
public:
    static constexpr std::size_t sides = 2;

    // Throws std::invalid_argument for tensors of other types and ranks.
    GemmTensors(const StepTensors& tensors, const GemmParameters& parameters);

    // Vectors lie along the columns. If these are few, the product is computed transposed where that saves more than it
    // takes to pack A's rows as columns: not at all if they are known before all runs, or lie side by side.
    void choose(const RunContext& fixed);

    // Multiplies with these kernels from now on, and not with those of the level.
    void use(const ProductKernels& others);
    // Leaves out rows of B that were never written, if it grows.
    void follow(const GrowingTensor& tensor);
    // Whether it surely does so, and reads the buffer nowhere else.
    bool leaves_out(BufferId buffer) const;
    // Computes the transposed product from now on, if it was not before: sides change places.
    void turn();
    // Whether the lines of results of the transposed product may be made as fast: nothing that follows varies along
    // them.
    bool may_turn() const;

    // The input that is a side.
    std::size_t port_of(std::size_t side) const { return transposed_ ? 1 - side : side; }
    // The side that an input is, if nothing else reads it; else `sides`.
    std::size_t side_of(BufferId input) const;
    const Tiles& tiles() const { return tiles_for(inputs.sums(), *kernels); }

    double cost() const { return product_cost(sizes); }
    std::size_t scratch_bytes() const;
    MatrixPanels matrices(const RunContext& context, std::size_t side) const;
    Packing packing(const MatrixPanels& from, std::size_t side) const;
    Target target(const RunContext& context) const;
    // `joins`: whether rows are computed in the same way in all matrices. The correction may be null.
    void multiply(RunContext& context, const Side& a, const Side& b, bool joins, const Correction* correction) const;
    void visit(const Step::Visitor& visitor);

    ProductInputs inputs;
    View output;
    Epilogue epilogue;
    const ProductKernels* kernels;
    ProductSizes sizes;       // of what is computed
    std::int64_t depths = 0;  // of a row of A

private:
    // The dimensions of a matrix.
    struct Dimensions {
        int line;
        int depth;
    };

    bool is_tall() const { return sizes.n < kernels->lanes && sizes.m > sizes.n; }
    MatrixTensor tensor(const RunContext& context, const View& view) const;
    void join_batch(Product& product) const;
    void leave_out_rows(const RunContext& context, Product& product) const;

    Dimensions rows_{};     // of A
    Dimensions columns_{};  // of B
    bool transposed_ = false;
    std::optional<int> rows_of_b_;          // the dimension along which B grows
    std::vector<BufferId> growing_inputs_;  // whose rows it has
};

}  // namespace dmlgraph::cpu
