// Products of 8-bit integers: two or four depths at a time, in the numbers of a word, and sums of 32 bits, which wrap.
#include "cpu/kernels/level.h"
#include "cpu/kernels/nibble_bytes.h"
#include "cpu/kernels/peak.h"
#include "cpu/kernels/product.h"
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

// Some words of a call, and what some of their bits become.
struct PartOfWords {
    std::int64_t first;
    std::int64_t count;
    const u32* kept = nullptr;  // null: all bits stay
    const u32* others = nullptr;
};

#if defined(__ARM_FEATURE_DOTPROD)
// Words of elements that follow one another, 16 at a time; returns how many.
DMLGRAPH_INLINE std::int64_t interleaved(const u8* const (&in)[most_depths_of_word], std::int64_t count, u8 flip,
                                         u32 there, u32* out) {
    constexpr int together = 16;
    const uint8x16_t flips = vdupq_n_u8(flip);
    const uint16x8_t kept = vreinterpretq_u16_u32(vdupq_n_u32(there));
    std::int64_t i = 0;
    for (; i + together <= count; i += together) {
        const auto bytes = [&](int k) { return veorq_u8(vld1q_u8(in[k] + i), flips); };
        const uint8x16x2_t left = vzipq_u8(bytes(0), bytes(1)), right = vzipq_u8(bytes(2), bytes(3));
        DMLGRAPH_UNROLL
        for (int half = 0; half < 2; ++half) {
            const uint16x8x2_t made =
                vzipq_u16(vreinterpretq_u16_u8(left.val[half]), vreinterpretq_u16_u8(right.val[half]));
            u32* const to = out + i + half * together / 2;
            vst1q_u32(to, vreinterpretq_u32_u16(vandq_u16(made.val[0], kept)));
            vst1q_u32(to + lanes, vreinterpretq_u32_u16(vandq_u16(made.val[1], kept)));
        }
    }
    return i;
}
#endif

// Elements that are `step` bytes apart, if that is known when this is compiled.
template <int step>
DMLGRAPH_INLINE void apart(const WordsCall& call, const PartOfWords& part) {
    const std::int64_t count = part.count, apart = step == 0 ? call.step : step;
    const u8* in[most_depths_of_word];
    u32 there = 0;
    for (int k = 0; k < most_depths_of_word; ++k) {
        in[k] = reinterpret_cast<const u8*>(call.in[k < call.depths ? k : 0]) + part.first * apart;
        there |= k < call.depths ? every << (k * bits & 31) : 0;
    }
    const u8 *const a = in[0], *const b = in[1], *const c = in[2], *const d = in[3];
    u32* const out = call.out + part.first;
    const u8 flip = call.flip;
    if (step == 0) {
        for (std::int64_t i = 0; i < count; ++i) {
            const std::int64_t at = i * apart;
            out[i] =
                there & word(number(a[at] ^ flip), number(b[at] ^ flip), number(c[at] ^ flip), number(d[at] ^ flip));
        }
    } else {
        std::int64_t made = 0;
#if defined(__ARM_FEATURE_DOTPROD)
        made = step == 1 ? interleaved(in, count, flip, there, out) : 0;
#endif
        DMLGRAPH_LOOP
        for (std::int64_t i = made; i < count; ++i) {
            const std::int64_t at = i * apart;
            out[i] =
                there & word(number(a[at] ^ flip), number(b[at] ^ flip), number(c[at] ^ flip), number(d[at] ^ flip));
        }
    }
    if (part.kept != nullptr) {
        const u32 *const kept = part.kept, *const others = part.others;
        DMLGRAPH_LOOP
        for (std::int64_t i = 0; i < count; ++i) {
            out[i] = (out[i] & kept[i]) | others[i];
        }
    }
}

#if defined(__AVX2__)
// A vector of words, each of bytes that follow one another: word i begins at byte i.
DMLGRAPH_INLINE Words overlapping_words(const std::byte* from, u8 flip) {
#if defined(__AVX512F__)
    constexpr __mmask16 every_word = 0xffff;  // GCC 12 warns of the forms without masks, of its own header
    // The double words of which the parts of four words consist, and the bytes of these words within a part.
    const __m512i parts = _mm512_setr_epi32(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6);
    const __m512i bytes =
        _mm512_maskz_broadcast_i32x4(every_word, _mm_setr_epi8(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6));
    const auto read = static_cast<__mmask32>((1u << (lanes + 3)) - 1);
    const __m512i spread =
        _mm512_maskz_permutexvar_epi32(every_word, parts, _mm512_castsi256_si512(_mm256_maskz_loadu_epi8(read, from)));
    return _mm512_xor_si512(_mm512_shuffle_epi8(spread, bytes), _mm512_set1_epi8(static_cast<char>(flip)));
#else
    // The first eight bytes, and the eight that end with the last.
    const auto eight = [](const std::byte* bytes) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)); };
    const __m128i both = _mm_xor_si128(_mm_unpacklo_epi64(eight(from), eight(from + depths_of_word - 1)),
                                       _mm_set1_epi8(static_cast<char>(flip)));
    if constexpr (depths_of_word == 2) {
        return _mm256_cvtepi8_epi16(
            _mm_shuffle_epi8(both, _mm_setr_epi8(0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 15)));
    }
    const __m256i bytes = _mm256_setr_epi8(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6, 4, 5, 6, 7, 5, 6, 7, 13, 6,
                                           7, 13, 14, 7, 13, 14, 15);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(both), bytes);
#endif
}

// At least a vector of such words.
DMLGRAPH_INLINE void overlapping(const WordsCall& call, const PartOfWords& part) {
    const std::byte* const in = call.in[0] + part.first;
    u32* const out = call.out + part.first;
    const std::int64_t last = part.count - lanes;
    const u8 flip = call.flip;
    for (std::int64_t i = 0; i < part.count; i += lanes) {
        const std::int64_t at = i < last ? i : last;
        const Words made = overlapping_words(in + at, flip);
        store(out + at,
              part.kept == nullptr ? made : either(load_words(part.kept + at), made, load_words(part.others + at)));
    }
}
#endif

DMLGRAPH_INLINE void make_words(const WordsCall& call, const PartOfWords& part) {
#if defined(__AVX2__)
    bool follow = part.count >= lanes && call.depths == depths_of_word && call.step == 1;
    for (int k = 1; k < depths_of_word; ++k) {
        follow = follow && call.in[k] == call.in[0] + k;
    }
    if (follow && (lanes == 8 || depths_of_word == 4)) {
        return overlapping(call, part);
    }
#endif
    switch (call.step) {
        case 1: return apart<1>(call, part);
        case 2: return apart<2>(call, part);
        default: return apart<0>(call, part);
    }
}

void words(const WordsCall& call) noexcept {
    if (call.replaced == nullptr) {
        return make_words(call, {0, call.count});
    }
    const OtherBits& replaced = *call.replaced;
    for (std::int64_t first = 0; first < call.count; first += replaced.period) {
        const std::int64_t count = call.count - first < replaced.period ? call.count - first : replaced.period;
        make_words(call, {first, count, replaced.kept, replaced.others});
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
    set_all(sums, repeated_word(call.initial));
    for (std::int64_t t = 0; t < call.taps; ++t) {
        const u32* const in = call.in + call.offsets[t] + first;
        const Words weight = repeated_word(static_cast<int>(call.weights[t]));
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            sums[j] = product_sum(weight, load_words(in + j * lanes), sums[j]);
        }
    }
    DMLGRAPH_UNROLL
    for (int j = 0; j < vectors; ++j) {
        store(NumbersTo(call.out + first + j * lanes).as<u32>(), sums[j]);
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
    const auto* const column_sums = reinterpret_cast<const u32*>(call.column_sums);
    const auto* const column_zeros = reinterpret_cast<const u32*>(call.column_zeros);
    const auto constant = static_cast<u32>(call.constant), zero = static_cast<u32>(call.row_zero),
               sum = static_cast<u32>(call.row_sum);
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

double peak(std::int64_t rounds, float* sum) noexcept {
    return multiply_and_add<Integers>(rounds, ones, ones, depths_of_word, sum);
}

constexpr WordSums signed_sums{total<true>, add<true>}, unsigned_sums{total<false>, add<false>};

#if defined(DMLGRAPH_PAIRS)
constexpr int together = 2;
constexpr Tiles tiles = tiles_of<SmallRows>(), tiles_of_bytes = tiles;
#else
constexpr int together = 0;
#if defined(__ARM_FEATURE_MATMUL_INT8)
constexpr Tiles tiles = tiles_of<Squares>(), tiles_of_bytes = tiles;
#else
constexpr Tiles tiles = tiles_of<Integers>(), tiles_of_bytes = tiles_of<ColumnsOfBytes>();
#endif
#endif
constexpr IntegerKernels kernels{depths_of_word,
                                 unsigned_columns,
                                 false,
                                 together,
                                 ones,
                                 tiles,
                                 tiles_of_bytes,
                                 words,
                                 line_of_words,
                                 taps,
                                 signed_sums,
                                 unsigned_columns ? unsigned_sums : signed_sums,
                                 take_zero_points,
                                 peak,
#if !defined(DMLGRAPH_PAIRS)
                                 nibble_bytes::words,
                                 nibble_bytes::words_of_nibbles,
                                 nibble_bytes::rows
#endif
};

#if defined(DMLGRAPH_PAIRS)
// Rows have the unsigned numbers. Their words are no weights of `taps`.
struct SignedColumns : Integers {
    static DMLGRAPH_INLINE V multiplied(V row, V column, V sum) { return product_sum(column, row, sum); }
};

constexpr IntegerKernels of_signed_columns{depths_of_word,
                                           false,
                                           true,
                                           1,
                                           ones,
                                           tiles_of<SignedColumns>(),
                                           tiles_of<SignedColumns>(),
                                           words,
                                           line_of_words,
                                           nullptr,
                                           unsigned_sums,
                                           signed_sums,
                                           take_zero_points,
                                           peak};
#endif

}  // namespace
}  // namespace integer_product

extern const IntegerKernels signed_columns_kernels;
constexpr IntegerKernels integers_kernels = integer_product::kernels;
#if defined(DMLGRAPH_PAIRS)
constexpr IntegerKernels signed_columns_kernels = integer_product::of_signed_columns;
#endif

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
