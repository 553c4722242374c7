#include "cpu/tensor/strided.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "cpu/kernels/interleave.h"
#include "cpu/kernels/kernel.h"
#include "cpu/runtime/cache_line.h"

#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#define DMLGRAPH_STREAMS 1
#endif

namespace dmlgraph::cpu {
namespace {

// Calls function.template operator()<T>() with the unsigned integer of `item` bytes.
template <class Function>
void by_item(int item, const Function& function) {
    switch (item) {
        case 1: return function.template operator()<std::uint8_t>();
        case 2: return function.template operator()<std::uint16_t>();
        case 4: return function.template operator()<std::uint32_t>();
        default: return function.template operator()<std::uint64_t>();
    }
}

template <class T>
void gather_line(std::byte* out, const std::byte* in, std::int64_t stride, std::int64_t count) {
    T* to = reinterpret_cast<T*>(out);
    for (std::int64_t i = 0; i < count; ++i) {
        to[i] = *reinterpret_cast<const T*>(in + i * stride);
    }
}

template <class T>
void scatter_line(std::byte* out, std::int64_t stride, const std::byte* in, std::int64_t count) {
    const T* from = reinterpret_cast<const T*>(in);
    for (std::int64_t i = 0; i < count; ++i) {
        *reinterpret_cast<T*>(out + i * stride) = from[i];
    }
}

// to[r · columns + c] = the element at from + r · item + c · stride.
template <class T>
void transpose(T* to, const std::byte* from, std::int64_t stride, std::int64_t rows, std::int64_t columns) {
    for (std::int64_t c = 0; c < columns; ++c) {
        const T* const column = reinterpret_cast<const T*>(from + c * stride);
        for (std::int64_t r = 0; r < rows; ++r) {
            to[r * columns + c] = column[r];
        }
    }
}

#ifdef DMLGRAPH_STREAMS
// Four by four at a time.
template <>
void transpose(std::uint32_t* to, const std::byte* from, std::int64_t stride, std::int64_t rows, std::int64_t columns) {
    constexpr std::int64_t side = 4;
    const std::int64_t whole_rows = rows / side * side, whole_columns = columns / side * side;
    for (std::int64_t c = 0; c < whole_columns; c += side) {
        for (std::int64_t r = 0; r < whole_rows; r += side) {
            const auto load = [&](std::int64_t k) {
                return _mm_loadu_ps(reinterpret_cast<const float*>(from + (c + k) * stride) + r);
            };
            __m128 a = load(0), b = load(1), d = load(2), e = load(3);
            _MM_TRANSPOSE4_PS(a, b, d, e);
            float* const out = reinterpret_cast<float*>(to) + r * columns + c;
            _mm_storeu_ps(out, a);
            _mm_storeu_ps(out + columns, b);
            _mm_storeu_ps(out + 2 * columns, d);
            _mm_storeu_ps(out + 3 * columns, e);
        }
    }
    for (std::int64_t c = 0; c < columns; ++c) {
        const auto* const column = reinterpret_cast<const std::uint32_t*>(from + c * stride);
        for (std::int64_t r = c < whole_columns ? whole_rows : 0; r < rows; ++r) {
            to[r * columns + c] = column[r];
        }
    }
}
#endif

// Calls line(offset of the first element, number of elements, number of elements before) for the lines along the
// last dimension that make up the elements first … first + count − 1.
template <class Line>
void each_line(int rank, const Sizes& sizes, const Sizes& strides, std::int64_t first, std::int64_t count,
               const Line& line) {
    Sizes at{};
    std::int64_t offset = 0;
    for (int d = rank - 1; d >= 0; --d) {
        at[d] = first % sizes[d];
        first /= sizes[d];
        offset += at[d] * strides[d];
    }
    const int last = rank - 1;
    for (std::int64_t done = 0; done < count;) {
        const std::int64_t length = std::min(count - done, sizes[last] - at[last]);
        line(offset, length, done);
        done += length;
        offset -= at[last] * strides[last];
        at[last] = 0;
        for (int d = last - 1; d >= 0; --d) {
            offset += strides[d];
            if (++at[d] < sizes[d]) {
                break;
            }
            offset -= at[d] * strides[d];
            at[d] = 0;
        }
    }
}

// The function that moves a rectangle whose columns are adjacent, as the channels of pixels are; else null.
Interleaving interleaving(const Tile& tile, int item, Interleaving (*find)(int, int) noexcept) {
    const bool pixels = tile.row_stride == item && tile.column_stride == tile.rows * item && tile.rows <= most_channels;
    return pixels ? find(static_cast<int>(tile.rows), item) : nullptr;
}

template <int count, class T>
void repeat_few(T* to, const T* from, std::int64_t width) {
    for (std::int64_t k = 0; k < width; ++k) {
        for (int i = 0; i < count; ++i) {
            to[k * count + i] = from[k];
        }
    }
}

}  // namespace

void fill_line(std::byte* out, const std::byte* element, std::int64_t count, int item) {
    static const auto spread = [](DataType type) { return find_kernel(Opcode::IDENTITY, type, type); };
    static const std::array<Kernel, 4> kernels{spread(DataType::uint8), spread(DataType::uint16),
                                               spread(DataType::uint32), spread(DataType::uint64)};
    const Operand operand{element, true};
    kernels[static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(item)))](
        {out, &operand, static_cast<std::size_t>(count), nullptr, 0});
}

void repeat(std::byte* out, const std::byte* in, std::int64_t width, std::int64_t count, int item) {
    if (width == 1) {
        return fill_line(out, in, count, item);
    }
    if (count == 1) {
        std::memcpy(out, in, static_cast<std::size_t>(width * item));
        return;
    }
    by_item(item, [&]<class T>() {
        T* to = reinterpret_cast<T*>(out);
        const T* const from = reinterpret_cast<const T*>(in);
        switch (count) {
            case 2: return repeat_few<2>(to, from, width);
            case 3: return repeat_few<3>(to, from, width);
            case 4: return repeat_few<4>(to, from, width);
            default: break;
        }
        for (std::int64_t k = 0; k < width; ++k, to += count) {
            std::fill_n(to, count, from[k]);
        }
    });
}

void repeat_line(std::byte* out, const std::byte* in, std::int64_t bytes, std::int64_t count) {
    constexpr std::int64_t enough = 512;  // bytes of a copy
    const std::int64_t all = bytes * count;
    std::int64_t done = std::min(bytes, all), pattern = bytes;
    std::memcpy(out, in, static_cast<std::size_t>(done));
    while (done < all) {
        const std::int64_t some = std::min(pattern, all - done);
        std::memcpy(out + done, out, static_cast<std::size_t>(some));
        done += some;
        pattern = pattern < enough ? 2 * pattern : pattern;
    }
}

void gather_line(std::byte* out, const std::byte* in, std::int64_t stride, std::int64_t count, int item) {
    if (stride == item) {
        std::memcpy(out, in, static_cast<std::size_t>(count * item));
    } else if (stride == 0) {
        fill_line(out, in, count, item);
    } else {
        by_item(item, [&]<class T>() { gather_line<T>(out, in, stride, count); });
    }
}

void scatter_line(std::byte* out, std::int64_t stride, const std::byte* in, std::int64_t count, int item) {
    if (stride == item) {
        std::memcpy(out, in, static_cast<std::size_t>(count * item));
    } else {
        by_item(item, [&]<class T>() { scatter_line<T>(out, stride, in, count); });
    }
}

void gather(std::byte* out, const std::byte* in, int rank, const Sizes& sizes, const Sizes& strides, std::int64_t first,
            std::int64_t count, int item) {
    const std::int64_t stride = strides[rank - 1];
    by_item(item, [&]<class T>() {
        each_line(rank, sizes, strides, first, count, [&](std::int64_t offset, std::int64_t length, std::int64_t done) {
            std::byte* const to = out + done * item;
            if (length < 16) {  // too short for a call
                gather_line<T>(to, in + offset, stride, length);
            } else {
                gather_line(to, in + offset, stride, length, item);
            }
        });
    });
}

void scatter(std::byte* out, int rank, const Sizes& sizes, const Sizes& strides, const std::byte* in,
             std::int64_t first, std::int64_t count, int item) {
    const std::int64_t stride = strides[rank - 1];
    by_item(item, [&]<class T>() {
        each_line(rank, sizes, strides, first, count, [&](std::int64_t offset, std::int64_t length, std::int64_t done) {
            const std::byte* const from = in + done * item;
            if (length < 16) {
                scatter_line<T>(out + offset, stride, from, length);
            } else {
                scatter_line(out + offset, stride, from, length, item);
            }
        });
    });
}

void gather_tile(std::byte* out, const Tile& tile, int item) {
    if (const Interleaving split = interleaving(tile, item, find_split)) {
        return split(out, tile.first, tile.columns, tile.columns);
    }
    if (tile.column_stride == item && tile.row_stride == tile.columns * item) {
        std::memcpy(out, tile.first, static_cast<std::size_t>(tile.rows * tile.columns * item));
        return;
    }
    if (tile.column_stride == item || tile.column_stride == 0) {
        for (std::int64_t r = 0; r < tile.rows; ++r) {
            gather_line(out + r * tile.columns * item, tile.first + r * tile.row_stride, tile.column_stride,
                        tile.columns, item);
        }
        return;
    }
    by_item(item, [&]<class T>() {
        T* const to = reinterpret_cast<T*>(out);
        if (tile.row_stride == item) {
            transpose(to, tile.first, tile.column_stride, tile.rows, tile.columns);
            return;
        }
        for (std::int64_t c = 0; c < tile.columns; ++c) {
            const std::byte* const from = tile.first + c * tile.column_stride;
            for (std::int64_t r = 0; r < tile.rows; ++r) {
                to[r * tile.columns + c] = *reinterpret_cast<const T*>(from + r * tile.row_stride);
            }
        }
    });
}

void scatter_tile(const Tile& tile, const std::byte* in, int item) {
    if (const Interleaving merge = interleaving(tile, item, find_merge)) {
        return merge(tile.first, in, tile.columns, tile.columns);
    }
    if (tile.column_stride == item && tile.row_stride == tile.columns * item) {
        std::memcpy(tile.first, in, static_cast<std::size_t>(tile.rows * tile.columns * item));
        return;
    }
    if (tile.column_stride == item) {
        for (std::int64_t r = 0; r < tile.rows; ++r) {
            scatter_line(tile.first + r * tile.row_stride, item, in + r * tile.columns * item, tile.columns, item);
        }
        return;
    }
    by_item(item, [&]<class T>() {
        const T* const from = reinterpret_cast<const T*>(in);
        for (std::int64_t c = 0; c < tile.columns; ++c) {
            std::byte* const to = tile.first + c * tile.column_stride;
            for (std::int64_t r = 0; r < tile.rows; ++r) {
                *reinterpret_cast<T*>(to + r * tile.row_stride) = from[r * tile.columns + c];
            }
        }
    });
}

void stream_copy(std::byte* out, const std::byte* in, std::size_t bytes) {
#ifdef DMLGRAPH_STREAMS
    const auto address = reinterpret_cast<std::uintptr_t>(out);
    const std::size_t head = std::min(bytes, align_to_line(address) - address);
    std::memcpy(out, in, head);
    out += head, in += head, bytes -= head;
    for (; bytes >= cache_line; out += cache_line, in += cache_line, bytes -= cache_line) {
        for (std::size_t part = 0; part < cache_line; part += sizeof(__m128i)) {
            const __m128i piece = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + part));
            _mm_stream_si128(reinterpret_cast<__m128i*>(out + part), piece);
        }
    }
#endif
    std::memcpy(out, in, bytes);
}

void finish_streams() {
#ifdef DMLGRAPH_STREAMS
    _mm_sfence();
#endif
}

void copy(const Tensor& out, const Tensor& in) {
    // Copies to lines of `out` by way of packed blocks of `in` that fit in the nearest cache.
    constexpr std::int64_t piece_bytes = 8192;
    alignas(cache_line) std::array<std::byte, piece_bytes> piece;
    const int item = static_cast<int>(item_size(out.type));
    if (out.rank == 0) {
        std::memcpy(out.data, in.data, static_cast<std::size_t>(item));
        return;
    }
    const std::int64_t total = out.element_count();
    for (std::int64_t first = 0; first < total; first += piece_bytes / item) {
        const std::int64_t count = std::min(piece_bytes / item, total - first);
        gather(piece.data(), in.data, in.rank, in.sizes, in.strides, first, count, item);
        scatter(out.data, out.rank, out.sizes, out.strides, piece.data(), first, count, item);
    }
}

}  // namespace dmlgraph::cpu
