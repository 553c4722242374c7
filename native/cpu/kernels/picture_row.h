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

// Every step-th of the numbers of `step` vectors.
template <int step>
DMLGRAPH_INLINE Vector every(const Vector* in) {
    if constexpr (step == 1) {
        return in[0];
    } else {
        return even(every<step / 2>(in), every<step / 2>(in + step / 2));
    }
}

// Vectors of a row: for each tap the elements of the windows from one on.
template <int taps, int stride>
class PictureRow {
public:
    // `column`: the first one of the first window.
    DMLGRAPH_INLINE PictureRow(std::int64_t column, std::int64_t width) : column_(column) {
        constexpr int last = (loads - 1) * stride + stride * lanes;
        inside_ = column >= 0 && column + last <= width;
        DMLGRAPH_UNROLL
        for (int j = 0; j < loads; ++j) {
            DMLGRAPH_UNROLL
            for (int k = 0; k < stride; ++k) {
                const std::int64_t first = column + j * stride + k * lanes;
                parts_[j][k] = part(within(-first), within(width - first));
            }
        }
    }
    bool is_inside() const { return inside_; }

    // Where elements lie outside, the others of a vector come from load_inside(address, part).
    template <bool inside, class Load>
    DMLGRAPH_INLINE void read(Vector (&elements)[taps], const float* row, const Load& load_inside) const {
        DMLGRAPH_UNROLL
        for (int j = 0; j < loads; ++j) {
            Vector several[stride];
            DMLGRAPH_UNROLL
            for (int k = 0; k < stride; ++k) {
                const float* const from = row + column_ + j * stride + k * lanes;
                several[k] = inside ? load(from) : load_inside(from, parts_[j][k]);
            }
            elements[j * stride] = every<stride>(several);
            if (stride == 2 && j * stride + 1 < taps) {
                elements[j * stride + 1] = odd(several[0], several[stride - 1]);
            }
        }
    }

private:
    static constexpr int loads = (taps + stride - 1) / stride;  // of `stride` vectors

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
