// Convolutions in blocks of channels at every instruction-set level, on memory of exactly the needed bytes.
#include <algorithm>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "cpu/kernels/level.h"
#include "cpu/products/channel_block.h"
#include "cpu/tests/context.h"
#include "cpu/tests/random.h"
#include "cpu/tests/sanitizers.h"

namespace dmlgraph::cpu::tests {
namespace {

constexpr std::int64_t item = sizeof(float);

// Whole numbers, so that sums are exact.
std::unique_ptr<float[]> whole_numbers(std::int64_t count, Random& random) {
    std::unique_ptr<float[]> result(new float[static_cast<std::size_t>(count)]);
    std::generate_n(result.get(), count, [&] { return static_cast<float>(random.between(-9, 9)); });
    return result;
}

Windows any_windows(Spatial& sizes, Random& random) {
    Windows windows;
    for (std::size_t d = random.chance(20) ? 2 : 1; d < most_spatial; ++d) {
        windows.taps[d] = random.between(1, 5);
        windows.strides[d] = random.between(1, 2);
        windows.dilations[d] = random.chance(20) ? random.between(1, 3) : 1;
        windows.padding[d] = random.between(0, 3);
        sizes[d] = random.between(1, 12);
        windows.counts[d] = random.between(1, 12);
    }
    return windows;
}

void check(Random& random, const Level& level) {
    Spatial sizes{1, 1, 1};
    const Windows windows = any_windows(sizes, random);
    const std::int64_t batch = random.between(1, 2), channels = random.between(1, 40), taps = windows.tap_count(),
                       count = windows.count();
    const std::int64_t elements = sizes[1] * sizes[2], gap = random.between(0, 2);
    const Epilogue epilogue;
    Convolution convolution;
    convolution.batch = batch;
    convolution.groups = channels;
    convolution.sizes = sizes;
    convolution.phase.windows = windows;
    convolution.epilogue = &epilogue;
    convolution.kernels = level.products;
    convolution.planes = &level.convolution;
    convolution.blocks = &level.channel_block;
    if (!BlockedDepthwise::fits(convolution)) {
        return;
    }
    const auto x = whole_numbers(batch * channels * elements, random), weights = whole_numbers(channels * taps, random);
    const std::int64_t row = count + gap;
    const std::unique_ptr<float[]> out(new float[static_cast<std::size_t>(batch * channels * row - gap)]);
    ConvolutionRun run;
    run.input = {reinterpret_cast<std::byte*>(x.get()),
                 DataType::float32,
                 5,
                 {batch, channels, 1, sizes[1], sizes[2]},
                 {channels * elements * item, elements * item, 0, sizes[2] * item, item}};
    run.filters = {reinterpret_cast<std::byte*>(weights.get()),
                   DataType::float32,
                   4,
                   {channels, 1, windows.taps[1], windows.taps[2]},
                   {taps * item, 0, windows.taps[2] * item, item}};
    run.target.epilogue = &epilogue;
    const BlockedDepthwise method(convolution);
    const std::shared_ptr<const Weights> packed = method.pack(RunContext(), run.filters, nullptr);
    run.weights = random.chance(50) ? packed.get() : nullptr;
    MatrixTensor& result = run.target.out;
    result.data = reinterpret_cast<std::byte*>(out.get());
    result.type = DataType::float32;
    result.batch = {channels * row * item, row * item};
    result.row = row * item;
    result.sizes[0] = count;
    result.strides[0] = item;
    Context context(method.scratch_bytes(), static_cast<int>(random.between(1, 3)));
    method.run(context.get(), run);
    bool right = true;
    for (std::int64_t i = 0; i < batch * channels * count; ++i) {
        const std::int64_t channel = i / count, window = i % count;
        float sum = 0;
        for (std::int64_t t = 0; t < taps; ++t) {
            const std::int64_t y = window / windows.counts[2] * windows.strides[1] +
                                   t / windows.taps[2] * windows.dilations[1] - windows.padding[1];
            const std::int64_t column = window % windows.counts[2] * windows.strides[2] +
                                        t % windows.taps[2] * windows.dilations[2] - windows.padding[2];
            if (y >= 0 && y < sizes[1] && column >= 0 && column < sizes[2]) {
                sum += weights[static_cast<std::size_t>(channel % channels * taps + t)] *
                       x[static_cast<std::size_t>(channel * elements + y * sizes[2] + column)];
            }
        }
        right = right && out[static_cast<std::size_t>(channel * row + window)] == sum;
    }
    CHECK_MESSAGE(right, "every number is the sum over the taps");
}

}  // namespace

TEST_CASE("blocks of channels at every level") {
    Random random(11);
    for (const Level& level : levels()) {
        INFO(level.name);
        for (int i = 0; i < (watches_threads ? 20 : 200); ++i) {
            check(random, level);
        }
    }
}

}  // namespace dmlgraph::cpu::tests
