// Loops that the compiler turns into shuffles of whole vectors, and squares that are transposed in registers.
#include "cpu/kernels/interleave.h"

#include "cpu/kernels/level.h"
#include "cpu/kernels/transpose.h"
#include "cpu/kernels/types.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace interleave {
namespace {

template <class T, int channels>
void split(void* out, const void* in, std::ptrdiff_t count, std::ptrdiff_t apart) noexcept {
    const T* const pixel = static_cast<const T*>(in);
    T* const line = static_cast<T*>(out);
    DMLGRAPH_LOOP
    for (std::ptrdiff_t i = 0; i < count; ++i) {
        DMLGRAPH_UNROLL
        for (int k = 0; k < channels; ++k) {
            line[k * apart + i] = pixel[channels * i + k];
        }
    }
}

template <class T, int channels>
void merge(void* out, const void* in, std::ptrdiff_t count, std::ptrdiff_t apart) noexcept {
    T* const pixel = static_cast<T*>(out);
    const T* const line = static_cast<const T*>(in);
    DMLGRAPH_LOOP
    for (std::ptrdiff_t i = 0; i < count; ++i) {
        DMLGRAPH_UNROLL
        for (int k = 0; k < channels; ++k) {
            pixel[channels * i + k] = line[k * apart + i];
        }
    }
}

#define CHANNELS(type, channels) {channels, sizeof(type), split<type, channels>, merge<type, channels>},
#define TYPE(type) CHANNELS(type, 2) CHANNELS(type, 3) CHANNELS(type, 4) CHANNELS(type, 5) CHANNELS(type, 6) CHANNELS(type, 7) CHANNELS(type, 8)

template <class T>
void thin_transposed(const TranspositionCall& call) {
    for (std::ptrdiff_t r = 0; r < call.rows; ++r) {
        T* const out = reinterpret_cast<T*>(call.out + r * call.out_step);
        for (std::ptrdiff_t c = 0; c < call.columns; ++c) {
            out[c] = reinterpret_cast<const T*>(call.in + c * call.in_step)[r];
        }
    }
}

// A vector of elements; smaller ones are the lowest bits of its lanes.
template <class T>
DMLGRAPH_INLINE Vector load_elements(const T* from) {
    if constexpr (sizeof(T) == sizeof(float)) {
        return load(reinterpret_cast<const float*>(from));
    } else {
        float wide[lanes];
        for (int i = 0; i < lanes; ++i) {
            wide[i] = float_of(u32{from[i]});
        }
        return load(wide);
    }
}
template <class T>
DMLGRAPH_INLINE void store_elements(T* to, Vector x) {
    if constexpr (sizeof(T) == sizeof(float)) {
        store(reinterpret_cast<float*>(to), x);
    } else {
        float wide[lanes];
        store(wide, x);
        for (int i = 0; i < lanes; ++i) {
            to[i] = static_cast<T>(bits_of(wide[i]));
        }
    }
}

template <class T>
void transposed(const TranspositionCall& call) noexcept {
    if (call.rows < lanes || call.columns < lanes) {
        return thin_transposed<T>(call);
    }
    const auto within = [](std::ptrdiff_t i, std::ptrdiff_t size) {
        return i + lanes <= size ? i : size - lanes;
    };  // some lines again
    for (std::ptrdiff_t column = 0; column < call.columns; column += lanes) {
        const std::ptrdiff_t c = within(column, call.columns);
        for (std::ptrdiff_t row = 0; row < call.rows; row += lanes) {
            const std::ptrdiff_t r = within(row, call.rows);
            Vector square[lanes];
            DMLGRAPH_UNROLL
            for (int i = 0; i < lanes; ++i) {
                square[i] = load_elements(reinterpret_cast<const T*>(call.in + (c + i) * call.in_step) + r);
            }
            transpose(square);
            DMLGRAPH_UNROLL
            for (int i = 0; i < lanes; ++i) {
                store_elements(reinterpret_cast<T*>(call.out + (r + i) * call.out_step) + c, square[i]);
            }
        }
    }
}

const TranspositionEntry of_rectangles[] = {{1, transposed<u8>}, {2, transposed<u16>}, {4, transposed<u32>}};

const InterleavingEntry entries[] = {TYPE(u8) TYPE(u16) TYPE(u32) TYPE(u64)};

}  // namespace
}  // namespace interleave

constexpr InterleavingKernels interleaving_kernels{interleave::entries, interleave::of_rectangles};

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
