// Loops that the compiler turns into shuffles of whole vectors.
#include "cpu/kernels/interleave.h"

#include "cpu/kernels/interleave_tables.h"
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

const InterleavingEntry entries[] = {TYPE(u8) TYPE(u16) TYPE(u32) TYPE(u64)};

}  // namespace
}  // namespace interleave

InterleavingEntries interleavings() { return interleave::entries; }

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
