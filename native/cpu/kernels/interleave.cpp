// Loops that the compiler turns into shuffles of whole vectors.
#include "cpu/kernels/interleave.h"

#include "cpu/kernels/interleave_tables.h"
#include "cpu/kernels/types.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace interleave {
namespace {

template <class T, int channels>
void split(void* out, const void* in, std::size_t count) noexcept {
    const T* const pixel = static_cast<const T*>(in);
    T* const a = static_cast<T*>(out);
    T *const b = a + count, *const c = b + count, *const d = c + count;
    DMLGRAPH_LOOP
    for (std::size_t i = 0; i < count; ++i) {
        a[i] = pixel[channels * i];
        b[i] = pixel[channels * i + 1];
        if constexpr (channels > 2) {
            c[i] = pixel[channels * i + 2];
        }
        if constexpr (channels > 3) {
            d[i] = pixel[channels * i + 3];
        }
    }
}

template <class T, int channels>
void merge(void* out, const void* in, std::size_t count) noexcept {
    T* const pixel = static_cast<T*>(out);
    const T* const a = static_cast<const T*>(in);
    const T *const b = a + count, *const c = b + count, *const d = c + count;
    DMLGRAPH_LOOP
    for (std::size_t i = 0; i < count; ++i) {
        pixel[channels * i] = a[i];
        pixel[channels * i + 1] = b[i];
        if constexpr (channels > 2) {
            pixel[channels * i + 2] = c[i];
        }
        if constexpr (channels > 3) {
            pixel[channels * i + 3] = d[i];
        }
    }
}

#define CHANNELS(type, channels) {channels, sizeof(type), split<type, channels>, merge<type, channels>},
#define TYPE(type) CHANNELS(type, 2) CHANNELS(type, 3) CHANNELS(type, 4)

const InterleavingEntry entries[] = {TYPE(u8) TYPE(u16) TYPE(u32)};

}  // namespace
}  // namespace interleave

InterleavingEntries interleavings() { return interleave::entries; }

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
