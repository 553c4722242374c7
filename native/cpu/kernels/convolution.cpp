// Convolutions of floats: planes, tiles whose windows are read from them, and sums over taps.
#include "cpu/kernels/convolution.h"

#include "cpu/kernels/half.h"
#include "cpu/kernels/level.h"
#include "cpu/kernels/part_vector.h"
#include "cpu/kernels/picture_row.h"
#include "cpu/kernels/tile_ending.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace convolution {
namespace {

DMLGRAPH_INLINE float number(const float* x) { return *x; }
DMLGRAPH_INLINE float number(const Half* x) { return single_of(*x); }

// Rows whose elements lie side by side. The vectors that some elements are in are those from `first` to `last`; of
// these the outer ones may be less than whole.
DMLGRAPH_INLINE void side_by_side(const PlaneCall& call) {
    const Vector zeros = repeated(0.0f);
    const std::int64_t first = call.begin / lanes * lanes, last = (call.end - 1) / lanes * lanes;
    const Part head = part(within(call.begin - first), within(call.end - first));
    const Part tail = part(within(call.begin - last), within(call.end - last));
    const bool elements = call.end > call.begin;
    float* out = call.out;
    const std::byte* row = call.in;
    for (std::int64_t r = 0; r < call.rows; ++r, out += call.pitch, row += call.row_step) {
        const float* const in = reinterpret_cast<const float*>(row);
        std::int64_t i = 0;
        if (elements) {
            for (; i < first; i += lanes) {
                store(out + i, zeros);
            }
            store(out + first, load_part(in + (first - call.begin), head, zeros));
            for (i = first + lanes; i < last; i += lanes) {
                store(out + i, load(in + (i - call.begin)));
            }
            if (last > first) {
                store(out + last, load_part(in + (last - call.begin), tail, zeros));
                i = last + lanes;
            }
        }
        for (; i < call.count; i += lanes) {
            store(out + i, zeros);
        }
    }
}

// Every step-th of the numbers of `step` vectors.
template <int step>
DMLGRAPH_INLINE Vector every(const Vector* in) {
    if constexpr (step == 1) {
        return in[0];
    } else {
        return even(every<step / 2>(in), every<step / 2>(in + step / 2));
    }
}

// Rows whose elements are `step` floats apart.
template <int step>
DMLGRAPH_INLINE void apart(const PlaneCall& call) {
    const std::int64_t count = call.end - call.begin, whole = count == 0 ? 0 : (count - 1) / lanes * lanes;
    const Vector zeros = repeated(0.0f);
    Part rest[step];  // of the last vectors: up to the last element
    DMLGRAPH_UNROLL
    for (int j = 0; j < step; ++j) {
        rest[j] = part(0, within((count - whole - 1) * step + 1 - j * lanes));
    }
    float* to = call.out;
    const std::byte* row = call.in;
    for (std::int64_t r = 0; r < call.rows; ++r, to += call.pitch, row += call.row_step) {
        const float* in = reinterpret_cast<const float*>(row);
        float* const out = to + call.begin;
        std::int64_t i = 0;
        for (; i < call.begin; i += lanes) {
            store(to + i, zeros);
        }
        Vector several[step];
        for (i = 0; i < whole; i += lanes, in += step * lanes) {
            DMLGRAPH_UNROLL
            for (int j = 0; j < step; ++j) {
                several[j] = load(in + j * lanes);
            }
            store(out + i, every<step>(several));
        }
        if (count > 0) {
            DMLGRAPH_UNROLL
            for (int j = 0; j < step; ++j) {
                several[j] = load_part(in + j * lanes, rest[j], zeros);
            }
            store(out + i, every<step>(several));
            i += lanes;
        }
        for (; i < call.count - call.begin; i += lanes) {
            store(out + i, zeros);
        }
    }
}

template <class T>
DMLGRAPH_INLINE void one_by_one(const PlaneCall& call) {
    float* out = call.out;
    const std::byte* in = call.in;
    for (std::int64_t r = 0; r < call.rows; ++r, out += call.pitch, in += call.row_step) {
        for (std::int64_t i = 0; i < call.begin; ++i) {
            out[i] = 0;
        }
        if (is_same<T, Half> && call.step == sizeof(T)) {
            to_single(reinterpret_cast<const Half*>(in), out + call.begin,
                      static_cast<std::size_t>(call.end - call.begin));
        } else {
            for (std::int64_t i = call.begin; i < call.end; ++i) {
                out[i] = number(reinterpret_cast<const T*>(in + (i - call.begin) * call.step));
            }
        }
        for (std::int64_t i = call.end; i < call.count; ++i) {
            out[i] = 0;
        }
    }
}

void plane(const PlaneCall& call) noexcept {
    switch (call.step) {
        case sizeof(float): return side_by_side(call);
        case 2 * sizeof(float): return apart<2>(call);
        case 4 * sizeof(float): return apart<4>(call);
        default: return one_by_one<float>(call);
    }
}

// Rows whose elements are 2 or 4 apart become floats with all that lies between them.
void half_plane(const PlaneCall& call) noexcept {
    constexpr std::int64_t most = 2048;  // elements
    constexpr auto item = std::int64_t{sizeof(Half)}, ratio = std::int64_t{sizeof(float)} / item;
    const std::int64_t elements = call.end > call.begin ? (call.end - call.begin - 1) * call.step / item + 1 : 0;
    if ((call.step != 2 * item && call.step != 4 * item) || elements > most) {
        return one_by_one<Half>(call);
    }
    float singles[most];
    PlaneCall row = call;
    row.in = reinterpret_cast<const std::byte*>(singles);
    row.step = call.step * ratio;
    row.rows = 1;
    const std::byte* in = call.in;
    for (std::int64_t r = 0; r < call.rows; ++r, in += call.row_step, row.out += call.pitch) {
        to_single(reinterpret_cast<const Half*>(in), singles, static_cast<std::size_t>(elements));
        plane(row);
    }
}

// As many sums as fit into the registers, beside a vector of each column and a repeated number.
#if defined(__AVX512F__)
constexpr int across_rows = 8, across_vectors = 3, along_rows = 14, along_vectors = 2;
#elif defined(DMLGRAPH_X86)
constexpr int across_rows = 6, across_vectors = 2, along_rows = 6, along_vectors = 2;
#else
constexpr int across_rows = 8, across_vectors = 3, along_rows = 12, along_vectors = 2;
#endif

// Whether there are registers for the addresses of a tile's windows.
constexpr bool has_places = along_rows <= 6;

// `along`: the rows are windows, else filters.
template <bool along, int rows, int vectors>
void tile(const WindowTileCall& call) noexcept {
    Vector sums[rows][vectors];
    set_all(sums, repeated(0.0f));
    fetch_results<rows, vectors>(call);
    const float* filters = call.filters;
    constexpr int addresses = along && has_places ? rows : 1;
    const float* planes[addresses];
    DMLGRAPH_UNROLL
    for (int i = 0; i < addresses; ++i) {
        planes[i] = call.planes + (along ? call.places[i] : 0);
    }
    const std::int64_t* const offsets = call.offsets;
    const std::int64_t depth = call.depth, filter_step = call.filter_step;
    const std::int64_t next_step = call.next_step;
    NumbersAt next = call.next == nullptr ? filters : call.next;
    for (std::int64_t k = 0; k < depth; ++k, filters += filter_step, next += next_step) {
        prefetch(next);
        const std::int64_t offset = offsets[k];
        const float* const column = along ? filters : planes[0] + offset;
        Vector columns[vectors];
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            columns[j] = load(column + j * lanes);
        }
        DMLGRAPH_UNROLL
        for (int i = 0; i < rows; ++i) {
            const float* const window = has_places ? planes[along ? i : 0] : planes[0] + i;
            const Vector each = repeated(along ? window[offset] : filters[i]);
            DMLGRAPH_UNROLL
            for (int j = 0; j < vectors; ++j) {
                sums[i][j] = product_sum(each, columns[j], sums[i][j]);
            }
        }
    }
    store_tile<Singles, rows, vectors, !along>(sums, call);
}

#if !defined(DMLGRAPH_X86) || defined(__AVX512F__)
#define ACROSS(rows) tile<false, rows, 1>, tile<false, rows, 2>, tile<false, rows, 3>
#else
#define ACROSS(rows) tile<false, rows, 1>, tile<false, rows, 2>
#endif
constexpr WindowTileKernel across[] = {
    ACROSS(1), ACROSS(2), ACROSS(3), ACROSS(4), ACROSS(5), ACROSS(6),
#if !defined(DMLGRAPH_X86) || defined(__AVX512F__)
    ACROSS(7), ACROSS(8),
#endif
};
#undef ACROSS

#define ALONG(rows) tile<true, rows, 1>, tile<true, rows, 2>
constexpr WindowTileKernel along[] = {
    ALONG(1),  ALONG(2),  ALONG(3), ALONG(4),  ALONG(5),  ALONG(6),
#if !defined(DMLGRAPH_X86) || defined(__AVX512F__)
    ALONG(7),  ALONG(8),  ALONG(9), ALONG(10), ALONG(11), ALONG(12),
#endif
#if defined(__AVX512F__)
    ALONG(13), ALONG(14),
#endif
};
#undef ALONG

static_assert(sizeof(across) / sizeof(across[0]) == across_rows * across_vectors);
static_assert(sizeof(along) / sizeof(along[0]) == along_rows * along_vectors);

// Few sums wait for one another, and need more loads each.
#if defined(__AVX2__) && !defined(__AVX512F__)
constexpr double along_cost = 0.94, narrow_along_cost = 1.4;
#else
constexpr double along_cost = 1, narrow_along_cost = 1;
#endif

// The taps of a filter, if their numbers and the stride along columns are known when this is compiled.
template <int down_, int across_, int stride_>
struct Known {
    static constexpr int down = down_, across = across_, stride = stride_;
    Vector weights[down * across];

    DMLGRAPH_INLINE explicit Known(const TapsCall& call) {
        DMLGRAPH_UNROLL
        for (int t = 0; t < down * across; ++t) {
            weights[t] = repeated(call.weights[t]);
        }
    }

    // An element is read once for all rows of windows that have it at a tap.
    template <int rows>
    DMLGRAPH_INLINE void add(Vector (&sums)[rows], const TapsCall& call, const float* in) const {
        DMLGRAPH_UNROLL
        for (int i = 0; i < (rows - 1) * stride + down; ++i) {
            DMLGRAPH_UNROLL
            for (int x = 0; x < across; ++x) {
                const Vector elements = load(in + i * call.pitch + call.places[x]);
                DMLGRAPH_UNROLL
                for (int r = 0; r < rows; ++r) {
                    const int y = i - r * stride;
                    if (y >= 0 && y < down) {
                        sums[r] = product_sum(weights[y * across + x], elements, sums[r]);
                    }
                }
            }
        }
    }
};

struct AnyTaps {
    DMLGRAPH_INLINE explicit AnyTaps(const TapsCall&) {}

    template <int rows>
    DMLGRAPH_INLINE void add(Vector (&sums)[rows], const TapsCall& call, const float* in) const {
        const float* weights = call.weights;
        for (std::int64_t y = 0; y < call.taps_down; ++y) {
            for (std::int64_t x = 0; x < call.taps_across; ++x) {
                const Vector weight = repeated(*weights++);
                const float* const from = in + y * call.dilation * call.pitch + call.places[x];
                DMLGRAPH_UNROLL
                for (int r = 0; r < rows; ++r) {
                    sums[r] = product_sum(weight, load(from + r * call.stride * call.pitch), sums[r]);
                }
            }
        }
    }
};

// The last vector of all, of which only some sums exist.
template <class Call>
DMLGRAPH_INLINE void end_and_store_part(const Call& call, std::int64_t place, Vector total) {
    const Part inside = part(0, within(call.rows * call.count - place));
    const SumEnding* const ending = call.ending;
    if (ending != nullptr) {
        total = sum(total, repeated(*ending->numbers.as<float>()));
        total = applied(ending->lines == nullptr ? total : sum(total, load_part(ending->lines + place, inside, total)),
                        ending->function);
    }
    store_part(call.out + place, total, inside);
}

// Vectors of sums of several rows, from `first` on, of the windows from i on. What is written beyond a short row is
// written again with the next rows.
template <int rows, class Call>
DMLGRAPH_INLINE void end_and_store(const Call& call, std::int64_t first, std::int64_t i, Vector (&sums)[rows]) {
    const std::int64_t count = call.count, place = first * count + i;
    if (call.rows * count - place - (rows - 1) * count < lanes) {
        if constexpr (rows == 1) {
            end_and_store_part(call, place, sums[0]);
        } else {
            DMLGRAPH_UNROLL
            for (int r = 0; r < rows; ++r) {
                Vector one[] = {sums[r]};
                end_and_store(call, first + r, i, one);
            }
        }
        return;
    }
    if (const SumEnding* const ending = call.ending; ending != nullptr) {
        const Vector number = repeated(*ending->numbers.as<float>());
        DMLGRAPH_UNROLL
        for (int r = 0; r < rows; ++r) {
            sums[r] = sum(sums[r], number);
        }
        if (const float* const lines = ending->lines; lines != nullptr) {
            DMLGRAPH_UNROLL
            for (int r = 0; r < rows; ++r) {
                sums[r] = sum(sums[r], load(lines + place + r * count));
            }
        }
        apply(ending->function, [&](const auto& result) {
            DMLGRAPH_UNROLL
            for (int r = 0; r < rows; ++r) {
                sums[r] = result(sums[r]);
            }
        });
    }
    float* const out = call.out + place;
    DMLGRAPH_UNROLL
    for (int r = 0; r < rows; ++r) {
        store(out + r * count, sums[r]);
    }
}

// Rows from `first` on.
template <int rows, class Taps>
DMLGRAPH_INLINE void rows_of_taps(const TapsCall& call, const Taps& taps, std::int64_t first) {
    const std::int64_t count = call.count;
    const float* const in = call.in + first * call.stride * call.pitch;
    std::int64_t i = 0;
    do {
        if (i + lanes > count && count >= lanes) {
            i = count - lanes;  // some windows again, rather than windows beyond the last
        }
        Vector sums[rows];
        set_all(sums, repeated(0.0f));
        taps.template add<rows>(sums, call, in + i);
        end_and_store(call, first, i, sums);
        i += lanes;
    } while (i < count);
}

template <class Taps, int most = 4>
void all_rows(const TapsCall& call) {
    const Taps taps(call);
    std::int64_t first = 0;
    for (; most > 4 && first + most <= call.rows; first += most) {
        rows_of_taps<most>(call, taps, first);
    }
    for (; first + 4 <= call.rows; first += 4) {
        rows_of_taps<4>(call, taps, first);
    }
    switch (call.rows - first) {
        case 3: return rows_of_taps<3>(call, taps, first);
        case 2: return rows_of_taps<2>(call, taps, first);
        case 1: return rows_of_taps<1>(call, taps, first);
        default: return;
    }
}

// A single row as several that are a vector long, so that more sums are added up at a time; the last one may have some
// windows again.
void one_row(TapsCall call) {
    const std::int64_t count = call.count;
    call.pitch = call.count = lanes;
    call.stride = 1;
    call.rows = count / lanes;
    all_rows<AnyTaps, 8>(call);
    const std::int64_t last = count - lanes;
    if (count % lanes > 0) {
        SumEnding ending;
        if (call.ending != nullptr && call.ending->lines != nullptr) {
            ending = *call.ending;
            ending.lines += last;
            call.ending = &ending;
        }
        call.out += last;
        call.in += last;
        call.rows = 1;
        all_rows<AnyTaps>(call);
    }
}

// Calls a kernel of a channel whose results are float16 for the sums, and makes the results.
template <class Call>
void end_channel_in_half(void (*kernel)(const Call&) noexcept, Call call) {
    const SumEnding& ending = *call.ending;
    call.ending = nullptr;
    kernel(call);
    end_in_half(call.out, 0, 1, call.rows * call.count, ending, 0);
}

void taps(const TapsCall& call) noexcept {
    if (call.ending != nullptr && call.ending->rounds()) {
        return end_channel_in_half(taps, call);
    }
    if (call.rows == 1 && call.taps_down == 1 && call.count >= lanes) {
        return one_row(call);
    }
    const bool dense = call.dilation == 1 && call.taps_down == call.taps_across && call.stride <= 2;
    if (dense && call.taps_down == 3) {
        return call.stride == 1 ? all_rows<Known<3, 3, 1>>(call) : all_rows<Known<3, 3, 2>>(call);
    }
    if (dense && call.taps_down == 5) {
        return call.stride == 1 ? all_rows<Known<5, 5, 1>>(call) : all_rows<Known<5, 5, 2>>(call);
    }
    if (dense && call.taps_down == 7 && call.stride == 1) {
        return all_rows<Known<7, 7, 1>>(call);
    }
    all_rows<AnyTaps>(call);
}

// Adds the row `from` of a picture, which is the k-th of the windows' taps, or zeros if it does not exist.
template <bool inside, int rows, int vectors, int taps, int stride>
DMLGRAPH_INLINE void add_row(Vector (&sums)[vectors][rows], int k, const float* from, bool exists,
                             const PictureRow<taps, stride>* row, const Vector (&weights)[taps * taps]) {
    const auto load_inside = [](const float* at, Part part) { return load_part(at, part); };
    const auto add = [&](int v, int x, Vector element) {
        DMLGRAPH_UNROLL
        for (int r = 0; r < rows; ++r) {
            const int y = k - r * stride;
            if (y >= 0 && y < taps) {
                sums[v][r] = product_sum(weights[y * taps + x], element, sums[v][r]);
            }
        }
    };
    if constexpr (vectors > 1 && stride == 1) {  // the registers do not hold every tap
        DMLGRAPH_UNROLL
        for (int x = 0; x < taps; ++x) {
            DMLGRAPH_UNROLL
            for (int v = 0; v < vectors; ++v) {
                add(v, x, exists ? row[v].template read_tap<inside>(x, from, load_inside) : repeated(0.0f));
            }
        }
    } else {
        DMLGRAPH_UNROLL
        for (int v = 0; v < vectors; ++v) {
            Vector elements[taps];
            if (exists) {
                row[v].template read<inside>(elements, from, load_inside);
            } else {
                set_all(elements, repeated(0.0f));
            }
            DMLGRAPH_UNROLL
            for (int x = 0; x < taps; ++x) {
                add(v, x, elements[x]);
            }
        }
    }
}

// Some vectors of windows, of the rows from `first` on: vector v has those from i[v] on. Unless the rows are `within`
// the picture, taps may be above or below it.
template <int rows, int vectors, bool inside, bool within, int taps, int stride>
DMLGRAPH_INLINE void rows_of_picture(const PictureCall& call, const PictureRow<taps, stride>* row,
                                     const Vector (&weights)[taps * taps], std::int64_t first, const std::int64_t* i) {
    Vector sums[vectors][rows];
    set_all(sums, repeated(0.0f));
    const std::int64_t top = call.from.top + first * call.from.stride_down;
    const std::byte* in = call.from.in + top * call.from.row_step;
    DMLGRAPH_UNROLL
    for (int k = 0; k < (rows - 1) * stride + taps; ++k, in += call.from.row_step) {
        const bool exists = within || (top + k >= 0 && top + k < call.from.height);
        add_row<inside>(sums, k, reinterpret_cast<const float*>(in), exists, row, weights);
    }
    DMLGRAPH_UNROLL
    for (int v = 0; v < vectors; ++v) {
        DMLGRAPH_UNROLL
        for (int r = 0; r < rows; ++r) {
            sums[v][r] = row[v].by_window(sums[v][r]);
        }
        end_and_store(call, first, i[v], sums[v]);
    }
}

// `rows` rows at a time, of which there must be so many.
template <int rows, int vectors, bool inside, int taps, int stride>
DMLGRAPH_INLINE void columns_of_picture(const PictureCall& call, const PictureRow<taps, stride>* row,
                                        const Vector (&weights)[taps * taps], const std::int64_t* i) {
    constexpr bool many = rows > 3;
    for (std::int64_t first = 0; first < call.rows; first += rows) {
        first = std::min<std::int64_t>(first, call.rows - rows);  // some rows again, rather than fewer at once
        const std::int64_t top = call.from.top + first * call.from.stride_down;
        const bool within = many && top >= 0 && top + (rows - 1) * stride + taps <= call.from.height;
        within ? rows_of_picture<rows, vectors, inside, many>(call, row, weights, first, i)
               : rows_of_picture<rows, vectors, inside, false>(call, row, weights, first, i);
    }
}

// Vectors v… of windows at a time.
template <int rows, int taps, int stride, int... v>
DMLGRAPH_ONCE void all_of_picture(const PictureCall& call, std::integer_sequence<int, v...>) {
    constexpr int vectors = sizeof...(v);
    Vector weights[taps * taps];
    DMLGRAPH_UNROLL
    for (int t = 0; t < taps * taps; ++t) {
        weights[t] = repeated(call.weights[t]);
    }
    using Row = PictureRow<taps, stride>;
    const std::int64_t columns = (call.count + lanes - 1) / lanes, last = columns - 1;
    // The first and the last one have elements beyond the picture most often: they come first. Some windows are
    // computed again, rather than fewer at once.
    const auto column = [&](std::int64_t j) {
        j = std::min(j, last);
        j = j < 2 ? j * last : j - 1;
        return std::min(j * lanes, std::max(call.count - lanes, std::int64_t{0}));
    };
    for (std::int64_t j = 0; j < columns; j += vectors) {
        const std::int64_t at[] = {column(j + v)...};
        const Row row[] = {Row(call.from.left + at[v] * stride, call.from.width)...};
        const bool inside = (row[v].is_inside() && ...);
        inside ? columns_of_picture<rows, vectors, true>(call, row, weights, at)
               : columns_of_picture<rows, vectors, false>(call, row, weights, at);
    }
}

// So many rows and vectors at a time that sums do not wait for themselves, if there are enough.
template <int taps, int stride>
void picture_of(const PictureCall& call) {
    const auto all = [&](auto rows, auto vectors) {
        call.count <= lanes ? all_of_picture<rows, taps, stride>(call, std::make_integer_sequence<int, 1>())
                            : all_of_picture<rows, taps, stride>(call, std::make_integer_sequence<int, vectors>());
    };
    if (call.from.stride_down != stride) {  // no tap of a row is one of the next row
        return all(std::integral_constant<int, 1>(), std::integral_constant<int, (taps > 3 ? 1 : 2)>());
    }
    switch (call.rows) {
        case 1: return all(std::integral_constant<int, 1>(), std::integral_constant<int, 4>());
        case 2: return all(std::integral_constant<int, 2>(), std::integral_constant<int, 2>());
        case 3: return all(std::integral_constant<int, 3>(), std::integral_constant<int, 2>());
        default:
            return all(std::integral_constant<int, 4>(),
                       std::integral_constant<int, (stride == 1 && taps > 3 ? 2 : 1)>());
    }
}

#if defined(__AVX2__)
void picture(const PictureCall& call) noexcept {
    if (call.ending != nullptr && call.ending->rounds()) {
        return end_channel_in_half(picture, call);
    }
    const bool apart = call.from.stride_across == 2;
    switch (call.from.taps) {
        case 3: return apart ? picture_of<3, 2>(call) : picture_of<3, 1>(call);
        case 5: return apart ? picture_of<5, 2>(call) : picture_of<5, 1>(call);
        default: return picture_of<7, 1>(call);
    }
}
#else
constexpr void (*picture)(const PictureCall&) noexcept = nullptr;
#endif

constexpr ConvolutionKernels kernels{lanes,
                                     {across_rows, across_vectors, across},
                                     {along_rows, along_vectors, along},
                                     plane,
                                     half_plane,
                                     taps,
                                     picture,
                                     has_places,
                                     along_cost,
                                     narrow_along_cost};

}  // namespace
}  // namespace convolution

constexpr ConvolutionKernels convolution_kernels = convolution::kernels;

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
