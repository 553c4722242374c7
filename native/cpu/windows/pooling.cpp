#include "cpu/windows/pooling.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "cpu/kernels/level.h"
#include "cpu/products/float_picture.h"
#include "cpu/quotient.h"
#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t ample_band = 32 << 10;       // bytes of a band's elements
constexpr std::int64_t ample_converted = 16 << 10;  // … that are converted first: half of a nearest cache
constexpr std::int64_t ample_columns = 1 << 10;     // windows of a row
constexpr std::int64_t whole_chunk = 2048;          // elements

// The taps of the only window that lie inside: their number, and the first one's place.
struct Inside {
    std::int64_t count;
    std::int64_t first;

    Inside(const Pooling& pooling, std::size_t axis) {
        const Windows& windows = pooling.windows;
        const std::int64_t dilation = windows.dilations[axis], padding = windows.padding[axis];
        const std::int64_t begin = std::min(quotient_up(padding, dilation), windows.taps[axis]);
        const std::int64_t end = std::min(quotient_up(padding + pooling.sizes[axis], dilation), windows.taps[axis]);
        count = std::max(end - begin, std::int64_t{0});
        first = begin * dilation - padding;
    }
};

template <class T>
void set(std::array<std::byte, widest_item>& element, T number) {
    std::memcpy(element.data(), &number, sizeof(T));
}

// The number with which a maximum of integers begins. DirectML begins with the least of 32 bits, and stores it as CAST
// does: so a window without elements gives 0 in int16.
void set_least(Pooling& pooling) {
    const auto both = [&]<class T>(T least, T empty) {
        set(pooling.start, least);
        set(pooling.empty, empty);
    };
    switch (pooling.type) {
        case DataType::int8:
            return both(std::numeric_limits<std::int8_t>::min(), std::numeric_limits<std::int8_t>::min());
        case DataType::int16: return both(std::numeric_limits<std::int16_t>::min(), std::int16_t{0});
        case DataType::int32:
            return both(std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::min());
        case DataType::int64:
            return both(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::min());
        default: return both(std::uint64_t{0}, std::uint64_t{0});
    }
}

void set_least_float(Pooling& pooling, bool from_infinity) {
    constexpr float half_lowest = -65504.0f;
    const float lowest = pooling.type == DataType::float16 ? half_lowest : std::numeric_limits<float>::lowest();
    const float start = from_infinity ? -std::numeric_limits<float>::infinity() : lowest;
    set(pooling.start, start);
    set(pooling.empty, start);
}

// How many planes, the first ones, follow one another and stand for numbers in the same way; at most `most`.
std::int64_t alike(std::span<const Plane> planes, std::int64_t elements, std::int64_t most) {
    const Plane& first = planes[0];
    std::int64_t count = 1;
    for (; count < std::min(most, static_cast<std::int64_t>(planes.size())); ++count) {
        const Plane& next = planes[static_cast<std::size_t>(count)];
        if (next.data != first.data + count * elements || next.scale != first.scale ||
            next.zero_point != first.zero_point) {
            break;
        }
    }
    return count;
}

// Sums of small planes of integers that stand for numbers, which are converted together.
void sum_together(const Pooling& pooling, std::span<const Plane> pooled, std::int64_t offset, std::int64_t elements,
                  std::byte* out, std::byte* converted) {
    while (!pooled.empty()) {
        const std::int64_t some = alike(pooled, elements, whole_chunk / elements);
        pooling.convert(converted, pooled[0].data + offset, 1, some * elements, pooled[0], nullptr);
        for (std::int64_t i = 0; i < some; ++i, out += pooling.item) {
            std::memcpy(out, pooling.start.data(), static_cast<std::size_t>(pooling.item));
            pooling.kernels->reduce(out, converted + i * elements * pooling.item, elements);
        }
        pooled = pooled.subspan(static_cast<std::size_t>(some));
    }
}

}  // namespace

Pooling::Pooling(DataType of, bool is_maximum, bool from_infinity, std::uint32_t exponent) : type(of), power(exponent) {
    const Level& level = chosen_level();
    const bool is_float = type == DataType::float32 || type == DataType::float16;
    item = is_float ? static_cast<int>(sizeof(float)) : static_cast<int>(item_size(type));
    magnitudes = level.pooling.magnitudes;
    if (is_float) {
        line = level.products->line_of(type);
    }
    if (is_maximum) {
        kernels = level.pooling.maxima(type);
        is_float ? set_least_float(*this, from_infinity) : set_least(*this);
    } else if (is_float) {
        kernels = &level.pooling.sums;
    } else if (power == 0 && level.pooling.numbers(type) != nullptr) {
        numbers = level.pooling.numbers(type);
        kernels = &level.pooling.wide_sums;
        item = sizeof(double);
    }
    if (kernels == nullptr) {
        throw std::invalid_argument("this data type cannot be pooled");
    }
}

bool Pooling::has_picture() const {
    const std::int64_t taps = windows.taps[2], stride = windows.strides[2];
    const bool known = taps == 3 ? stride <= 2 : taps == 2 && stride == 2;
    const bool square = windows.taps[1] == taps && windows.strides[1] == stride && windows.dilations[1] == 1 &&
                        windows.dilations[2] == 1;
    return kernels->picture != nullptr && known && square && power == 0;
}

void Pooling::convert(std::byte* out, const std::byte* in, std::int64_t step, std::int64_t count, const Plane& plane,
                      std::byte* packed) const {
    const auto stored = static_cast<std::int64_t>(item_size(type));
    if (numbers != nullptr) {
        if (step != stored) {
            gather_line(packed, in, step, count, static_cast<int>(stored));
            in = packed;
        }
        return numbers({reinterpret_cast<double*>(out), in, count, plane.scale, plane.zero_point});
    }
    if (!is_float()) {
        return gather_line(out, in, step, count, item);
    }
    auto* const floats = reinterpret_cast<float*>(out);
    line(floats, in, step, count);
    if (power > 0) {
        magnitudes(floats, count, power);
    }
}

Phases::Phases(const Windows& windows, std::size_t axis) {
    const std::int64_t stride = windows.strides[axis];
    for (std::int64_t t = 0; t < windows.taps[axis]; ++t) {
        const std::int64_t at = t * windows.dilations[axis], remainder = at % stride;
        const auto found = std::ranges::find(remainders, remainder);
        phase.push_back(found - remainders.begin());
        if (found == remainders.end()) {
            remainders.push_back(remainder);
        }
        index.push_back(at / stride);
        reach = index.back();
    }
}

// The memory of a worker.
struct Bands::Memory {
    std::byte* lines;
    std::byte* results;
    std::byte* row;         // converted
    std::byte* packed;      // … before that
    std::byte* picture;     // rows of a band, converted
    std::int64_t* offsets;  // by tap of a column
    std::uint32_t* line_indices = nullptr;
    std::uint32_t* where = nullptr;

    Memory(Scratch& scratch, const Bands& bands) {
        const int item = bands.pooling_.item;
        const std::int64_t lines_count =
            bands.pooling_.windows.taps[0] * bands.y_.count() * bands.height_ * bands.columns_;
        const std::int64_t padded =
            bands.columns_first_ ? bands.rows_ * (bands.pooling_.windows.padding[2] + bands.windows_span()) : 0;
        const bool has_picture = bands.converts_rows_ || bands.columns_first_;
        lines = scratch.take<std::byte>(std::max(lines_count, padded) * item);
        results = scratch.take<std::byte>(bands.rows_ * bands.columns_ * item);
        row = scratch.take<std::byte>(bands.width_ * item);
        packed = scratch.take<std::byte>(bands.width_ * std::int64_t{widest_item});
        picture =
            scratch.take<std::byte>(has_picture ? bands.line_rows(bands.rows_) * bands.pooling_.sizes[2] * item : 0);
        offsets = scratch.take<std::int64_t>(bands.columns_first_ ? bands.pooling_.windows.taps[1] : 0);
        if (bands.finds_) {
            line_indices = scratch.take<std::uint32_t>(lines_count);
            where = scratch.take<std::uint32_t>(bands.rows_ * bands.columns_);
        }
    }
};

Bands::Bands(const Pooling& pooling, bool finds, bool of_whole_rows, bool rows_first)
    : pooling_(pooling), finds_(finds), y_(pooling.windows, 1) {
    const Windows& windows = pooling.windows;
    column_bands_ = of_whole_rows ? 1 : quotient_up(windows.counts[2], ample_columns);
    columns_ = quotient_up(windows.counts[2], column_bands_);
    width_ = std::min(pooling.sizes[2],
                      (columns_ - 1) * windows.strides[2] + (windows.taps[2] - 1) * windows.dilations[2] + 1);
    const std::int64_t row = windows.taps[0] * y_.count() * columns_ * pooling.item;
    rows_ = std::clamp(ample_band / row - y_.reach, std::int64_t{1}, windows.counts[1]);
    if (!pooling.keeps_elements()) {
        rows_ = std::clamp(ample_converted / (windows.strides[1] * pooling.sizes[2] * pooling.item), std::int64_t{1},
                           rows_);
    }
    row_bands_ = quotient_up(windows.counts[1], rows_);
    rows_ = quotient_up(windows.counts[1], row_bands_);
    height_ = rows_ + y_.reach;
    for (std::int64_t z = 0; z < windows.taps[0]; ++z) {
        for (std::size_t t = 0; t < y_.phase.size(); ++t) {
            lines_.push_back(((z * y_.count() + y_.phase[t]) * height_ + y_.index[t]) * columns_);
        }
    }
    converts_rows_ = !pooling_.keeps_elements() && !finds_ && column_bands_ == 1;
    const bool usual = pooling_.has_picture(), alone = windows.is_flat(pooling_.sizes) && column_bands_ == 1 && !finds_;
    has_picture_ = usual && alone;
    columns_first_ = !rows_first && !usual && alone && windows.strides[1] > 2 && windows.taps[1] > 1;
}

BandPlace Bands::at(std::int64_t index) const {
    const Windows& windows = pooling_.windows;
    BandPlace place{};
    place.left = index % column_bands_ * columns_;
    place.top = index / column_bands_ % row_bands_ * rows_;
    place.depth = index / column_bands_ / row_bands_;
    place.rows = std::min(rows_, windows.counts[1] - place.top);
    place.columns = std::min(columns_, windows.counts[2] - place.left);
    return place;
}

std::size_t Bands::scratch_bytes() const { return scratch_of<Memory>(*this); }

BandResult Bands::compute(const BandPlace& place, const Planes& planes, const Plane& plane, std::byte* out,
                          Scratch& scratch) const {
    const Memory memory(scratch, *this);
    std::byte* const results = out == nullptr ? memory.results : out;
    if (has_picture_ && has_neighbours(planes)) {
        pooling_.kernels->picture(
            {results, place.rows, place.columns, picture_of(place, planes, plane.data, memory), pooling_.start.data()});
        return {results, nullptr};
    }
    if (columns_first_ && combine_columns(place, planes, plane, results, memory)) {
        return {results, nullptr};
    }
    if (lines_.size() == 1 && !finds_) {
        combine_rows(place, planes, plane, results, memory);
        return {results, nullptr};
    }
    combine_rows(place, planes, plane, memory.lines, memory);
    const std::int64_t count = (place.rows - 1) * columns_ + place.columns,
                       taps = static_cast<std::int64_t>(lines_.size());
    if (finds_) {
        pooling_.kernels->find({results, memory.where, memory.lines, memory.line_indices, lines_.data(), taps, count});
        return {results, memory.where};
    }
    pooling_.kernels->combine({results, memory.lines, lines_.data(), taps, count, pooling_.start.data()});
    return {results, nullptr};
}

// The rows of elements that lines are made of: all phases have as many lines, the last of which may be of no window.
std::int64_t Bands::line_rows(std::int64_t rows) const {
    const std::int64_t last = (rows + y_.reach - 1) * pooling_.windows.strides[1] + std::ranges::max(y_.remainders);
    return std::min(last + 1, pooling_.sizes[1]);
}

// A plane that is read where it lies; of float16, its rows that the band's windows have, as floats.
Picture Bands::picture_of(const BandPlace& place, const Planes& planes, const std::byte* plane,
                          const Memory& memory) const {
    const Windows& windows = pooling_.windows;
    const Picture picture{plane,
                          planes.strides[1],
                          pooling_.sizes[1],
                          pooling_.sizes[2],
                          place.top * windows.strides[1] - windows.padding[1],
                          -windows.padding[2],
                          windows.strides[1],
                          windows.strides[2],
                          windows.taps[2]};
    if (pooling_.type == DataType::float16) {
        const FloatPicture floats(picture, place.rows);
        auto* const rows = reinterpret_cast<float*>(memory.picture);
        floats.write(rows, planes.strides[2], pooling_.line);
        return floats.read(rows);
    }
    return picture;
}

bool Bands::has_neighbours(const Planes& planes) const {
    return planes.strides[2] == static_cast<std::int64_t>(item_size(pooling_.type)) && planes.row.rank == 1;
}

bool Bands::in_place(const Planes& planes) const {
    return has_neighbours(planes) && pooling_.keeps_elements() && !finds_;
}

bool Bands::combine_columns(const BandPlace& place, const Planes& planes, const Plane& plane, std::byte* out,
                            const Memory& memory) const {
    const Windows& windows = pooling_.windows;
    const std::int64_t stride = windows.strides[1], dilation = windows.dilations[1], height = pooling_.sizes[1],
                       left = windows.padding[2];
    const std::int64_t width =
        std::clamp(windows_span() - left, std::int64_t{0}, pooling_.sizes[2]);  // elements of a row that windows have
    const std::int64_t item = pooling_.item, padded = std::max(left + width, windows_span()),
                       top = place.top * stride - windows.padding[1];
    const std::int64_t begin = std::clamp(top, std::int64_t{0}, height);
    const std::int64_t end =
        std::clamp(top + (place.rows - 1) * stride + (windows.taps[1] - 1) * dilation + 1, begin, height);
    const std::byte* rows = plane.data + begin * planes.strides[1];
    std::int64_t step = planes.strides[1];
    if (!in_place(planes) || step % item != 0) {
        for (std::int64_t y = begin; y < end; ++y) {
            convert(memory.picture + (y - begin) * width * item, plane.data + y * planes.strides[1], 0, width, planes,
                    plane, memory);
        }
        rows = memory.picture;
        step = width * item;
    }
    const auto has_negative_zero = pooling_.kernels->has_negative_zero;
    const std::int64_t together = step == width * item ? end - begin : 1;  // rows
    for (std::int64_t y = begin; y < end && has_negative_zero != nullptr; y += together) {
        if (has_negative_zero(rows + (y - begin) * step, together * width)) {
            return false;
        }
    }
    // The lines have the padding, too.
    const std::int64_t pitch = step / item;
    const auto fill = [&](std::byte* line, std::int64_t first, std::int64_t last) {
        fill_line(line + first * item, pooling_.start.data(), last - first, static_cast<int>(item));
    };
    for (std::int64_t t = 0; t < windows.taps[1]; ++t) {
        memory.offsets[t] = t * dilation * pitch;
    }
    std::byte* line = memory.lines;
    for (std::int64_t y = top, r = 0; r < place.rows; ++r, y += stride, line += padded * item) {
        const std::int64_t first = std::clamp(quotient_up(begin - y, dilation), std::int64_t{0}, windows.taps[1]);
        const std::int64_t last = std::clamp(quotient_up(end - y, dilation), first, windows.taps[1]);  // taps inside
        if (first == last) {
            fill(line, 0, padded);
            continue;
        }
        fill(line, 0, left);
        const std::byte* const in = rows + (y + first * dilation - begin) * step;
        pooling_.kernels->combine({line + left * item, in, memory.offsets, last - first, width, pooling_.start.data()});
        fill(line, left + width, padded);
    }
    pooling_.kernels->rows({out, columns_, memory.lines, padded * item, place.rows, place.columns, padded, 0,
                            windows.strides[2], windows.dilations[2], windows.taps[2], pooling_.start.data()});
    return true;
}

std::int64_t Bands::windows_span() const {
    const Windows& windows = pooling_.windows;
    return (windows.counts[2] - 1) * windows.strides[2] + (windows.taps[2] - 1) * windows.dilations[2] + 1;
}

void Bands::combine_rows(const BandPlace& place, const Planes& planes, const Plane& plane, std::byte* lines,
                         const Memory& memory) const {
    const Windows& windows = pooling_.windows;
    const std::int64_t height = place.rows + y_.reach, stride = windows.strides[1], item = pooling_.item;
    // Elements are converted in one go where the rows of a plane follow one another.
    const bool converts = converts_rows_ && has_neighbours(planes) &&
                          (pooling_.sizes[1] == 1 || planes.strides[1] == pooling_.sizes[2] * planes.strides[2]);
    const bool in_place = converts || this->in_place(planes);
    const std::int64_t top_row =
        converts ? std::clamp(place.top * stride - windows.padding[1], std::int64_t{0}, pooling_.sizes[1]) : 0;
    const std::int64_t row_step = converts ? pooling_.sizes[2] * item : planes.strides[1];
    RowsCall call{nullptr,
                  columns_,
                  nullptr,
                  stride * row_step,
                  1,
                  place.columns,
                  pooling_.sizes[2],
                  place.left * windows.strides[2] - windows.padding[2],
                  windows.strides[2],
                  windows.dilations[2],
                  windows.taps[2],
                  pooling_.start.data()};
    std::uint32_t* indices = memory.line_indices;
    const auto skip = [&](std::int64_t begin, std::int64_t end) {  // rows beyond the tensor
        fill_line(lines + begin * columns_ * item, pooling_.start.data(), (end - begin) * columns_,
                  static_cast<int>(item));
        if (finds_) {
            std::fill_n(indices + begin * columns_, (end - begin) * columns_, no_index);
        }
    };
    for (std::int64_t t = 0; t < windows.taps[0]; ++t) {
        const std::int64_t z = place.depth * windows.strides[0] + t * windows.dilations[0] - windows.padding[0];
        const std::byte* rows = plane.data + z * planes.strides[0];
        if (converts && z >= 0 && z < pooling_.sizes[0]) {
            const std::int64_t count = std::min(line_rows(place.rows), pooling_.sizes[1] - top_row);
            pooling_.convert(memory.picture, rows + top_row * planes.strides[1], planes.strides[2],
                             count * pooling_.sizes[2], plane, nullptr);
            rows = memory.picture;
        }
        for (const std::int64_t remainder : y_.remainders) {
            const std::int64_t top = place.top * stride + remainder - windows.padding[1];
            const bool inside = z >= 0 && z < pooling_.sizes[0];
            const std::int64_t begin = inside ? std::clamp(quotient_up(-top, stride), std::int64_t{0}, height) : height;
            const std::int64_t end =
                inside ? std::clamp(quotient_up(pooling_.sizes[1] - top, stride), begin, height) : height;
            skip(0, begin);
            call.rows = in_place ? end - begin : 1;
            for (std::int64_t i = begin; i < end; i += call.rows) {
                const std::int64_t y = top + i * stride;
                call.in = rows + (y - top_row) * row_step;
                call.out = lines + i * columns_ * item;
                if (in_place) {
                    pooling_.kernels->rows(call);
                } else {
                    const auto base = static_cast<std::uint32_t>((z * pooling_.sizes[1] + y) * pooling_.sizes[2]);
                    combine_row(call, planes, plane, base, finds_ ? indices + i * columns_ : nullptr, memory);
                }
            }
            skip(end, height);
            lines += height_ * columns_ * item;
            indices += finds_ ? height_ * columns_ : 0;
        }
    }
}

// A row whose elements are converted first.
void Bands::combine_row(const RowsCall& call, const Planes& planes, const Plane& plane, std::uint32_t base,
                        std::uint32_t* where, const Memory& memory) const {
    const std::int64_t last = call.first + (call.count - 1) * call.stride + (call.taps - 1) * call.dilation;
    const std::int64_t begin = std::clamp(call.first, std::int64_t{0}, call.size);
    const std::int64_t end = std::clamp(last + 1, begin, call.size);
    const bool is_row = call.taps == 1 && call.stride == 1 && end - begin == call.count && lines_.size() > 1 && !finds_;
    std::byte* const row = is_row ? static_cast<std::byte*>(call.out) : memory.row;
    convert(row, call.in, begin, end - begin, planes, plane, memory);
    if (is_row) {
        return;
    }
    RowsCall converted = call;
    converted.in = row;
    converted.first -= begin;
    converted.size = end - begin;
    if (finds_) {
        pooling_.kernels->find_row(converted, where, base + static_cast<std::uint32_t>(begin));
    } else {
        pooling_.kernels->rows(converted);
    }
}

void Bands::convert(std::byte* out, const std::byte* row, std::int64_t first, std::int64_t count, const Planes& planes,
                    const Plane& plane, const Memory& memory) const {
    const std::byte* from = row + first * planes.strides[2];
    std::int64_t step = planes.strides[2];
    if (planes.row.rank > 1) {
        step = static_cast<std::int64_t>(item_size(pooling_.type));
        gather(memory.packed, row, planes.row.rank, planes.row.sizes, planes.row.strides, first, count,
               static_cast<int>(step));
        from = memory.packed;
    }
    pooling_.convert(out, from, step, count, plane, memory.packed);
}

std::size_t whole_scratch() { return whole_chunk * 2 * widest_item; }

void pool_whole(const Pooling& pooling, const Planes& planes, std::span<const Plane> pooled, std::byte* out,
                std::byte* scratch) {
    const auto stored = static_cast<std::int64_t>(item_size(pooling.type));
    const std::int64_t item = pooling.item;
    MatrixTensor inside;
    inside.type = pooling.type;
    inside.rank = most_spatial;
    std::int64_t elements = 1, offset = 0;
    for (std::size_t d = 0; d < most_spatial; ++d) {
        const Inside axis(pooling, d);
        inside.sizes[d] = axis.count;
        inside.strides[d] = planes.strides[d] * pooling.windows.dilations[d];
        elements *= axis.count;
        offset += axis.first * planes.strides[d];
    }
    if (elements == 0) {
        return fill_line(out, pooling.empty.data(), static_cast<std::int64_t>(pooled.size()), static_cast<int>(item));
    }
    inside.join_dimensions();
    std::byte* const converted = scratch + whole_chunk * widest_item;
    if (pooling.numbers != nullptr && inside.is_packed() && elements <= whole_chunk) {
        return sum_together(pooling, pooled, offset, elements, out, converted);
    }
    for (const Plane& plane : pooled) {
        const std::byte* const from = plane.data + offset;
        std::memcpy(out, pooling.start.data(), static_cast<std::size_t>(item));
        if (inside.is_packed() && pooling.keeps_elements()) {
            pooling.kernels->reduce(out, from, elements);
            out += item;
            continue;
        }
        for (std::int64_t i = 0; i < elements; i += whole_chunk) {
            const std::int64_t some = std::min(whole_chunk, elements - i);
            const std::byte* chunk = from + i * stored;
            if (!inside.is_packed()) {
                gather(scratch, from, inside.rank, inside.sizes, inside.strides, i, some, static_cast<int>(stored));
                chunk = scratch;
            }
            if (!pooling.keeps_elements()) {
                pooling.convert(converted, chunk, stored, some, plane, scratch);
                chunk = converted;
            }
            pooling.kernels->reduce(out, chunk, some);
        }
        out += item;
    }
}

}  // namespace dmlgraph::cpu
