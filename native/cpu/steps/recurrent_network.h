// What a recurrent network's step is made of: all that stays the same from run to run.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "cpu/kernels/product.h"
#include "cpu/products/epilogue.h"
#include "cpu/products/product.h"
#include "cpu/runtime/step.h"
#include "cpu/steps/recurrent.h"
#include "cpu/steps/recurrent_gates.h"
#include "cpu/steps/recurrent_memory.h"
#include "cpu/steps/recurrent_products.h"
#include "cpu/steps/recurrent_tensors.h"

namespace dmlgraph::cpu {

struct RecurrentNetwork {
    static constexpr std::int64_t most_small_weights = 32 << 10;  // numbers: they stay in the second cache
    static constexpr std::int64_t rnn = 1, gru = 3, lstm = 4;     // gates

    // Throws std::invalid_argument for other tensors than `recurrent.h` has.
    RecurrentNetwork(const StepTensors& tensors, const RecurrentParameters& given);

    bool is_lstm() const { return sizes.gates == lstm; }
    bool is_gru() const { return sizes.gates == gru; }
    bool resets_before() const { return is_gru() && !parameters.resets_after_product; }
    bool resets_after() const { return is_gru() && parameters.resets_after_product; }
    bool is_backward(std::int64_t direction) const {
        return parameters.backward[static_cast<std::size_t>(direction)] != 0;
    }

    // The ports of inputs.
    static constexpr std::size_t x = 0, weights = 1, recurrence = 2, bias = 3, hidden_init = 4, cell_init = 5,
                                 peephole = 7;
    std::size_t lengths() const { return is_lstm() ? 6 : 5; }
    bool has_bias() const { return inputs[bias].buffer != no_buffer; }

    // Whether W · X needs no blocks of its own.
    bool projects_rows() const { return sizes.inputs * sizes.all_line() <= most_small_weights; }
    // W · X of so many steps, and R · H of so many rows.
    ProductSizes projection(std::int64_t steps) const {
        return {0, {}, steps * sizes.batch, sizes.all(), sizes.inputs};
    }
    ProductSizes carried(std::int64_t rows) const { return {0, {}, rows, sizes.all(), sizes.hidden}; }
    // W or R of a direction.
    MatrixPanels matrix(const RunContext& context, std::size_t port, std::int64_t direction) const;
    // The same, packed: Panels of W or a Recurrence of R; and which that is of all that is packed.
    std::shared_ptr<const Weights> pack(const RunContext& context, std::size_t port, std::int64_t direction) const;
    std::size_t packed_count() const { return packed_index(recurrence + 1, 0); }
    std::size_t packed_index(std::size_t port, std::int64_t direction) const {
        return (port - weights) * parameters.backward.size() + static_cast<std::size_t>(direction);
    }

    std::vector<View> inputs;
    std::vector<View> outputs;
    RecurrentParameters parameters;
    const ProductKernels& kernels;
    RecurrentSizes sizes;
    UnitBlocks blocks;
    RowProduct projects;       // W · X, if its rows are projected
    RecurrentProduct product;  // of all gates; of GRU of z and r
    RecurrentProduct
        other;  // of GRU's h: to its own plane, or, if it resets after the product, to the plane behind the gates
    RecurrentProduct input;    // of GRU's h, if it resets after the product: W · X alone, to its own plane
    std::vector<Gates> gates;  // by direction
    Epilogue epilogue;         // of W · X
    FloatLines floats;

private:
    void check() const;
};

}  // namespace dmlgraph::cpu
