// Products of 8-bit integers: two or four depths at a time, in the numbers of a word, and sums of 32 bits, which wrap.
#include "cpu/kernels/product.h"
#include "cpu/kernels/product_tables.h"
#include "cpu/kernels/tile.h"
#include "cpu/kernels/types.h"
#include "cpu/kernels/vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace integer_product {
namespace {

constexpr int bits = 32 / depths_of_word;  // of a number
constexpr u32 every = bits == 8 ? 0xff : 0xffff;
constexpr u32 ones = bits == 8 ? 0x01010101 : 0x00010001;

// A number of a word.
DMLGRAPH_INLINE u32 number(u8 x) { return bits == 8 ? x : static_cast<u16>(static_cast<i8>(x)); }

DMLGRAPH_INLINE u32 word(u32 a, u32 b, u32 c, u32 d) {
    return depths_of_word == 2 ? a | b << bits : (a | b << 8) | (c << 16 | d << 24);
}

// Elements that are `step` bytes apart, if that is known when this is compiled.
template <int step>
DMLGRAPH_INLINE void apart(const WordsCall& call) {
    const u8* in[most_depths_of_word];
    u32 there = 0;
    for (int k = 0; k < most_depths_of_word; ++k) {
        in[k] = reinterpret_cast<const u8*>(call.in[k < call.depths ? k : 0]);
        there |= k < call.depths ? every << (k * bits & 31) : 0;
    }
    const u8 *const a = in[0], *const b = in[1], *const c = in[2], *const d = in[3];
    u32* const out = call.out;
    const u8 flip = call.flip;
    const std::int64_t count = call.count, apart = step == 0 ? call.step : step;
    if (step == 0) {
        for (std::int64_t i = 0; i < count; ++i) {
            const std::int64_t at = i * apart;
            out[i] = there & word(number(a[at] ^ flip), number(b[at] ^ flip), number(c[at] ^ flip), number(d[at] ^ flip));
        }
        return;
    }
    DMLGRAPH_LOOP
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t at = i * apart;
        out[i] = there & word(number(a[at] ^ flip), number(b[at] ^ flip), number(c[at] ^ flip), number(d[at] ^ flip));
    }
}

#if defined(__AVX512F__)
// Words of bytes that follow one another: word i begins at byte i.
DMLGRAPH_INLINE void overlapping(const WordsCall& call) {
    constexpr __mmask16 every_word = 0xffff;  // GCC 12 warns of the forms without masks, of its own header
    // The double words of which the parts of four words consist, and the bytes of these words within a part.
    const __m512i parts = _mm512_setr_epi32(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6);
    const __m512i bytes = _mm512_maskz_broadcast_i32x4(every_word, _mm_setr_epi8(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6));
    const __m512i flip = _mm512_set1_epi8(static_cast<char>(call.flip));
    const std::byte* const in = call.in[0];
    u32* const out = call.out;
    const std::int64_t count = call.count;
    const auto made = [&](__m256i from) {
        const __m512i spread = _mm512_maskz_permutexvar_epi32(every_word, parts, _mm512_castsi256_si512(from));
        return _mm512_xor_si512(_mm512_shuffle_epi8(spread, bytes), flip);
    };
    const std::int64_t bytes_of_all = count + depths_of_word - 1;
    std::int64_t i = 0;
    for (; i + 32 <= bytes_of_all; i += lanes) {
        _mm512_storeu_si512(out + i, made(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i))));
    }
    for (; i < count; i += lanes) {
        const auto there = static_cast<__mmask32>((std::uint64_t{1} << (bytes_of_all - i)) - 1);
        const auto wanted = static_cast<__mmask16>(count - i < lanes ? (1u << (count - i)) - 1 : every_word);
        _mm512_mask_storeu_epi32(out + i, wanted, made(_mm256_maskz_loadu_epi8(there, in + i)));
    }
}
#endif

DMLGRAPH_INLINE void make_words(const WordsCall& call) {
#if defined(__AVX512F__)
    const std::byte* const* const in = call.in;
    if (depths_of_word == 4 && call.depths == 4 && call.step == 1 && in[1] == in[0] + 1 && in[2] == in[0] + 2 && in[3] == in[0] + 3) {
        return overlapping(call);
    }
#endif
    switch (call.step) {
        case 1: return apart<1>(call);
        case 2: return apart<2>(call);
        default: return apart<0>(call);
    }
}

void words(const WordsCall& call) noexcept {
    make_words(call);
    if (call.replaced == nullptr) {
        return;
    }
    const std::int64_t period = call.replaced->period;
    const u32 *const kept = call.replaced->kept, *const others = call.replaced->others;
    for (std::int64_t first = 0; first < call.count; first += period) {
        const std::int64_t count = call.count - first < period ? call.count - first : period;
        u32* const out = call.out + first;
        DMLGRAPH_LOOP
        for (std::int64_t i = 0; i < count; ++i) {
            out[i] = (out[i] & kept[i]) | others[i];
        }
    }
}

void line_of_words(const LineOfWordsCall& call) noexcept {
    const auto* const in = reinterpret_cast<const u8*>(call.in);
    const std::int64_t whole = call.bytes / depths_of_word;
    if constexpr (bits == 8) {
        DMLGRAPH_LOOP
        for (std::int64_t i = 0; i < whole; ++i) {
            call.out[i] = word(in[4 * i], in[4 * i + 1], in[4 * i + 2], in[4 * i + 3]) ^ call.flip * ones;
        }
    } else {
        DMLGRAPH_LOOP
        for (std::int64_t i = 0; i < whole; ++i) {
            call.out[i] = word(number(in[2 * i] ^ call.flip), number(in[2 * i + 1] ^ call.flip), 0, 0);
        }
    }
    const std::int64_t rest = call.bytes - whole * depths_of_word;
    if (rest > 0) {
        WordsCall last{call.out + whole, {}, static_cast<int>(rest), 0, 1, call.flip};
        for (std::int64_t k = 0; k < rest; ++k) {
            last.in[k] = call.in + whole * depths_of_word + k;
        }
        words(last);
    }
}

template <int vectors>
DMLGRAPH_INLINE void sum_taps(const WordTapsCall& call, std::int64_t first) {
    Words sums[vectors];
    DMLGRAPH_UNROLL
    for (int j = 0; j < vectors; ++j) {
        sums[j] = repeated_word(call.initial);
    }
    for (std::int64_t t = 0; t < call.taps; ++t) {
        const auto* const in = reinterpret_cast<const float*>(call.in + call.offsets[t] + first);
        const Words weight = repeated_word(static_cast<int>(call.weights[t]));
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            sums[j] = product_sum(weight, load_words(in + j * lanes), sums[j]);
        }
    }
    DMLGRAPH_UNROLL
    for (int j = 0; j < vectors; ++j) {
        store(reinterpret_cast<float*>(call.out + first + j * lanes), sums[j]);
    }
}

void taps(const WordTapsCall& call) noexcept {
    constexpr int many = 8, several = 4;
    std::int64_t first = 0;
    for (; first + many * lanes <= call.count; first += many * lanes) {
        sum_taps<many>(call, first);
    }
    for (; first + several * lanes <= call.count; first += several * lanes) {
        sum_taps<several>(call, first);
    }
    for (; first < call.count; first += lanes) {
        sum_taps<1>(call, first);
    }
}

template <bool is_signed>
DMLGRAPH_INLINE i32 numbers_of(u32 word) {
    i32 result = 0;
    DMLGRAPH_UNROLL
    for (int k = 0; k < depths_of_word; ++k) {
        const u32 part = word >> k * bits;
        if constexpr (bits == 16) {
            result += static_cast<i16>(part);
        } else {
            result += is_signed ? static_cast<i32>(static_cast<i8>(part)) : static_cast<i32>(static_cast<u8>(part));
        }
    }
    return result;
}

template <bool is_signed>
i32 total(const u32* words, std::int64_t count) noexcept {
    u32 result = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        result += static_cast<u32>(numbers_of<is_signed>(words[i]));
    }
    return static_cast<i32>(result);
}

template <bool is_signed>
void add(i32* sums, const u32* words, std::int64_t count) noexcept {
    DMLGRAPH_LOOP
    for (std::int64_t i = 0; i < count; ++i) {
        sums[i] = static_cast<i32>(static_cast<u32>(sums[i]) + static_cast<u32>(numbers_of<is_signed>(words[i])));
    }
}

void take_zero_points(const ZeroPointsCall& call) noexcept {
    auto* const sums = reinterpret_cast<u32*>(call.sums);
    const auto *const column_sums = reinterpret_cast<const u32*>(call.column_sums);
    const auto *const column_zeros = reinterpret_cast<const u32*>(call.column_zeros);
    const auto constant = static_cast<u32>(call.constant), zero = static_cast<u32>(call.row_zero), sum = static_cast<u32>(call.row_sum);
    const std::int64_t count = call.count;
    if (column_sums == nullptr && column_zeros == nullptr) {
        DMLGRAPH_LOOP
        for (std::int64_t i = 0; i < count; ++i) {
            sums[i] += constant;
        }
    } else if (column_zeros == nullptr) {
        DMLGRAPH_LOOP
        for (std::int64_t i = 0; i < count; ++i) {
            sums[i] += constant - zero * column_sums[i];
        }
    } else if (column_sums == nullptr) {
        DMLGRAPH_LOOP
        for (std::int64_t i = 0; i < count; ++i) {
            sums[i] += constant - sum * column_zeros[i];
        }
    } else {
        DMLGRAPH_LOOP
        for (std::int64_t i = 0; i < count; ++i) {
            sums[i] += constant - zero * column_sums[i] - sum * column_zeros[i];
        }
    }
}

constexpr WordSums signed_sums{total<true>, add<true>}, unsigned_sums{total<false>, add<false>};

constexpr IntegerKernels kernels{depths_of_word, unsigned_columns, false, ones, tiles_of<Integers>(), tiles_of<ColumnsOfBytes>(), words, line_of_words,
                                 taps, signed_sums, unsigned_columns ? unsigned_sums : signed_sums, take_zero_points};

#if defined(DMLGRAPH_PAIRS)
// Rows have the unsigned numbers. Their words are no weights of `taps`.
struct SignedColumns : Integers {
    static DMLGRAPH_INLINE V multiplied(V row, V column, V sum) { return product_sum(column, row, sum); }
};

constexpr IntegerKernels of_signed_columns{depths_of_word, false, true, ones, tiles_of<SignedColumns>(), tiles_of<SignedColumns>(), words, line_of_words,
                                           nullptr, unsigned_sums, signed_sums, take_zero_points};
#endif

}  // namespace
}  // namespace integer_product

const IntegerKernels& integer_products() { return integer_product::kernels; }
#if defined(DMLGRAPH_PAIRS)
const IntegerKernels& products_of_signed_columns() { return integer_product::of_signed_columns; }
#endif

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
