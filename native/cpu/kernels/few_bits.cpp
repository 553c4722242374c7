// Weights of 4 bits are looked up: a block has 16 different ones, which are in one register or two.
#include "cpu/kernels/few_bits.h"

#include "cpu/kernels/level.h"
#include "cpu/kernels/nibbles.h"
#include "cpu/kernels/types.h"
#include "cpu/kernels/vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace few_bits {
namespace {

constexpr int numbers = 16;  // of 4 bits

template <bool is_signed>
constexpr float number_of(int half) {
    return static_cast<float>(is_signed && half >= numbers / 2 ? half - numbers : half);
}

#if defined(__AVX512F__)

// Weights of a block whose pairs fill vectors; returns how many. `table` has the block's 16 numbers.
DMLGRAPH_INLINE std::int64_t look_up(float* out, const u8* in, std::int64_t count, const float* table) {
    const __m512 numbers_of_block = _mm512_loadu_ps(table);
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i second = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    std::int64_t i = 0;
    for (; i + 2 * lanes <= count; i += 2 * lanes) {
        constexpr __mmask16 all = 0xffff;  // GCC 12 warns of the forms without a mask, of its own header
        const __m512i bytes =
            _mm512_maskz_cvtepu8_epi32(all, _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i / 2)));
        const __m512 even = _mm512_maskz_permutexvar_ps(all, bytes, numbers_of_block);  // by the lowest 4 bits
        const __m512 odd = _mm512_maskz_permutexvar_ps(all, _mm512_maskz_srli_epi32(all, bytes, 4), numbers_of_block);
        _mm512_storeu_ps(out + i, _mm512_permutex2var_ps(even, first, odd));
        _mm512_storeu_ps(out + i + lanes, _mm512_permutex2var_ps(even, second, odd));
    }
    return i;
}

#elif defined(__AVX2__)

// Of a table in two registers, by the lowest 4 bits, of which the highest is the sign of `chosen`.
DMLGRAPH_INLINE __m256 entries(__m256 low, __m256 high, __m256i places, __m256i chosen) {
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, places), _mm256_permutevar8x32_ps(high, places),
                            _mm256_castsi256_ps(chosen));
}

DMLGRAPH_INLINE std::int64_t look_up(float* out, const u8* in, std::int64_t count, const float* table) {
    const __m256 low = _mm256_loadu_ps(table), high = _mm256_loadu_ps(table + lanes);
    std::int64_t i = 0;
    for (; i + 2 * lanes <= count; i += 2 * lanes) {
        const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(in + i / 2)));
        const __m256 even = entries(low, high, bytes, _mm256_slli_epi32(bytes, 28));
        const __m256 odd = entries(low, high, _mm256_srli_epi32(bytes, 4), _mm256_slli_epi32(bytes, 24));
        const __m256 first = _mm256_unpacklo_ps(even, odd), second = _mm256_unpackhi_ps(even, odd);
        _mm256_storeu_ps(out + i, _mm256_permute2f128_ps(first, second, 0x20));
        _mm256_storeu_ps(out + i + lanes, _mm256_permute2f128_ps(first, second, 0x31));
    }
    return i;
}

#else

DMLGRAPH_INLINE std::int64_t look_up(float*, const u8*, std::int64_t, const float*) { return 0; }

#endif

template <bool is_signed>
void of_four_bits(const BlocksCall& call) noexcept {
    const BlocksCall c = call;
    for (std::int64_t first = 0, b = 0; first < c.count; first += c.block, ++b) {
        const std::int64_t count = c.count - first < c.block ? c.count - first : c.block;
        const u8* const in = c.in + first / 2;
        float* const out = c.out + first;
        const float scale = c.scales[b], zero = c.zeros[b];
        float table[numbers];
        DMLGRAPH_UNROLL
        for (int half = 0; half < numbers; ++half) {
            table[half] = (number_of<is_signed>(half) - zero) * scale;
        }
        std::int64_t i = look_up(out, in, count, table);
        for (; i + 1 < count; i += 2) {
            const u8 pair = in[i / 2];
            out[i] = table[pair & 15];
            out[i + 1] = table[pair >> 4];
        }
        if (i < count) {
            out[i] = table[in[i / 2] & 15];
        }
    }
}

template <class T>
void of_bytes(const BlocksCall& call) noexcept {
    const BlocksCall c = call;
    const auto* const weights = reinterpret_cast<const T*>(c.in);
    for (std::int64_t first = 0, b = 0; first < c.count; first += c.block, ++b) {
        const std::int64_t end = c.count - first < c.block ? c.count : first + c.block;
        const float scale = c.scales[b], zero = c.zeros[b];
        DMLGRAPH_LOOP
        for (std::int64_t i = first; i < end; ++i) {
            c.out[i] = (static_cast<float>(weights[i]) - zero) * scale;
        }
    }
}

void spread(u8* out, const u8* in, std::int64_t pairs, u8 sign) noexcept {
    DMLGRAPH_LOOP
    for (std::int64_t i = 0; i < pairs; ++i) {
        out[2 * i] = static_cast<u8>(((in[i] & 15) ^ sign) - sign);
        out[2 * i + 1] = static_cast<u8>(((in[i] >> 4) ^ sign) - sign);
    }
}

// Products of a vector of lines in one block; `chains` sums of a row take turns, so that none waits for the one before.
template <int rows>
DMLGRAPH_INLINE void multiply_block(const std::uint32_t* words, std::int64_t depth, const NibbleFloats& floats,
                                    const float* a, std::int64_t a_step, Vector (&out)[rows]) {
    constexpr int chains = rows == 1 ? 4 : rows == 2 ? 2 : 1;
    Vector sums[chains][rows];
    set_all(sums, repeated(0.0f));
    for (std::int64_t k = 0; k < depth; k += nibble_depths, words += nibble_lines) {
        each_nibble(load_words(words), floats, [&](int j, Vector weight) {
            DMLGRAPH_UNROLL
            for (int r = 0; r < rows; ++r) {
                Vector& added = sums[j % chains][r];
                added = product_sum(repeated(a[r * a_step + k + j]), weight, added);
            }
        });
    }
    DMLGRAPH_UNROLL
    for (int r = 0; r < rows; ++r) {
        out[r] = chains == 4 ? sum(sum(sums[0][r], sums[1 % chains][r]), sum(sums[2 % chains][r], sums[3 % chains][r]))
                 : chains == 2 ? sum(sums[0][r], sums[1 % chains][r])
                               : sums[0][r];
    }
}

template <int rows>
void multiply(const NibbleRowsCall& call) noexcept {
    const NibbleRowsCall c = call;
    Vector totals[nibble_vectors][rows];
    set_all(totals, repeated(0.0f));
    for (std::int64_t first = 0, b = 0; first < c.b.depth; first += c.b.block, ++b) {
        const std::int64_t depth = c.b.depth - first < c.b.block ? c.b.depth - first : c.b.block;
        for (int v = 0; v < nibble_vectors; ++v) {
            Vector sums[rows];
            multiply_block<rows>(nibble_words(c.b, first, v), depth, NibbleFloats(nibble_zeros(c.b, b, v)), c.a + first,
                                 c.a_step, sums);
            const Vector scale = nibble_scales(c.b, b, v);
            DMLGRAPH_UNROLL
            for (int r = 0; r < rows; ++r) {
                totals[v][r] = product_sum(scale, sums[r], totals[v][r]);
            }
        }
    }
    for (int v = 0; v < nibble_vectors; ++v) {
        for (int r = 0; r < rows; ++r) {
            store(c.sums + r * c.step + v * lanes, totals[v][r]);
        }
    }
}

void nibble_rows(const NibbleRowsCall& call) noexcept {
    using Kernel = void (*)(const NibbleRowsCall&) noexcept;
    static constexpr Kernel by_rows[most_nibble_rows] = {multiply<1>, multiply<2>, multiply<3>, multiply<4>,
                                                         multiply<5>, multiply<6>, multiply<7>, multiply<8>};
    by_rows[call.rows - 1](call);
}

void nibble_panel(const NibblePanelCall& call) noexcept {
    const NibblePanelCall c = call;
    for (std::int64_t first = 0, b = 0; first < c.b.depth; first += c.b.block, ++b) {
        const std::int64_t end = c.b.depth - first < c.b.block ? c.b.depth : first + c.b.block;
        for (int v = 0; v < nibble_vectors; ++v) {
            const NibbleFloats floats(nibble_zeros(c.b, b, v));
            const Vector scale = nibble_scales(c.b, b, v);
            const std::uint32_t* words = nibble_words(c.b, first, v);
            float* out = c.out + first * c.step + v * lanes;
            for (std::int64_t k = first; k < end;
                 k += nibble_depths, words += nibble_lines, out += nibble_depths * c.step) {
                each_nibble(load_words(words), floats,
                            [&](int j, Vector weight) { store(out + j * c.step, times(weight, scale)); });
            }
        }
    }
}

constexpr FewBitsKernels kernels{of_four_bits<false>, of_four_bits<true>, of_bytes<u8>, of_bytes<i8>, spread,
                                 nibble_rows,         nibble_panel};

}  // namespace
}  // namespace few_bits

constexpr FewBitsKernels few_bits_kernels = few_bits::kernels;

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
