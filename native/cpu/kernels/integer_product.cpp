// Products of 8-bit integers: two depths at a time, as 16-bit numbers in one word, and sums of 32 bits, which wrap.
#include "cpu/kernels/product.h"
#include "cpu/kernels/product_tables.h"
#include "cpu/kernels/tile.h"
#include "cpu/kernels/types.h"
#include "cpu/kernels/vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace integer_product {
namespace {

template <class T>
DMLGRAPH_INLINE u32 centred(const T* x, i16 zero) {
    return static_cast<u16>(static_cast<i16>(*x) - zero);
}

// Elements that are `step` bytes apart, if that is known when this is compiled.
template <class T, int step>
DMLGRAPH_INLINE void apart(const PairsCall& call) {
    const auto* const first = reinterpret_cast<const T*>(call.first);
    const auto* const second = reinterpret_cast<const T*>(call.second);
    u32* const out = call.out;
    const i16* const zeros = call.zeros;
    if (second == nullptr) {
        DMLGRAPH_LOOP
        for (std::int64_t i = 0; i < call.count; ++i) {
            out[i] = centred(first + step * i, zeros[i]);
        }
        return;
    }
    DMLGRAPH_LOOP
    for (std::int64_t i = 0; i < call.count; ++i) {
        out[i] = centred(first + step * i, zeros[i]) | centred(second + step * i, zeros[i]) << 16;
    }
}

template <class T>
void pairs(const PairsCall& call) noexcept {
    switch (call.step) {
        case 1: return apart<T, 1>(call);
        case 2: return apart<T, 2>(call);
        default:
            for (std::int64_t i = 0; i < call.count; ++i) {
                const u32 high = call.second == nullptr
                                     ? 0
                                     : centred(reinterpret_cast<const T*>(call.second + i * call.step), call.zeros[i]);
                call.out[i] = centred(reinterpret_cast<const T*>(call.first + i * call.step), call.zeros[i]) | high << 16;
            }
    }
}

constexpr IntegerKernels kernels{tiles_of<Pairs>(), pairs<i8>, pairs<u8>};

}  // namespace
}  // namespace integer_product

const IntegerKernels& integer_products() { return integer_product::kernels; }

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
