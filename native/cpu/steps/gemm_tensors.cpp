#include "cpu/steps/gemm_tensors.h"
#include "cpu/kernels/level.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace dmlgraph::cpu {
namespace {

constexpr int matrix_rank = 2;

}  // namespace

GemmTensors::GemmTensors(const StepTensors& tensors, const GemmParameters& parameters)
    : inputs(tensors),
      output(tensors.outputs.at(0)),
      epilogue(parameters.epilogue, output.type, inputs.size(), inputs.sums()),
      kernels(chosen_level().products) {
    const View &a = inputs[0], &b = inputs[1];
    const int rank = a.rank;
    if (rank < matrix_rank || b.rank != rank) {
        throw std::invalid_argument("matrices have at least 2 dimensions, and both as many");
    }
    rows_ = {rank - 2, rank - 1};
    columns_ = {rank - 1, rank - 2};
    if (parameters.transposes_a) {
        std::swap(rows_.line, rows_.depth);
    }
    if (parameters.transposes_b) {
        std::swap(columns_.line, columns_.depth);
    }
    sizes.rank = rank - matrix_rank;
    std::copy_n(a.sizes.begin(), sizes.rank, sizes.batch.begin());
    sizes.m = a.sizes[rows_.line];
    sizes.n = b.sizes[columns_.line];
    depths = a.sizes[rows_.depth];
    use(*kernels);
    const bool rows_follow = a.strides[rows_.line] == static_cast<std::int64_t>(item_size(a.type));
    if (is_tall() && (a.type != DataType::float32 || rows_follow || adds_along(sizes.n, sizes.k))) {
        turn();
    }
}

void GemmTensors::choose(const RunContext& fixed) {
    if (is_tall() && inputs.known(fixed, 0)) {
        turn();
    }
}

void GemmTensors::turn() {
    transposed_ = !transposed_;
    std::swap(sizes.m, sizes.n);
}

bool GemmTensors::may_turn() const {
    constexpr std::int64_t least_vectors = 2;
    bool varies = false;
    for (std::size_t i = first_operand; i < inputs.size(); ++i) {
        varies |= inputs[i].strides[sizes.rank + (transposed_ ? 1 : 0)] != 0;
    }
    return !varies && sizes.m >= least_vectors * tiles().lanes;
}

void GemmTensors::use(const ProductKernels& others) {
    kernels = &others;
    sizes.k = quotient_up(depths, inputs.integers() ? kernels->integers.depths : 1);
}

void GemmTensors::follow(const GrowingTensor& tensor) {
    if (const std::optional<int> found = dimension_of_rows(inputs[1], tensor)) {
        rows_of_b_ = found;
        growing_inputs_ = tensor.inputs;
    }
}

bool GemmTensors::leaves_out(BufferId buffer) const {
    const View& b = inputs[1];
    const bool lies_along = b.strides[columns_.depth] == static_cast<std::int64_t>(item_size(b.type));
    return rows_of_b_ && inputs.only_operand(buffer, 1) && !transposed_ && !is_tall() &&
           (rows_of_b_ == columns_.line || (rows_of_b_ == columns_.depth && !lies_along));
}

std::size_t GemmTensors::side_of(BufferId input) const {
    std::size_t side = 0;
    while (side < sides && !inputs.only_operand(input, port_of(side))) {
        ++side;
    }
    return side;
}

std::size_t GemmTensors::scratch_bytes() const {
    const std::size_t operands = inputs.size() - first_operand;
    std::size_t most = 0;
    // Other kernels may be used later, with more depths in a word, and the sides may change places.
    for (const std::int64_t k : {sizes.k, inputs.integers() ? quotient_up(depths, most_depths_of_word) : sizes.k}) {
        for (const bool turned : {false, is_tall() || inputs.integers()}) {
            ProductSizes each = sizes;
            each.k = k;
            if (turned) {
                std::swap(each.m, each.n);
            }
            most = std::max(most, product_scratch(each, operands, epilogue, tiles()));
            each.m *= sizes.count();
            most = std::max(most, product_scratch(each, operands, epilogue, tiles()));
        }
    }
    return most;
}

MatrixPanels GemmTensors::matrices(const RunContext& context, std::size_t side) const {
    const std::size_t port = port_of(side);
    const Tensor found = context.tensor(inputs[port]);
    const Dimensions& dimensions = port == 0 ? rows_ : columns_;
    MatrixPanels result(found.data, found.type, {}, found.strides[dimensions.line], found.strides[dimensions.depth]);
    std::copy_n(found.strides.begin(), sizes.rank, result.batch.begin());
    return result;
}

Packing GemmTensors::packing(const MatrixPanels& from, std::size_t side) const {
    Sizes batch = sizes.batch;
    std::int64_t rows = sizes.m;  // that meet a matrix of columns
    for (int d = 0; d < sizes.rank; ++d) {
        rows *= from.batch[d] == 0 ? batch[d] : 1;
        batch[d] = from.batch[d] == 0 ? 1 : batch[d];
    }
    const Division division = side == 0 ? rows_of(sizes, tiles()) : columns_of(sizes, tiles());
    const bool padded = side != 0;
    // Few rows wait for the columns to come from memory; more would spread the same bytes again and again.
    const bool as_bytes = padded && inputs.sums() == DataType::int32 && rows <= tiles().rows;
    return {sizes.rank, batch, sizes.k, division, padded, kernels, as_bytes};
}

Target GemmTensors::target(const RunContext& context) const {
    Target result;
    result.out = tensor(context, output);
    for (std::size_t i = first_operand; i < inputs.size(); ++i) {
        result.operands.push_back(tensor(context, inputs[i]));
    }
    result.epilogue = &epilogue;
    return result;
}

void GemmTensors::multiply(RunContext& context, const Side& a, const Side& b, bool joins,
                           const Correction* correction) const {
    Product product;
    product.sizes = sizes;
    product.a = a;
    product.b = b;
    product.target = target(context);
    product.target.correction = correction;
    product.kernels = kernels;
    product.sums = inputs.sums();
    leave_out_rows(context, product);
    if (joins) {
        join_batch(product);
    }
    run_product(context, product);
}

void GemmTensors::visit(const Step::Visitor& visitor) {
    inputs.visit(visitor);
    visitor(output, true);
}

MatrixTensor GemmTensors::tensor(const RunContext& context, const View& view) const {
    const Tensor found = context.tensor(view);
    MatrixTensor result;
    result.data = found.data;
    result.type = found.type;
    std::copy_n(found.strides.begin(), sizes.rank, result.batch.begin());
    const int row = transposed_ ? sizes.rank + 1 : sizes.rank, column = transposed_ ? sizes.rank : sizes.rank + 1;
    result.row = found.strides[row];
    result.sizes[0] = sizes.n;
    result.strides[0] = found.strides[column];
    return result;
}

void GemmTensors::leave_out_rows(const RunContext& context, Product& product) const {
    if (context.rows == nullptr || transposed_ || !rows_of_b_) {
        return;
    }
    if (rows_of_b_ == columns_.line) {
        product.columns_that_count = context.written(growing_inputs_, sizes.n);
    } else if (rows_of_b_ == columns_.depth && product.b.matrix != nullptr && !product.b.matrix->lies_along()) {
        product.depths_that_count = context.written(growing_inputs_, sizes.k);
    }
}

// If all matrices of A are multiplied by the same one, and follow one another, they are one matrix.
void GemmTensors::join_batch(Product& product) const {
    if (product.a.panels != nullptr) {
        return;
    }
    const MatrixPanels &a = *product.a.matrix, &b = *product.b.matrix;
    ProductSizes& joined = product.sizes;
    for (int d = joined.rank - 1; d >= 0; --d) {
        const auto follows = [&](std::int64_t batch, std::int64_t row) { return batch == row * joined.m; };
        const bool joins = b.batch[d] == 0 && follows(a.batch[d], a.line) &&
                           follows(product.target.out.batch[d], product.target.out.row) &&
                           std::ranges::all_of(product.target.operands, [&](const MatrixTensor& each) {
                               return follows(each.batch[d], each.row);
                           });
        if (joined.batch[d] > 1 && !joins) {
            return;
        }
        joined.m *= joined.batch[d];
        joined.batch[d] = 1;
    }
}

}  // namespace dmlgraph::cpu
