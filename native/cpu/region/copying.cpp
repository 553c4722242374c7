#include "cpu/region/copying.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "cpu/compiler.h"
#include "cpu/kernels/interleave.h"
#include "cpu/quotient.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t longest_line = 1024;   // bytes; longer ones are worth a block of their own
constexpr std::int64_t least_split = 8;       // elements of a line, for whole vectors
constexpr std::int64_t least_tile = 24;       // elements; a rectangle of such sides is transposed as tiles
constexpr std::int64_t enough_offsets = 64;   // of a table
constexpr std::int64_t most_offsets = 1024;
constexpr std::int64_t longest_gathered = 64;  // elements; longer lines are gathered by a loop of their own
constexpr std::int64_t unit_elements = 4096;
constexpr std::int64_t rectangle_side = 64;    // elements of a transposed rectangle along each side

struct Dimension {
    std::int64_t size, in, out;
};
using Dimensions = std::vector<Dimension>;

// In the order of the output, without those that go on where others end.
Dimensions in_order(int rank, const Sizes& sizes, const Sizes& in, const Sizes& out) {
    Dimensions all;
    for (int d = 0; d < rank; ++d) {
        if (sizes[d] > 1) {
            all.push_back({sizes[d], in[d], out[d]});
        }
    }
    std::ranges::stable_sort(all, [](const Dimension& a, const Dimension& b) { return std::abs(a.out) > std::abs(b.out); });
    Dimensions result;
    for (const Dimension& each : all) {
        if (!result.empty() && result.back().in == each.in * each.size && result.back().out == each.out * each.size) {
            result.back() = {result.back().size * each.size, each.in, each.out};
        } else {
            result.push_back(each);
        }
    }
    return result;
}

void take_rows(Copying& copying, Dimensions& left) {
    if (!left.empty()) {
        copying.rows = left.back().size;
        copying.row_in = left.back().in;
        copying.row_out = left.back().out;
        left.pop_back();
    }
}

// Of all elements of some dimensions.
std::vector<std::int32_t> offsets(const Dimensions& inner, std::int64_t Dimension::*stride) {
    std::vector<std::int32_t> result{0};
    for (const Dimension& each : inner) {
        std::vector<std::int32_t> next;
        for (const std::int32_t base : result) {
            for (std::int64_t i = 0; i < each.size; ++i) {
                next.push_back(static_cast<std::int32_t>(base + i * each.*stride));
            }
        }
        result = std::move(next);
    }
    return result;
}

bool make_table(Copying& copying, Dimensions& left) {
    // What lies side by side is one element if it can be.
    while (left.size() > 1 && left.back().in == copying.item && left.back().out == copying.item &&
           copying.item * left.back().size <= 8 && std::has_single_bit(static_cast<std::uint64_t>(left.back().size))) {
        copying.item *= static_cast<int>(left.back().size);
        left.pop_back();
    }
    Dimensions inner;
    std::int64_t count = 1, reach = 0;
    while (!left.empty() && count < enough_offsets && count * left.back().size <= most_offsets) {
        const Dimension& each = left.back();
        count *= each.size;
        reach += std::max(std::abs(each.in), std::abs(each.out)) * each.size;
        inner.insert(inner.begin(), each);
        left.pop_back();
    }
    if (count < enough_offsets / 2 || reach > std::numeric_limits<std::int32_t>::max()) {
        return false;
    }
    copying.kind = Copying::Kind::table;
    copying.in = offsets(inner, &Dimension::in);
    copying.out = offsets(inner, &Dimension::out);
    bool packed = true;
    for (std::size_t i = 0; i < copying.out.size(); ++i) {
        packed = packed && copying.out[i] == static_cast<std::int64_t>(i) * copying.item;
    }
    if (packed) {
        copying.out.clear();
    }
    copying.length = count;
    return true;
}

void choose(Copying& copying, Dimensions& left) {
    const std::int64_t item = copying.item;
    const Dimension last = left.back();
    const auto packed = std::ranges::find_if(left, [&](const Dimension& each) { return each.in == item; });
    if (last.out == item && last.in == item) {
        const std::int64_t bytes = last.size * item;
        if (bytes > longest_line || left.size() == 1) {
            return;
        }
        if (bytes >= 16) {
            copying.kind = Copying::Kind::lines;
            copying.length = bytes;
            left.pop_back();
            return take_rows(copying, left);
        }
    } else if (last.out == item && packed != left.end()) {
        const Dimension across = *packed;
        const bool splits = across.size <= most_channels && last.in == across.size * item && last.size >= least_split;
        const bool merges = last.size <= most_channels && across.out == last.size * item && across.size >= least_split;
        if (splits || merges) {
            copying.kind = splits ? Copying::Kind::split : Copying::Kind::merge;
            copying.thin = static_cast<int>(splits ? across.size : last.size);
            copying.length = splits ? last.size : across.size;
            copying.apart = splits ? across.out : last.in;
            left.pop_back();
            left.erase(packed);
            return take_rows(copying, left);
        }
        if (last.size >= least_tile && across.size >= least_tile) {
            if (find_transposition(copying.item) == nullptr) {
                return;
            }
            copying.kind = Copying::Kind::turn;
            copying.length = last.size;
            copying.apart = last.in;
            left.pop_back();
            std::rotate(packed, packed + 1, left.end());
            return take_rows(copying, left);
        }
    }
    if (last.size <= longest_gathered && make_table(copying, left)) {
        take_rows(copying, left);
    }
}

// `bytes` are 16 at least. The last ones may be copied twice.
DMLGRAPH_INLINE void copy_line(std::byte* out, const std::byte* in, std::int64_t bytes) {
    constexpr std::int64_t step = 16;
    for (std::int64_t at = 0; at + step <= bytes; at += step) {
        std::memcpy(out + at, in + at, step);
    }
    std::memcpy(out + bytes - step, in + bytes - step, step);
}

void copy_lines(const Copying& copying, std::byte* out, const std::byte* in, std::int64_t rows) {
    for (std::int64_t r = 0; r < rows; ++r, out += copying.row_out, in += copying.row_in) {
        copy_line(out, in, copying.length);
    }
}

// `interleave` moves a row.
void copy_pixels(const Copying& copying, Interleaving interleave, std::byte* out, const std::byte* in, std::int64_t rows, std::int64_t length) {
    for (std::int64_t r = 0; r < rows; ++r, out += copying.row_out, in += copying.row_in) {
        interleave(out, in, length, copying.apart / copying.item);
    }
}

void copy_rectangle(const Copying& copying, std::byte* out, const std::byte* in, std::int64_t rows, std::int64_t length) {
    find_transposition(copying.item)({out, copying.row_out, in, copying.apart, rows, length});
}

template <class T>
void copy_elements(const Copying& copying, std::byte* out, const std::byte* in, std::int64_t rows) {
    const std::size_t count = copying.in.size();
    const std::int32_t* const from = copying.in.data();
    const std::int32_t* const to = copying.out.empty() ? nullptr : copying.out.data();
    for (std::int64_t r = 0; r < rows; ++r, out += copying.row_out, in += copying.row_in) {
        if (to == nullptr) {
            for (std::size_t i = 0; i < count; ++i) {
                std::memcpy(out + i * sizeof(T), in + from[i], sizeof(T));
            }
        } else {
            for (std::size_t i = 0; i < count; ++i) {
                std::memcpy(out + to[i], in + from[i], sizeof(T));
            }
        }
    }
}

template <class T>
void copy_unit(const Copying& copying, std::byte* out, const std::byte* in, std::int64_t rows, std::int64_t length) {
    switch (copying.kind) {
        case Copying::Kind::split: return copy_pixels(copying, find_split(copying.thin, copying.item), out, in, rows, length);
        case Copying::Kind::merge: return copy_pixels(copying, find_merge(copying.thin, copying.item), out, in, rows, length);
        case Copying::Kind::turn: return copy_rectangle(copying, out, in, rows, length);
        case Copying::Kind::table: return copy_elements<T>(copying, out, in, rows);
        default: return copy_lines(copying, out, in, rows);
    }
}

using CopyUnit = void (*)(const Copying&, std::byte*, const std::byte*, std::int64_t, std::int64_t);

CopyUnit copy_unit_of(int item) {
    switch (item) {
        case 1: return copy_unit<std::uint8_t>;
        case 2: return copy_unit<std::uint16_t>;
        case 4: return copy_unit<std::uint32_t>;
        default: return copy_unit<std::uint64_t>;
    }
}

}  // namespace

Copying make_copying(int rank, const Sizes& sizes, const Sizes& in, const Sizes& out, int item) {
    Copying copying;
    copying.item = item;
    Dimensions left = in_order(rank, sizes, in, out);
    if (left.size() > 1) {
        choose(copying, left);
    }
    for (const Dimension& each : left) {
        copying.sizes[copying.rank] = each.size;
        copying.in_strides[copying.rank] = each.in;
        copying.out_strides[copying.rank++] = each.out;
    }
    if (copying.kind == Copying::Kind::turn) {  // rectangles that stay in the first cache, few of them thin
        const auto even = [](std::int64_t size) { return quotient_up(size, quotient_up(size, rectangle_side)); };
        copying.some_rows = even(copying.rows);
        copying.some_length = even(copying.length);
        return copying;
    }
    const bool cuts = copying.kind == Copying::Kind::split || copying.kind == Copying::Kind::merge;
    copying.some_length = cuts ? std::min(copying.length, unit_elements / copying.thin) : copying.length;
    const std::int64_t elements = copying.kind == Copying::Kind::lines ? copying.length / item : copying.some_length * copying.thin;
    copying.some_rows = std::clamp<std::int64_t>(unit_elements / elements, 1, copying.rows);
    return copying;
}

void run(const Copying& copying, RunContext& context, double cost, std::byte* out, const std::byte* in) {
    const CopyUnit copy_unit = copy_unit_of(copying.item);
    const std::int64_t lengths = quotient_up(copying.length, copying.some_length);
    const std::int64_t cuts = quotient_up(copying.rows, copying.some_rows);
    const bool splits = copying.kind == Copying::Kind::split;
    const std::int64_t in_step = copying.kind == Copying::Kind::turn ? copying.apart : splits ? copying.thin * copying.item : copying.item;
    const std::int64_t out_step = splits ? copying.item : copying.thin * copying.item;
    std::int64_t units = cuts * lengths;
    for (int d = 0; d < copying.rank; ++d) {
        units *= copying.sizes[d];
    }
    context.parallel(units, cost, [&](int, Chunks& chunks) {
        for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
            std::int64_t part = first % lengths, cut = first / lengths % cuts;
            Sizes at = place_in(copying.sizes, copying.rank, first / lengths / cuts);
            std::int64_t from = 0, to = 0;
            for (int d = 0; d < copying.rank; ++d) {
                from += at[d] * copying.in_strides[d];
                to += at[d] * copying.out_strides[d];
            }
            for (std::int64_t unit = first; unit < last; ++unit) {
                const std::int64_t row = cut * copying.some_rows, begin = part * copying.some_length;
                copy_unit(copying, out + to + row * copying.row_out + begin * out_step, in + from + row * copying.row_in + begin * in_step,
                          std::min(copying.some_rows, copying.rows - row), std::min(copying.some_length, copying.length - begin));
                if (++part < lengths) {
                    continue;
                }
                part = 0;
                if (++cut < cuts) {
                    continue;
                }
                cut = 0;
                for (int d = copying.rank - 1; d >= 0; --d) {
                    from += copying.in_strides[d];
                    to += copying.out_strides[d];
                    if (++at[d] < copying.sizes[d]) {
                        break;
                    }
                    from -= at[d] * copying.in_strides[d];
                    to -= at[d] * copying.out_strides[d];
                    at[d] = 0;
                }
            }
        }
    });
}

}  // namespace dmlgraph::cpu
