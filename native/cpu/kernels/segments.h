// tanh, the error function and GELU of vectors: polynomials, one for each of eight segments of the magnitudes, whose
// coefficients are looked up in registers.
//
// A polynomial is one of the distance from the segment's centre. At each centre the function is nearly a float32, so
// that the first coefficient has no error; the lowest segment begins at zero, its centre is zero, and so is that
// coefficient: small results have a small error, too. The coefficients are minimax fits of the relative error. An error
// bound in brackets is that of the fit.
#pragma once

#include "cpu/kernels/formula_vector.h"
#include "cpu/kernels/transpose.h"
#include "cpu/kernels/vector_exp.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

// magnitude(x); with_sign(x, y): x, which is not negative, with the sign of y. Where a level looks numbers up in
// registers: places_of<shift>(x): the three bits of x from the bit `shift` on, lane by lane, as number_at(eight,
// places) takes them.
#if defined(__AVX512F__)

using Places = __m512i;
DMLGRAPH_INLINE Vector magnitude(Vector x) {
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff)));
}
DMLGRAPH_INLINE Vector with_sign(Vector x, Vector y) {
    constexpr int y_where_set_else_x = 0xea;  // (y & bits) | x
    const __m512i bits = _mm512_set1_epi32(static_cast<int>(0x80000000u));
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(_mm512_castps_si512(y), bits, _mm512_castps_si512(x), y_where_set_else_x));
}
template <int shift>
DMLGRAPH_INLINE Places places_of(Vector x) {
    return _mm512_maskz_srli_epi32(every_lane, _mm512_castps_si512(x), shift);
}
DMLGRAPH_INLINE Vector number_at(const float (&eight)[8], Places places) {
    const Vector twice = _mm512_maskz_broadcast_f32x8(every_lane, _mm256_loadu_ps(eight));
    return _mm512_maskz_permutexvar_ps(every_lane, places, twice);
}

#elif defined(__AVX2__)

using Places = __m256i;
DMLGRAPH_INLINE Vector magnitude(Vector x) { return _mm256_andnot_ps(repeated(-0.0f), x); }
DMLGRAPH_INLINE Vector with_sign(Vector x, Vector y) { return _mm256_or_ps(x, _mm256_and_ps(repeated(-0.0f), y)); }
template <int shift>
DMLGRAPH_INLINE Places places_of(Vector x) {
    return _mm256_srli_epi32(_mm256_castps_si256(x), shift);
}
DMLGRAPH_INLINE Vector number_at(const float (&eight)[8], Places places) {
    return _mm256_permutevar8x32_ps(_mm256_loadu_ps(eight), places);
}

#elif defined(__aarch64__) || defined(_M_ARM64)

// The places of the four bytes of each number.
using Places = uint8x16_t;
DMLGRAPH_INLINE Vector magnitude(Vector x) { return vabsq_f32(x); }
DMLGRAPH_INLINE Vector with_sign(Vector x, Vector y) { return vbslq_f32(vdupq_n_u32(0x80000000u), y, x); }
template <int shift>
DMLGRAPH_INLINE Places places_of(Vector x) {
    const uint32x4_t number = vandq_u32(vshrq_n_u32(vreinterpretq_u32_f32(x), shift), vdupq_n_u32(7));
    return vreinterpretq_u8_u32(vmlaq_n_u32(vdupq_n_u32(0x03020100u), number, 0x04040404u));
}
DMLGRAPH_INLINE Vector number_at(const float (&eight)[8], Places places) {
    const uint8x16x2_t bytes = {{vreinterpretq_u8_f32(vld1q_f32(eight)), vreinterpretq_u8_f32(vld1q_f32(eight + 4))}};
    return vreinterpretq_f32_u8(vqtbl2q_u8(bytes, places));
}

#elif defined(DMLGRAPH_X86)

DMLGRAPH_INLINE Vector magnitude(Vector x) { return _mm_andnot_ps(repeated(-0.0f), x); }
DMLGRAPH_INLINE Vector with_sign(Vector x, Vector y) { return _mm_or_ps(x, _mm_and_ps(repeated(-0.0f), y)); }

#else

DMLGRAPH_INLINE Vector magnitude(Vector x) { return as_floats(as_words(x) & 0x7fffffffu); }
DMLGRAPH_INLINE Vector with_sign(Vector x, Vector y) { return as_floats(as_words(x) | (as_words(y) & 0x80000000u)); }

#endif

constexpr int terms_of_segments = 9;  // the centre, then the coefficients
using Segments = float[terms_of_segments][8];

// The terms of each lane's segment, whose number is the three bits of `x` from the bit `shift` on.
#if defined(__AVX2__) || defined(__aarch64__) || defined(_M_ARM64)
template <int shift, const Segments& segments>
struct Terms {
    Places places;
    DMLGRAPH_INLINE explicit Terms(Vector x) : places(places_of<shift>(x)) {}
    template <int term>
    DMLGRAPH_INLINE Vector get() const {
        return number_at(segments[term], places);
    }
};
#else
// The terms of a segment side by side, in whole vectors.
constexpr int line_vectors = (terms_of_segments + lanes - 1) / lanes;
struct Lines {
    float of[8][line_vectors * lanes];
};
constexpr Lines lines_of(const Segments& segments) {
    Lines lines{};
    for (int term = 0; term < terms_of_segments; ++term) {
        for (int segment = 0; segment < 8; ++segment) {
            lines.of[segment][term] = segments[term][segment];
        }
    }
    return lines;
}
template <int shift, const Segments& segments>
struct Terms {
    static constexpr Lines lines = lines_of(segments);
    Vector vectors[line_vectors][lanes];
    DMLGRAPH_INLINE explicit Terms(Vector x) {
        float number[lanes];
        store(number, x);
        DMLGRAPH_UNROLL
        for (int i = 0; i < lanes; ++i) {
            const float* const line = lines.of[bits_of(number[i]) >> shift & 7];
            DMLGRAPH_UNROLL
            for (int k = 0; k < line_vectors; ++k) {
                vectors[k][i] = load(line + k * lanes);
            }
        }
        DMLGRAPH_UNROLL
        for (int k = 0; k < line_vectors; ++k) {
            transpose(vectors[k]);
        }
    }
    template <int term>
    DMLGRAPH_INLINE Vector get() const {
        return vectors[term / lanes][term % lanes];
    }
};
#endif

template <int term, class T>
DMLGRAPH_INLINE Vector polynomial_from(const T& terms, Vector distance) {
    if constexpr (term == terms_of_segments - 1) {
        return terms.template get<term>();
    } else {
        return product_sum(polynomial_from<term + 1>(terms, distance), distance, terms.template get<term>());
    }
}

// The function of a, which is not negative, and the segment of a whose number the bits from `shift` on of a + `offset`
// are.
template <int shift, const Segments& segments>
DMLGRAPH_INLINE Vector of_segments(float offset, Vector a) {
    const Terms<shift, segments> terms(sum(a, repeated(offset)));
    return polynomial_from<1>(terms, difference(a, terms.template get<0>()));
}

// An odd function, whose value is that of `last` beyond it. NaN stays NaN.
template <int shift, const Segments& segments>
DMLGRAPH_INLINE Vector odd_of_segments(float offset, float last, Vector x) {
    return with_sign(of_segments<shift, segments>(offset, lesser(repeated(last), magnitude(x))), x);
}

// Segments from 0 on, each ½ long (2^-24.2).
inline constexpr Segments erf_segments = {
    {0.0f, 0x1.7fff56p-1f, 0x1.400016p+0f, 0x1.c0029cp+0f, 0x1.1ffc88p+1f, 0x1.606f7ep+1f, 0x1.a46f8p+1f,
     0x1.d8788p+1f},
    {0.0f, 0x1.6c1c2ap-1f, 0x1.d88668p-1f, 0x1.f92d4ep-1f, 0x1.ff402ep-1f, 0x1.fff312p-1f, 0x1.ffff8ep-1f,
     0x1.fffffap-1f},
    {0x1.20dd76p+0f, 0x1.492ee6p-1f, 0x1.e464c8p-3f, 0x1.b045c4p-5f, 0x1.d44d54p-8f, 0x1.2dad0ep-11f, 0x1.86793ap-16f,
     0x1.6e8bfp-20f},
    {-0x1.71a78ap-18f, -0x1.edc55cp-2f, -0x1.2ebf2p-2f, -0x1.7a3f38p-4f, -0x1.076822p-6f, -0x1.9f519p-10f,
     -0x1.40a70cp-14f, -0x1.5240dap-18f},
    {-0x1.8108cep-2f, 0x1.b6e77ap-6f, 0x1.571cfp-3f, 0x1.7140d2p-4f, 0x1.64110ap-6f, 0x1.6409dp-9f, 0x1.4ee5d4p-13f,
     0x1.90c32ap-17f},
    {-0x1.0f3f68p-10f, 0x1.348d16p-3f, -0x1.922f9p-8f, -0x1.8a10c8p-5f, -0x1.38d364p-6f, -0x1.a4e4aep-9f,
     -0x1.f0094cp-13f, -0x1.555ffcp-16f},
    {0x1.e114b6p-4f, -0x1.b4cb98p-5f, -0x1.828758p-5f, 0x1.b1e44ap-8f, 0x1.5d62cp-7f, 0x1.64d86ap-9f, 0x1.11c73p-12f,
     0x1.c0076p-16f},
    {-0x1.58bf42p-7f, -0x1.b06e8p-6f, 0x1.52320cp-6f, 0x1.2850cep-7f, -0x1.6ce6e6p-9f, -0x1.b11ddap-10f,
     -0x1.e544cp-13f, -0x1.d92fb6p-16f},
    {-0x1.0d3fccp-6f, 0x1.342b5ep-6f, 0x1.ea19aap-9f, -0x1.84ad3ap-8f, -0x1.7d15fep-11f, 0x1.4cd5d6p-11f,
     0x1.6cc87p-13f, 0x1.472206p-16f},
};
DMLGRAPH_INLINE Vector erf(Vector x) { return odd_of_segments<20, erf_segments>(4.0f, 3.94f, x); }

// Segments from 1.25, 2.25, 3.25, 5.25, 7.25, 0, 0.25 and 0.75 on, as the numbers in the sums' bits have it (2^-24.8).
inline constexpr Segments tanh_segments = {
    {0x1.bfff9p+0f, 0x1.60023p+1f, 0x1.102188p+2f, 0x1.8b7bccp+2f, 0x1.0a2b24p+3f, 0.0f, 0x1.ffffd8p-2f,
     0x1.ffff6ep-1f},
    {0x1.e1fbep-1f, 0x1.fbd52ep-1f, 0x1.ffcae4p-1f, 0x1.fffeep-1f, 0x1.fffffcp-1f, 0.0f, 0x1.d9351ep-2f,
     0x1.85ef6ep-1f},
    {0x1.d22e2ep-4f, 0x1.099ea6p-6f, 0x1.a8c64cp-11f, 0x1.20034ap-16f, 0x1.ffeb04p-23f, 0x1p+0f, 0x1.92a956p-1f,
     0x1.ae0e7cp-2f},
    {-0x1.b6d72p-4f, -0x1.077532p-6f, -0x1.a8debcp-11f, -0x1.20272p-16f, -0x1.0005eap-22f, -0x1.48d6aep-25f,
     -0x1.74272p-2f, -0x1.47872ep-2f},
    {0x1.01b85cp-4f, 0x1.598b68p-7f, 0x1.1b08bp-11f, 0x1.7faa22p-17f, 0x1.5660d6p-23f, -0x1.555494p-2f, -0x1.81dd2ep-4f,
     0x1.a85ceap-4f},
    {-0x1.825096p-6f, -0x1.4e3056p-8f, -0x1.1757cep-12f, -0x1.7c171ap-18f, -0x1.545408p-24f, -0x1.2b35b6p-14f,
     0x1.51301ap-3f, 0x1.c67fdap-6f},
    {0x1.e7ec9ap-9f, 0x1.f3282ap-10f, 0x1.bd8e1ep-14f, 0x1.35d976p-19f, 0x1.03c41ep-25f, 0x1.12b1cap-3f,
     -0x1.bb9538p-6f, -0x1.7b8fcep-5f},
    {0x1.39505cp-9f, -0x1.1e1d5ep-11f, -0x1.53a3bap-15f, -0x1.d0e7b6p-21f, -0x1.86e42ap-27f, -0x1.171926p-8f,
     -0x1.94f85p-5f, 0x1.28f668p-6f},
    {-0x1.0ddb12p-9f, 0x1.a6a448p-14f, 0x1.7d9db6p-17f, 0x1.d0c98ap-23f, 0x1.37534p-28f, -0x1.6c247ap-5f,
     0x1.ac4602p-6f, 0x1.843b3ep-9f},
};
DMLGRAPH_INLINE Vector tanh(Vector x) { return odd_of_segments<22, tanh_segments>(0.75f, 9.1f, x); }

// 1 / (1 + e^-x) by e^-|x|, which does not overflow. `corrected` changes the exponent's rest, which has the sign of
// -|x|, where a mask tells that x is positive.
template <class Corrected>
DMLGRAPH_INLINE Vector sigmoid(Vector x, const Corrected& corrected) {
    const Vector positive = is_less(repeated(0.0f), x),
                 a = greater(repeated(-104.0f), with_sign(magnitude(x), repeated(-0.0f)));
    const Vector shifted = eighths_of(a), rest = corrected(exact_rest_of_eighths(a, eighths_in(shifted)), positive);
    const Vector t = times(power_of_eighths(shifted, rest), repeated(0x1p-64f));
    return quotient(selected(positive, repeated(1.0f), t), sum(repeated(1.0f), t));
}
DMLGRAPH_INLINE Vector sigmoid(Vector x) {
    return sigmoid(x, [](Vector rest, Vector) { return rest; });
}
// That of x + low.
DMLGRAPH_INLINE Vector sigmoid_of_sum(Vector x, Vector low) {
    return sigmoid(x, [&](Vector rest, Vector positive) {
        return sum(rest, selected(positive, difference(repeated(0.0f), low), low));
    });
}

// 2^-64 e^(a²/2) times the normal distribution's probability above a, in segments from 1, 2, 3, 5, 7, 11, 0 and 0.5 on
// (2^-23.7).
inline constexpr Segments gelu_segments = {
    {0x1.8p+0f, 0x1.4p+1f, 0x1p+2f, 0x1.8p+2f, 0x1.2p+3f, 0x1.ap+3f, 0x1p-2f, 0x1.8p-1f},
    {0x1.a57056p-67f, 0x1.217252p-67f, 0x1.82b4bcp-68f, 0x1.095608p-68f, 0x1.66ccb6p-69f, 0x1.f3ddc2p-70f,
     0x1.a7f808p-66f, 0x1.337024p-66f},
    {-0x1.71c04cp-68f, -0x1.75ab64p-69f, -0x1.5cf97cp-70f, -0x1.5068c2p-71f, -0x1.378122p-72f, -0x1.3012a8p-73f,
     -0x1.2e8652p-66f, -0x1.63e072p-67f},
    {0x1.203ff6p-69f, 0x1.bf3a9p-71f, 0x1.2dda7ep-72f, 0x1.a0f298p-74f, 0x1.0b70d2p-75f, 0x1.6fdd42p-77f,
     0x1.5c56acp-67f, 0x1.5bf5ap-68f},
    {-0x1.998014p-71f, -0x1.f6281cp-73f, -0x1.f6a4c8p-75f, -0x1.f9d004p-77f, -0x1.c63de2p-79f, -0x1.ba9284p-81f,
     -0x1.594e4p-68f, -0x1.2c81b2p-69f},
    {0x1.0d6278p-72f, 0x1.0a67ecp-74f, 0x1.93bce4p-77f, 0x1.2b5948p-79f, 0x1.7c4dep-82f, 0x1.0859f2p-84f,
     0x1.3102f4p-69f, 0x1.d9a0d2p-71f},
    {-0x1.4c0414p-74f, -0x1.0d98eep-76f, -0x1.3aad46p-79f, -0x1.5d4d48p-82f, -0x1.3c6264p-85f, -0x1.3a9b06p-88f,
     -0x1.ec3e4ap-71f, -0x1.576df4p-72f},
    {0x1.8aa96ep-76f, 0x1.18a4c6p-78f, 0x1.fa56bap-82f, 0x1.d3a4f4p-85f, 0x1.22021ap-88f, 0x1.910656p-92f,
     0x1.7f1416p-72f, 0x1.8c2d4p-75f},
    {-0x1.b0af7ep-78f, -0x1.0653f6p-80f, -0x1.715224p-84f, -0x1.0677dap-87f, -0x1.d8630cp-92f, -0x1.d8bdbep-96f,
     -0x1.d75f6ep-74f, 0x1.a092b8p-79f},
};

// x times the normal distribution's probability below x, which is computed from that above |x|: so it has few errors
// far below zero, where it ends in -0. That of -∞ is NaN. The rounding error of the square is corrected, because in the
// exponent it would be multiplied by the magnitude of the square.
DMLGRAPH_INLINE Vector gelu(Vector x) {
    const Vector outer = magnitude(lesser(repeated(14.99f), x));
    const Vector a = lesser(repeated(14.99f), outer);
    const Vector half = times(repeated(-0.5f), a), exponent = times(half, a);
    const Vector shifted = eighths_of(exponent);
    const Vector rest = sum(exact_rest_of_eighths(exponent, eighths_in(shifted)), error_of_product(half, a, exponent));
    const Vector above = times(power_of_eighths(shifted, rest), of_segments<22, gelu_segments>(1.0f, a));
    return difference(greater(repeated(-0.0f), x), times(outer, above));
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
