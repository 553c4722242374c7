#include "cpu/steps/recurrent_products.h"

#include <algorithm>

#include "cpu/quotient.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t most_vectors_of_row = 8, most_vectors_of_rows = 4;  // of a gate in a block
constexpr std::int64_t rows_each = 4;  // of a worker: fewer do not keep its multipliers busy

}  // namespace

UnitBlocks divide_units(RecurrentSizes& sizes, const FewRowsKernels& kernels) {
    sizes.lanes = kernels.lanes;
    sizes.vectors = quotient_up(sizes.hidden, sizes.lanes);
    sizes.groups = std::max<std::int64_t>(1, sizes.batch / rows_each);
    const std::int64_t most = sizes.batch == 1 ? most_vectors_of_row : most_vectors_of_rows;
    UnitBlocks blocks;
    blocks.units = {sizes.hidden, quotient_up(sizes.vectors, quotient_up(sizes.vectors, most)) * sizes.lanes};
    blocks.rows_at_once = Division::even(sizes.batch, kernels.rows).width;
    // A row that is stored over the end of another one must be stored later: with all vectors of a gate.
    const bool fills_more = quotient_up(sizes.batch * sizes.hidden, sizes.lanes) < sizes.batch * sizes.vectors;
    blocks.splits_gates = !fills_more || blocks.units.count() > 1 ||
                          sizes.vectors > kernels.most_vectors(static_cast<int>(blocks.rows_at_once));
    sizes.line = blocks.splits_gates ? sizes.vectors * sizes.lanes : sizes.hidden;
    return blocks;
}

Recurrence::Recurrence(const MatrixPanels& from, const RecurrentSizes& sizes, const UnitBlocks& blocks,
                       const ProductKernels& kernels)
    : hidden_(sizes.hidden), units_(blocks.units) {
    for (std::int64_t b = 0; b < units_.count(); ++b) {
        panels_.emplace_back(part(from, b),
                             Packing{1, {sizes.gates}, hidden_, {units_.in(b), sizes.lanes}, true, &kernels});
    }
}

std::size_t Recurrence::bytes() const {
    std::size_t result = 0;
    for (const Panels& each : panels_) {
        result += each.bytes();
    }
    return result;
}

void Recurrence::unpack(const MatrixPanels& to) const {
    for (std::int64_t b = 0; b < units_.count(); ++b) {
        panels_[static_cast<std::size_t>(b)].unpack(part(to, b));
    }
}

MatrixPanels Recurrence::part(const MatrixPanels& all, std::int64_t block) const {
    MatrixPanels result = all;
    result.data += units_.first(block) * all.line;
    result.batch[0] = hidden_ * all.line;
    return result;
}

RowProduct::RowProduct(const FewRowsKernels& kernels, std::int64_t rows_at_once, std::int64_t unit,
                       const std::vector<VectorPlace>& places)
    : kernels_(&kernels), rows_at_once_(rows_at_once) {
    const std::int64_t most = kernels.most_vectors(static_cast<int>(rows_at_once));
    const Division division = Division::even(static_cast<std::int64_t>(places.size()) / unit, most / unit);
    for (std::int64_t t = 0; t < division.count(); ++t) {
        Tile& tile = tiles_.emplace_back();
        tile.first = division.first(t) * unit;
        tile.vectors = static_cast<int>(division.in(t) * unit);
        std::copy_n(places.begin() + tile.first, tile.vectors, tile.places.begin());
    }
}

void RowProduct::multiply(const float* columns, std::int64_t depth, std::int64_t rows, Rows<const float> a,
                          Rows<const float> added, Rows<float> out) const {
    const Division division = Division::even(rows, rows_at_once_);
    const std::int64_t count = division.count(), step = kernels_->lanes * depth;
    for (const Tile& tile : tiles_) {
        const float* const first = columns == nullptr ? nullptr : columns + tile.first * step;
        for (std::int64_t r = 0; r < count; ++r) {
            const std::int64_t row = division.first(r);
            kernels_->kernel(static_cast<int>(division.in(r)), tile.vectors)(
                {a.first + row * a.step, a.step, first, step, columns == nullptr ? 0 : depth,
                 added.first + row * added.step, added.step, out.first + row * out.step, out.step, tile.places.data()});
        }
    }
}

RowProduct row_projection(const FewRowsKernels& kernels, std::int64_t rows, std::int64_t columns) {
    std::vector<VectorPlace> places;
    for (std::int64_t first = 0; first < columns; first += kernels.lanes) {
        places.push_back({first, first});
    }
    return {kernels, Division::even(rows, kernels.rows).width, 1, places};
}

RecurrentProduct::RecurrentProduct(const RecurrentSizes& sizes, const UnitBlocks& blocks, const FewRowsKernels& kernels,
                                   Gates gates, VectorPlace first)
    : depth_(sizes.hidden), first_gate_(gates.first) {
    for (std::int64_t b = 0; b < blocks.units.count(); ++b) {
        const std::int64_t of_gate = blocks.vectors(b, sizes.lanes);
        std::vector<VectorPlace> places;
        for (std::int64_t v = 0; v < (gates.last - gates.first) * of_gate; ++v) {
            const std::int64_t gate = v / of_gate, unit = blocks.units.first(b) + v % of_gate * sizes.lanes;
            places.push_back({first.added + gate * sizes.hidden + unit, first.out + gate * sizes.plane() + unit});
        }
        blocks_.emplace_back(kernels, blocks.rows_at_once, blocks.splits_gates ? 1 : of_gate, places);
    }
}

void RecurrentProduct::multiply(const Recurrence* recurrence, std::int64_t first_block, std::int64_t last_block,
                                std::int64_t rows, Rows<const float> a, Rows<const float> added,
                                Rows<float> out) const {
    for (std::int64_t b = first_block; b < last_block; ++b) {
        blocks_[static_cast<std::size_t>(b)].multiply(recurrence == nullptr ? nullptr : recurrence->at(b, first_gate_),
                                                      depth_, rows, a, added, out);
    }
}

}  // namespace dmlgraph::cpu
