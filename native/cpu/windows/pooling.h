// Pooling: one number for each window of a plane, from the elements of the window that lie inside the tensor.
//
// Some rows and columns of windows, a band, are computed at a time: first the taps of every row of elements, which
// gives lines with `start` for rows beyond the tensor, then the lines of each window. So of equal maxima the first one
// in row-major order is kept. Lines are stored in phases: those whose places have the same remainder by the stride
// follow one another, so that a tap's lines do, for all windows of the band. The usual windows of a picture of floats
// need no lines: a kernel reads them where they lie, those of float16 as float32, and combines their taps in the same
// order. Other windows of planes that are more than 2 rows apart are combined the other way round, first the elements
// of each column, then these along the rows: so fewer rows are gone through with a stride. Of maxima that is done if no
// element is -0, since of equal ones only zeros can differ.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu/kernels/pooling.h"
#include "cpu/kernels/product.h"
#include "cpu/products/lines.h"
#include "cpu/products/windows.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// The elements of one plane. 8-bit integers may stand for numbers, (q − zero_point) · scale.
struct Plane {
    const std::byte* data;
    float scale = 1;
    float zero_point = 0;
};

// What is done with the elements of windows. They are computed as float32 if the tensor is float16, as float64 if they
// are 8-bit integers that stand for numbers, else in its type.
struct Pooling {
    Windows windows;
    Spatial sizes{1, 1, 1};
    DataType type{};          // of the tensor
    int item = 0;             // bytes of an element that is computed
    std::uint32_t power = 0;  // of the elements' magnitudes; 0: the elements themselves
    alignas(widest_item)
        std::array<std::byte, widest_item> start{};  // the element beyond the tensor, with which each result begins
    alignas(widest_item)
        std::array<std::byte, widest_item> empty{};  // the result for a window that has no element in the tensor
    const PoolingKernels* kernels = nullptr;
    MagnitudeKernel magnitudes = nullptr;
    LineKernel line = nullptr;        // of floats; null for integers
    NumbersKernel numbers = nullptr;  // of integers that stand for numbers; else null

    Pooling() = default;
    // With the kernels of a type; a maximum of floats begins with −∞ if it is `from_infinity`, else with the least
    // finite number. Throws std::invalid_argument for a type that has none.
    Pooling(DataType type, bool is_maximum, bool from_infinity, std::uint32_t power);

    bool is_float() const { return line != nullptr; }
    // Whether elements are computed as they are stored.
    bool keeps_elements() const { return static_cast<int>(item_size(type)) == item && power == 0; }
    // Whether the windows are those that kernels read in a picture.
    bool has_picture() const;
    // Elements that lie `step` bytes apart, as they are computed; `packed` is memory for them, where they may be
    // already.
    void convert(std::byte* out, const std::byte* in, std::int64_t step, std::int64_t count, const Plane& plane,
                 std::byte* packed) const;
};

// The planes that are pooled; strides in bytes.
struct Planes {
    const std::byte* data = nullptr;
    std::array<std::int64_t, 2> batch{};
    Spatial strides{};
    MatrixTensor row;  // the dimensions of a row, if it has several
};

// The phases of an axis that some tap reads, and where its taps are in them.
struct Phases {
    std::vector<std::int64_t> remainders;  // by phase
    std::vector<std::int64_t> phase;       // by tap
    std::vector<std::int64_t> index;       // by tap, of the first window
    std::int64_t reach = 0;                // the greatest index

    Phases(const Windows& windows, std::size_t axis);
    std::int64_t count() const { return static_cast<std::int64_t>(remainders.size()); }
};

// The results of a band: `pitch` elements from row to row.
struct BandResult {
    const std::byte* values;
    const std::uint32_t* where;  // row-major indices in the plane, or `no_index`
};

// Where a band is.
struct BandPlace {
    std::int64_t depth;  // the windows' coordinate along the first of three dimensions
    std::int64_t top;
    std::int64_t left;
    std::int64_t rows;
    std::int64_t columns;
};

class Bands {
public:
    // With indices if it `finds`. Bands of whole rows are in row-major order, and so are their windows.
    // If `rows_first`, the taps of each row are always combined before the rows.
    Bands(const Pooling& pooling, bool finds, bool of_whole_rows = false, bool rows_first = false);

    std::int64_t count() const { return pooling_.windows.counts[0] * row_bands_ * column_bands_; }
    BandPlace at(std::int64_t index) const;
    std::int64_t pitch() const { return columns_; }
    std::int64_t most() const { return rows_ * columns_; }
    std::size_t scratch_bytes() const;

    // The results may be computed in `out` where it is not null: then rows follow one another there.
    BandResult compute(const BandPlace& place, const Planes& planes, const Plane& plane, std::byte* out,
                       Scratch& scratch) const;
    // Whether the rows of the results follow one another.
    bool is_tight() const { return column_bands_ == 1; }

private:
    struct Memory;

    // The rows of elements that the lines of some rows of windows are made of, at most.
    std::int64_t line_rows(std::int64_t rows) const;
    Picture picture_of(const BandPlace& place, const Planes& planes, const std::byte* plane,
                       const Memory& memory) const;
    // Whether the elements of a tensor's rows lie side by side.
    bool has_neighbours(const Planes& planes) const;
    // Whether a tensor's rows are those that are computed.
    bool in_place(const Planes& planes) const;
    // Combines columns first; false, without results: the order matters.
    bool combine_columns(const BandPlace& place, const Planes& planes, const Plane& plane, std::byte* out,
                         const Memory& memory) const;
    // From the first element along a row that windows have to the last one, with the padding.
    std::int64_t windows_span() const;
    void combine_rows(const BandPlace& place, const Planes& planes, const Plane& plane, std::byte* lines,
                      const Memory& memory) const;
    void combine_row(const RowsCall& call, const Planes& planes, const Plane& plane, std::uint32_t base,
                     std::uint32_t* where, const Memory& memory) const;
    // The elements of a row that the band's windows have, from `first` on, as they are computed.
    void convert(std::byte* out, const std::byte* row, std::int64_t first, std::int64_t count, const Planes& planes,
                 const Plane& plane, const Memory& memory) const;

    const Pooling& pooling_;
    bool finds_;
    Phases y_;
    std::int64_t rows_, columns_;  // of windows
    std::int64_t row_bands_, column_bands_;
    std::int64_t height_;              // of a phase
    std::int64_t width_;               // the most elements of a row that a band reads
    std::vector<std::int64_t> lines_;  // of a window: offsets
    bool converts_rows_ = false;       // whether elements may be converted for a band at a time
    bool columns_first_ = false;       // whether the elements of a column are combined before those of a row
    bool has_picture_ = false;         // whether rows of a plane that lie side by side are read without lines
};

// The results of planes that have one window each, packed; `scratch` of `whole_scratch` bytes.
void pool_whole(const Pooling& pooling, const Planes& planes, std::span<const Plane> pooled, std::byte* out,
                std::byte* scratch);
std::size_t whole_scratch();

}  // namespace dmlgraph::cpu
