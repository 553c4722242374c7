// The products of a recurrent network's steps: the hidden state of some rows times R, packed vector by vector.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cpu/kernels/row_product.h"
#include "cpu/products/panels.h"
#include "cpu/steps/recurrent_memory.h"

namespace dmlgraph::cpu {

// The hidden units in blocks, whose sums workers can compute by themselves. Of a block all gates are multiplied
// together, as many vectors at a time as stay in registers.
struct UnitBlocks {
    Division units;
    std::int64_t rows_at_once = 1;
    bool splits_gates = true;  // whether the vectors of a gate may be computed one after the other

    std::int64_t vectors(std::int64_t block, std::int64_t lanes) const { return quotient_up(units.in(block), lanes); }
};

// How these sizes are divided; sets their `lanes`, `vectors`, `line` and `groups`.
UnitBlocks divide_units(RecurrentSizes& sizes, const FewRowsKernels& kernels);

// R of a direction.
class Recurrence final : public Weights {
public:
    Recurrence(const MatrixPanels& from, const RecurrentSizes& sizes, const UnitBlocks& blocks,
               const ProductKernels& kernels);
    // Writes the numbers to where they come from.
    void unpack(const MatrixPanels& to) const;
    std::size_t bytes() const;

    // The vectors of a block, gate by gate.
    const float* at(std::int64_t block, std::int64_t gate) const {
        return panels_[static_cast<std::size_t>(block)].at({gate}, 0, 0).as<float>();
    }

private:
    // Gate by gate, from the first unit of a block on.
    MatrixPanels part(const MatrixPanels& all, std::int64_t block) const;

    std::int64_t hidden_;
    Division units_;
    std::vector<Panels> panels_;  // by block
};

// Rows that lie some floats apart.
template <class Float>
struct Rows {
    Float* first;
    std::int64_t step;
};

// out = added + rows · columns, with the columns vector by vector.
class RowProduct {
public:
    RowProduct() = default;
    // Of so many rows at a time. Each `unit` of vectors stays together; `places` has all of them.
    RowProduct(const FewRowsKernels& kernels, std::int64_t rows_at_once, std::int64_t unit,
               const std::vector<VectorPlace>& places);

    // Without columns, `out` becomes what is added.
    void multiply(const float* columns, std::int64_t depth, std::int64_t rows, Rows<const float> a,
                  Rows<const float> added, Rows<float> out) const;
    std::int64_t rows_at_once() const { return rows_at_once_; }

private:
    struct Tile {
        std::int64_t first;
        int vectors;
        std::array<VectorPlace, most_vectors_at_once> places;
    };

    const FewRowsKernels* kernels_ = nullptr;
    std::int64_t rows_at_once_ = 1;
    std::vector<Tile> tiles_;
};

// W · X of a direction, if all of W stays in the second cache: for so many rows and so many columns, which lie side by
// side.
RowProduct row_projection(const FewRowsKernels& kernels, std::int64_t rows, std::int64_t columns);

// The sums of some gates of R, which begin at a place of a row, as what is added does.
class RecurrentProduct {
public:
    struct Gates {
        std::int64_t first;
        std::int64_t last;
    };

    RecurrentProduct() = default;
    RecurrentProduct(const RecurrentSizes& sizes, const UnitBlocks& blocks, const FewRowsKernels& kernels, Gates gates,
                     VectorPlace first);

    // Of some blocks; without R, `out` becomes what is added.
    void multiply(const Recurrence* recurrence, std::int64_t first_block, std::int64_t last_block, std::int64_t rows,
                  Rows<const float> a, Rows<const float> added, Rows<float> out) const;

private:
    std::int64_t depth_ = 0;
    std::int64_t first_gate_ = 0;
    std::vector<RowProduct> blocks_;
};

}  // namespace dmlgraph::cpu
