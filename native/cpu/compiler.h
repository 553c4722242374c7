// What compilers have different names for: GCC, Clang and MSVC, on x86-64 and ARM64. No other header or source under
// cpu/ asks which compiler it is.
//
// The functions are always inlined, since code compiled for several instruction-set levels includes this.
#pragma once

#include <cstdint>

#if defined(_MSC_VER)
#include <intrin.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#include <emmintrin.h>
#endif

// Before a loop of independent iterations.
#if defined(__clang__)
#define DMLGRAPH_LOOP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define DMLGRAPH_LOOP _Pragma("GCC ivdep")
#elif defined(_MSC_VER)
#define DMLGRAPH_LOOP __pragma(loop(ivdep))
#endif

// Before a loop with few iterations, whose number is known: it becomes as many copies of its body.
#if defined(__clang__)
#define DMLGRAPH_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define DMLGRAPH_UNROLL _Pragma("GCC unroll 16")
#else
#define DMLGRAPH_UNROLL
#endif

// Whether labels are values, so that each operation of an interpreter can jump to the next one itself: processors
// foresee such jumps better than those from a single place.
#if defined(__GNUC__) && !defined(_MSC_VER)
#define DMLGRAPH_LABELS 1
#define DMLGRAPH_ADDRESS_OF_LABEL(label) &&label
#define DMLGRAPH_JUMP(address) goto* address
#endif

// What is large and called by many kernels is compiled once, not into each of them.
#ifdef _MSC_VER
#define DMLGRAPH_INLINE __forceinline
#define DMLGRAPH_ONCE __declspec(noinline)
#else
#define DMLGRAPH_INLINE inline __attribute__((always_inline))
#define DMLGRAPH_ONCE __attribute__((noinline))
#endif

// A type of 16 bytes of numbers of this type, with their arithmetic: on processors other than x86-64 and ARM64.
#if defined(__GNUC__)
#define DMLGRAPH_VECTOR_OF(Type) Type __attribute__((vector_size(16)))
#endif

#if defined(__x86_64__) || defined(_M_X64)
#define DMLGRAPH_X86 1
#endif

// Whether fmaf and fma, and rintf, truncf and floorf, are single instructions. MSVC has no macros of its own for these.
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || (defined(_MSC_VER) && (defined(__AVX2__) || defined(_M_ARM64)))
#define DMLGRAPH_FMA 1
#endif
#if defined(__SSE4_1__) || defined(__aarch64__) || (defined(_MSC_VER) && (defined(__AVX2__) || defined(_M_ARM64)))
#define DMLGRAPH_ROUNDS 1
#endif

namespace dmlgraph::cpu {

// The number x itself, for what is computed of it where this is called: Clang moves that in front of the loops around
// it, even where few of their iterations need it.
template <class T>
static DMLGRAPH_INLINE T in_place(T x) {
#if defined(__GNUC__)
    __asm__ volatile("" : "+r"(x));
#endif
    return x;
}

// Tells the processor that this thread waits in a loop.
static DMLGRAPH_INLINE void pause() {
#if defined(DMLGRAPH_X86)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#elif defined(_M_ARM64)
    __yield();
#endif
}

// Tells the processor that this memory is read soon.
static DMLGRAPH_INLINE void prefetch(const void* address) {
#if defined(__GNUC__)
    __builtin_prefetch(address);
#elif defined(DMLGRAPH_X86)
    _mm_prefetch(static_cast<const char*>(address), _MM_HINT_T0);
#elif defined(_M_ARM64)
    __prefetch(address);
#endif
}

// Tells the processor that this memory is written soon.
static DMLGRAPH_INLINE void prefetch_to_write(const void* address) {
#if defined(__GNUC__)
    __builtin_prefetch(address, 1);
#else
    prefetch(address);
#endif
}

#if defined(DMLGRAPH_X86)

// The vector x itself. GCC takes a sum of 32-bit integers for a variable beside the vector of 64-bit integers that it
// is made into, and a loop that adds to many of them copies and spills both. What comes out of here is one variable.
template <class V>
static DMLGRAPH_INLINE V in_register(V x) {
#if defined(__GNUC__) && !defined(__clang__)
    __asm__("" : "+v"(x));
#endif
    return x;
}

struct CpuidRegisters {
    std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// What CPUID says; zeros for a leaf that this processor does not have.
static DMLGRAPH_INLINE CpuidRegisters cpuid(std::uint32_t leaf, std::uint32_t subleaf = 0) {
    CpuidRegisters r;
#if defined(_MSC_VER)
    int out[4];
    __cpuid(out, static_cast<int>(leaf & 0x80000000u));  // the last leaf of this kind
    if (static_cast<std::uint32_t>(out[0]) >= leaf) {
        __cpuidex(out, static_cast<int>(leaf), static_cast<int>(subleaf));
        r = {static_cast<std::uint32_t>(out[0]), static_cast<std::uint32_t>(out[1]), static_cast<std::uint32_t>(out[2]),
             static_cast<std::uint32_t>(out[3])};
    }
#else
    __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
#endif
    return r;
}

// Which registers the operating system saves for a thread: XCR0.
static DMLGRAPH_INLINE std::uint64_t saved_state() {
#if defined(_MSC_VER)
    return _xgetbv(0);
#else
    std::uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return std::uint64_t{high} << 32 | low;
#endif
}

#endif

}  // namespace dmlgraph::cpu
