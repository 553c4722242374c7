#include "cpu/region/copying.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <span>

#include "cpu/compiler.h"
#include "cpu/quotient.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t longest_line = 1024;  // bytes; longer ones are worth a block of their own
constexpr std::int64_t least_split = 8;      // elements of a line, for whole vectors
constexpr std::int64_t least_tile = 24;      // elements; a rectangle of such sides is transposed as tiles
constexpr std::int64_t enough_offsets = 64;  // of a table
constexpr std::int64_t most_offsets = 1024;
constexpr std::int64_t longest_gathered = 64;  // elements; longer lines are gathered by a loop of their own
constexpr std::int64_t unit_elements = 4096;
constexpr std::int64_t rectangle_side = 64;  // elements of a transposed rectangle along each side

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
    std::ranges::stable_sort(all,
                             [](const Dimension& a, const Dimension& b) { return std::abs(a.out) > std::abs(b.out); });
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

// `bytes` are 16 at least. The last ones may be copied twice.
DMLGRAPH_INLINE void copy_line(std::byte* out, const std::byte* in, std::int64_t bytes) {
    constexpr std::int64_t step = 16;
    for (std::int64_t at = 0; at + step <= bytes; at += step) {
        std::memcpy(out + at, in + at, step);
    }
    std::memcpy(out + bytes - step, in + bytes - step, step);
}

// Rows of bytes that lie side by side in both tensors.
void copy_lines(const Copying& copying, std::byte* out, const std::byte* in, std::int64_t rows, std::int64_t length) {
    for (std::int64_t r = 0; r < rows; ++r, out += copying.row_out, in += copying.row_in) {
        copy_line(out, in, length);
    }
}

// Rows of pixels, with their channels side by side, to or from lines of each channel.
void copy_pixels(const Copying& copying, std::byte* out, const std::byte* in, std::int64_t rows, std::int64_t length) {
    for (std::int64_t r = 0; r < rows; ++r, out += copying.row_out, in += copying.row_in) {
        copying.interleave(out, in, length, copying.apart);
    }
}

// Rows that lie across those of the input: a transposition.
void copy_rectangle(const Copying& copying, std::byte* out, const std::byte* in, std::int64_t rows,
                    std::int64_t length) {
    find_transposition(copying.item)({out, copying.row_out, in, copying.in_step, rows, length});
}

// Rows of elements at the offsets of the tables.
template <class T>
void copy_elements(const Copying& copying, std::byte* out, const std::byte* in, std::int64_t rows, std::int64_t) {
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

// Takes the innermost dimension that is left as rows of so many elements.
bool take_rows(Copying& copying, Dimensions& left, std::int64_t elements) {
    if (!left.empty()) {
        copying.rows = left.back().size;
        copying.row_in = left.back().in;
        copying.row_out = left.back().out;
        left.pop_back();
    }
    copying.some_rows = std::clamp<std::int64_t>(unit_elements / elements, 1, copying.rows);
    return true;
}

// Of all elements of some dimensions.
std::vector<std::int32_t> offsets(const Dimensions& inner, std::int64_t Dimension::* stride) {
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

bool choose_table(Copying& copying, Dimensions& left) {
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
    constexpr std::array copies{copy_elements<std::uint8_t>, copy_elements<std::uint16_t>, copy_elements<std::uint32_t>,
                                copy_elements<std::uint64_t>};
    copying.copy = copies[static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(copying.item)))];
    copying.in = offsets(inner, &Dimension::in);
    copying.out = offsets(inner, &Dimension::out);
    bool packed = true;
    for (std::size_t i = 0; i < copying.out.size(); ++i) {
        packed = packed && copying.out[i] == static_cast<std::int64_t>(i) * copying.item;
    }
    if (packed) {
        copying.out.clear();
    }
    copying.length = copying.some_length = count;
    return take_rows(copying, left, count);
}

// Chooses what is copied at a time, if that is faster than block by block.
bool choose(Copying& copying, Dimensions& left) {
    const std::int64_t item = copying.item;
    const Dimension last = left.back();
    const auto packed = std::ranges::find_if(left, [&](const Dimension& each) { return each.in == item; });
    if (last.out == item && last.in == item) {
        const std::int64_t bytes = last.size * item;
        if (bytes > longest_line || left.size() == 1) {
            return false;
        }
        if (bytes >= 16) {
            copying.copy = copy_lines;
            copying.length = copying.some_length = bytes;
            left.pop_back();
            return take_rows(copying, left, last.size);
        }
    } else if (last.out == item && packed != left.end()) {
        const Dimension across = *packed;
        const bool splits = across.size <= most_channels && last.in == across.size * item && last.size >= least_split;
        const bool merges = last.size <= most_channels && across.out == last.size * item && across.size >= least_split;
        if (splits || merges) {
            const std::int64_t thin = splits ? across.size : last.size;
            copying.copy = copy_pixels;
            copying.interleave = (splits ? find_split : find_merge)(static_cast<int>(thin), copying.item);
            copying.apart = (splits ? across.out : last.in) / item;
            copying.length = splits ? last.size : across.size;
            copying.in_step = splits ? thin * item : item;
            copying.out_step = splits ? item : thin * item;
            copying.some_length = std::min(copying.length, unit_elements / thin);
            left.pop_back();
            left.erase(packed);
            return take_rows(copying, left, copying.some_length * thin);
        }
        if (last.size >= least_tile && across.size >= least_tile) {
            if (find_transposition(copying.item) == nullptr) {
                return false;
            }
            copying.copy = copy_rectangle;
            copying.length = last.size;
            copying.in_step = last.in;
            copying.out_step = item;
            left.pop_back();
            std::rotate(packed, packed + 1, left.end());
            take_rows(copying, left, 1);
            // Rectangles that stay in the first cache, few of them thin.
            const auto even = [](std::int64_t size) { return quotient_up(size, quotient_up(size, rectangle_side)); };
            copying.some_rows = even(copying.rows);
            copying.some_length = even(copying.length);
            return true;
        }
    }
    return last.size <= longest_gathered && choose_table(copying, left);
}

}  // namespace

std::optional<Copying> make_copying(const Region& region, const std::vector<Sizes>& strides) {
    if (region.has_rows() || !region.instructions.empty() || region.loads.size() != 1 || region.stores.size() != 1) {
        return {};
    }
    const auto from = std::span(strides[0]).first(static_cast<std::size_t>(region.rank));
    if (std::ranges::all_of(from, [](std::int64_t stride) { return stride == 0; })) {
        return {};
    }
    Copying copying;
    copying.item = static_cast<int>(item_size(region.loads.front().type));
    Dimensions left = in_order(region.rank, region.sizes, strides[0], strides[1]);
    copying.cost = copying.item;
    for (const Dimension& each : left) {
        copying.cost *= static_cast<double>(each.size);
    }
    if (left.size() < 2 || !choose(copying, left)) {
        return {};
    }
    for (const Dimension& each : left) {
        copying.sizes[copying.rank] = each.size;
        copying.in_strides[copying.rank] = each.in;
        copying.out_strides[copying.rank++] = each.out;
    }
    return copying;
}

void run(const Copying& copying, const Region&, RunContext& context, const RegionMemory& memory) {
    const std::byte* const in = memory.bases[0];
    std::byte* const out = memory.bases[1];
    const std::int64_t lengths = quotient_up(copying.length, copying.some_length);
    const std::int64_t cuts = quotient_up(copying.rows, copying.some_rows);
    std::int64_t units = cuts * lengths;
    for (int d = 0; d < copying.rank; ++d) {
        units *= copying.sizes[d];
    }
    context.parallel(units, copying.cost, [&](int, Chunks& chunks) {
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
                copying.copy(copying, out + to + row * copying.row_out + begin * copying.out_step,
                             in + from + row * copying.row_in + begin * copying.in_step,
                             std::min(copying.some_rows, copying.rows - row),
                             std::min(copying.some_length, copying.length - begin));
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
