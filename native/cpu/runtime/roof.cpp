#include "cpu/runtime/roof.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <vector>

#include "cpu/kernels/level.h"
#include "cpu/kernels/product.h"
#include "cpu/runtime/thread_pool.h"

namespace dmlgraph::cpu {
namespace {

constexpr int attempts = 8;                            // the quickest counts
constexpr std::int64_t rounds = 1 << 17;               // a few milliseconds
constexpr std::size_t copied = std::size_t{32} << 20;  // bytes; beyond most caches
constexpr std::size_t piece = std::size_t{256} << 10;

template <class Work>
double quickest(Work work) {
    double seconds = 1e9;
    for (int i = 0; i < attempts; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        work();
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
        seconds = std::min(seconds, std::max(passed.count(), 1e-9));
    }
    return seconds;
}

// The operations a second of all threads.
double computed(PeakKernel kernel, int threads) {
    std::vector<float> sums(static_cast<std::size_t>(threads));
    const double operations = kernel(rounds, sums.data());  // of a thread
    const double seconds = quickest([&] {
        run_parallel(threads, threads, [&](int, Chunks& chunks) {
            for (std::int64_t first, last; chunks.next(first, last);) {
                for (; first < last; ++first) {
                    kernel(rounds, &sums[static_cast<std::size_t>(first)]);
                }
            }
        });
    });
    return operations * threads / seconds;
}

}  // namespace

Roof measure_roof(int threads) {
    const ProductKernels& kernels = *chosen_level().products;
    std::vector<std::byte> from(copied, std::byte{1}), to(copied);
    const double copying = quickest([&] {
        run_parallel(copied / piece, threads, [&](int, Chunks& chunks) {
            for (std::int64_t first, last; chunks.next(first, last);) {
                const std::size_t offset = static_cast<std::size_t>(first) * piece;
                std::memcpy(&to[offset], &from[offset], static_cast<std::size_t>(last - first) * piece);
            }
        });
    });
    return {computed(kernels.peak, threads), computed(kernels.integers.peak, threads), 2.0 * copied / copying};
}

}  // namespace dmlgraph::cpu
