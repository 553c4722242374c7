// Rows of a picture that are read where they lie, by neighbouring windows.
#pragma once

#include <cstdint>

#include "cpu/compiler.h"
#include "cpu/kernels/part_vector.h"
#include "cpu/kernels/picture.h"
#include "cpu/kernels/vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

DMLGRAPH_INLINE int within(std::int64_t lane) { return lane < 0 ? 0 : lane > lanes ? lanes : static_cast<int>(lane); }

// Vectors of a row: for each tap the elements of the windows from one on.
template <int taps, int stride>
class PictureRow {
    static_assert(stride == 1 || stride == 2);

public:
    // `column`: the first one of the first window.
    DMLGRAPH_INLINE PictureRow(std::int64_t column, std::int64_t width) : column_(column) {
        inside_ = column >= 0 && column + (lanes - 1) * stride + taps <= width;
        DMLGRAPH_UNROLL
        for (int j = 0; j < loads; ++j) {
            DMLGRAPH_UNROLL
            for (int k = 0; k < stride; ++k) {
                const std::int64_t first = column + offset(j) + k * lanes;
                parts_[j][k] = part(within(-first), within(width - first));
            }
        }
    }
    bool is_inside() const { return inside_; }

    // Where elements lie outside, the others of a vector come from load_inside(address, part). The windows are in an
    // order that `by_window` undoes.
    template <bool inside, class Load>
    DMLGRAPH_INLINE void read(Vector (&elements)[taps], const float* row, const Load& load_inside) const {
        DMLGRAPH_UNROLL
        for (int j = 0; j < loads; ++j) {
            Vector several[stride];
            DMLGRAPH_UNROLL
            for (int k = 0; k < stride; ++k) {
                several[k] = one<inside>(row, j, k, load_inside);
            }
            if constexpr (stride == 1) {
                elements[j] = several[0];
            } else {
                several[0] = in_register(several[0]);  // GCC loads it twice instead
                const int odd_tap = offset(j) + 1;
                elements[odd_tap] = mixed_odd(several[0], several[1]);
                if (odd_tap == j * stride + 1) {
                    elements[j * stride] = mixed_even(several[0], several[1]);
                }
            }
        }
    }
    // The elements of one tap.
    template <bool inside, class Load>
    DMLGRAPH_INLINE Vector read_tap(int x, const float* row, const Load& load_inside) const {
        static_assert(stride == 1);
        return one<inside>(row, x, 0, load_inside);
    }
    DMLGRAPH_INLINE static Vector by_window(Vector x) { return stride == 1 ? x : in_order(x); }

private:
    static constexpr int loads = (taps + stride - 1) / stride;  // of `stride` vectors
    // The last one ends with the last tap of the last window: what follows may be outside.
    static constexpr int offset(int j) { return j * stride + stride > taps ? taps - stride : j * stride; }

    template <bool inside, class Load>
    DMLGRAPH_INLINE Vector one(const float* row, int j, int k, const Load& load_inside) const {
        const float* const from = row + column_ + offset(j) + k * lanes;
        return inside ? load(from) : load_inside(from, parts_[j][k]);
    }

    std::int64_t column_;
    bool inside_;
    Part parts_[loads][stride];
};

// Calls inner(row, i) or edge(row, i) for vectors of `count` windows, from window i on: edge where a row has elements
// beyond the picture.
template <int taps, int stride, class Inner, class Edge>
DMLGRAPH_INLINE void each_column(const Picture& picture, std::int64_t count, const Inner& inner, const Edge& edge) {
    std::int64_t i = 0;
    do {
        if (i + lanes > count && count >= lanes) {
            i = count - lanes;  // some windows again, rather than windows beyond the last
        }
        const PictureRow<taps, stride> row(picture.left + i * stride, picture.width);
        row.is_inside() ? inner(row, i) : edge(row, i);
        i += lanes;
    } while (i < count);
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
