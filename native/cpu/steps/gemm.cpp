#include "cpu/steps/gemm.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "cpu/products/product.h"
#include "cpu/steps/product_inputs.h"

namespace dmlgraph::cpu {
namespace {

constexpr int matrix_rank = 2;

class GemmStep final : public Step {
public:
    GemmStep(const StepTensors& tensors, const GemmParameters& parameters)
        : inputs_(tensors),
          output_(tensors.outputs.at(0)),
          epilogue_(parameters.epilogue, output_.type, inputs_.size(), inputs_.sums()),
          kernels_(product_kernels()) {
        const View &a = inputs_[0], &b = inputs_[1];
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
        sizes_.rank = rank - matrix_rank;
        std::copy_n(a.sizes.begin(), sizes_.rank, sizes_.batch.begin());
        sizes_.m = a.sizes[rows_.line];
        sizes_.n = b.sizes[columns_.line];
        depths_ = a.sizes[rows_.depth];
        sizes_.k = inputs_.integers() ? (depths_ + depths_of_word - 1) / depths_of_word : depths_;
        // Vectors lie along the columns: if these are few, the product is computed transposed.
        transposed_ = sizes_.n < kernels_.lanes && sizes_.m > sizes_.n;
        if (transposed_) {
            std::swap(sizes_.m, sizes_.n);
        }
    }

    void prepare(const RunContext& fixed) override {
        const auto pack = [&](std::size_t side, Division division, bool padded) {
            if (inputs_.known(fixed, transposed_ ? 1 - side : side)) {
                const MatrixPanels from = matrices(fixed, side);
                Sizes batch = sizes_.batch;
                for (int d = 0; d < sizes_.rank; ++d) {
                    batch[d] = from.batch[d] == 0 ? 1 : batch[d];
                }
                panels_[side] = Panels(from, sizes_.rank, batch, sizes_.k, division, padded, kernels_);
            }
        };
        pack(0, rows_of(sizes_, tiles()), false);
        pack(1, columns_of(sizes_, tiles()), true);
    }

    void run(RunContext& context) const override {
        if (output_.buffer == no_buffer) {
            return;
        }
        const MatrixPanels a = matrices(context, 0), b = matrices(context, 1);
        Product product;
        product.sizes = sizes_;
        product.a = {panels_[0].present() ? &panels_[0] : nullptr, &a, &a};
        product.b = {panels_[1].present() ? &panels_[1] : nullptr, &b, &b};
        product.target.out = tensor(context, output_);
        for (std::size_t i = first_operand; i < inputs_.size(); ++i) {
            product.target.operands.push_back(tensor(context, inputs_[i]));
        }
        product.target.epilogue = &epilogue_;
        product.kernels = &kernels_;
        product.sums = inputs_.sums();
        join_batch(product, a, b);
        run_product(context, product);
    }

    Kind kind() const override { return Kind::native; }
    double cost() const override { return product_cost(sizes_); }
    std::size_t scratch_bytes() const override {
        ProductSizes joined = sizes_;
        joined.m *= sizes_.count();
        const std::size_t operands = inputs_.size() - first_operand;
        return std::max(product_scratch(sizes_, operands, epilogue_, tiles()),
                        product_scratch(joined, operands, epilogue_, tiles()));
    }
    void visit(const Visitor& visitor) override {
        inputs_.visit(visitor);
        visitor(output_, true);
    }

private:
    // The dimensions of a matrix.
    struct Dimensions {
        int line;
        int depth;
    };

    const Tiles& tiles() const { return tiles_for(inputs_.sums(), kernels_); }

    // The operand whose lines are the rows (side 0) or the columns (side 1) of what is computed.
    MatrixPanels matrices(const RunContext& context, std::size_t side) const {
        const bool is_a = (side == 0) != transposed_;
        const Tensor tensor = context.tensor(inputs_[is_a ? 0 : 1]);
        const Dimensions& dimensions = is_a ? rows_ : columns_;
        MatrixPanels result(tensor.data, tensor.type, {}, tensor.strides[dimensions.line], tensor.strides[dimensions.depth]);
        std::copy_n(tensor.strides.begin(), sizes_.rank, result.batch.begin());
        result.depths = depths_;
        result.zeros = inputs_.zero_points(context, is_a ? 0 : 1);
        return result;
    }

    MatrixTensor tensor(const RunContext& context, const View& view) const {
        const Tensor found = context.tensor(view);
        MatrixTensor result;
        result.data = found.data;
        result.type = found.type;
        std::copy_n(found.strides.begin(), sizes_.rank, result.batch.begin());
        const int row = transposed_ ? sizes_.rank + 1 : sizes_.rank, column = transposed_ ? sizes_.rank : sizes_.rank + 1;
        result.row = found.strides[row];
        result.sizes[0] = sizes_.n;
        result.strides[0] = found.strides[column];
        return result;
    }

    // If all matrices of A are multiplied by the same one, and follow one another, they are one matrix.
    void join_batch(Product& product, const MatrixPanels& a, const MatrixPanels& b) const {
        if (product.a.panels != nullptr) {
            return;
        }
        ProductSizes& sizes = product.sizes;
        for (int d = sizes.rank - 1; d >= 0; --d) {
            const auto follows = [&](std::int64_t batch, std::int64_t row) { return batch == row * sizes.m; };
            const bool joins = b.batch[d] == 0 && !a.zeros.varies() && follows(a.batch[d], a.line) && follows(product.target.out.batch[d], product.target.out.row) &&
                               std::ranges::all_of(product.target.operands, [&](const MatrixTensor& each) {
                                   return follows(each.batch[d], each.row);
                               });
            if (sizes.batch[d] > 1 && !joins) {
                return;
            }
            sizes.m *= sizes.batch[d];
            sizes.batch[d] = 1;
        }
    }

    ProductInputs inputs_;
    View output_;
    Epilogue epilogue_;
    const ProductKernels& kernels_;
    ProductSizes sizes_;      // of what is computed
    std::int64_t depths_ = 0;  // of a row of A
    Dimensions rows_{};       // of A
    Dimensions columns_{};    // of B
    bool transposed_ = false;
    Panels panels_[2];        // of the sides that stay the same
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const GemmParameters& parameters) {
    return std::make_unique<GemmStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
