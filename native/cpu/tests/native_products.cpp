// Products at every instruction-set level, on memory of exactly the needed bytes: any sizes, strides and workers.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cpu/products/depthwise.h"
#include "cpu/products/phases.h"
#include "cpu/products/product.h"
#include "cpu/products/windows.h"
#include "cpu/tests/random.h"
#include "cpu/tests/sanitizers.h"

namespace dmlgraph::cpu::tests {
namespace {

// A run, with scratch memory for each worker.
class Context {
public:
    Context(std::size_t scratch, int workers) {
        const std::size_t stride = (scratch + 63) / 64 * 64;
        memory_ = Memory(stride * static_cast<std::size_t>(workers));
        context_.scratch_base = memory_.get();
        context_.scratch_stride = stride;
        context_.workers = workers;
    }
    RunContext& get() { return context_; }

private:
    Memory memory_;
    RunContext context_;
};

// Numbers with steps in elements between the lines and along them, in a block of exactly their span. Whole numbers, so
// that sums are exact.
struct Matrix {
    std::int64_t row, column, size;
    std::unique_ptr<float[]> numbers;

    Matrix(std::int64_t rows, std::int64_t columns, Random& random) {
        const std::int64_t gap = random.between(0, 3);
        const bool transposed = random.chance(50), spaced = random.chance(20);
        const std::int64_t step = spaced ? 2 : 1;
        row = transposed ? step : columns * step + gap;
        column = transposed ? rows * step + gap : step;
        size = (rows - 1) * row + (columns - 1) * column + 1;
        numbers.reset(new float[static_cast<std::size_t>(size)]);
        for (std::int64_t i = 0; i < size; ++i) {
            numbers[static_cast<std::size_t>(i)] = static_cast<float>(random.between(-4, 4));
        }
    }
    float& at(std::int64_t i, std::int64_t j) const { return numbers[static_cast<std::size_t>(i * row + j * column)]; }
    std::byte* data() const { return reinterpret_cast<std::byte*>(numbers.get()); }
};

constexpr std::int64_t item = sizeof(float);

void check_product(std::int64_t m, std::int64_t k, std::int64_t n, Random& random, const ProductKernels& kernels) {
    const Matrix a(m, k, random), b(k, n, random);
    const MatrixPanels rows(a.data(), DataType::float32, {}, a.row * item, a.column * item);
    const MatrixPanels columns(b.data(), DataType::float32, {}, b.column * item, b.row * item);
    const Epilogue epilogue;
    Product product;
    product.sizes.m = m, product.sizes.n = n, product.sizes.k = k;
    product.target.epilogue = &epilogue;
    product.kernels = &kernels;
    const Panels packed_rows(rows, 0, {}, k, rows_of(product.sizes, kernels), false, kernels);
    const Panels packed_columns(columns, 0, {}, k, columns_of(product.sizes, kernels), true, kernels);
    product.a = {random.chance(50) ? &packed_rows : nullptr, &rows, &rows};
    product.b = {random.chance(50) ? &packed_columns : nullptr, &columns, &columns};
    for (const int workers : {1, 3}) {
        Matrix out(m, n, random);
        const std::vector<float> before(out.numbers.get(), out.numbers.get() + out.size);
        product.target.out.data = out.data();
        product.target.out.type = DataType::float32;
        product.target.out.row = out.row * item;
        product.target.out.sizes[0] = n;
        product.target.out.strides[0] = out.column * item;
        Context context(product_scratch(product.sizes, 0, epilogue, kernels), workers);
        run_product(context.get(), product);
        bool right = true;
        std::vector<bool> covered(before.size());
        for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
                float sum = 0;
                for (std::int64_t l = 0; l < k; ++l) {
                    sum += a.at(i, l) * b.at(l, j);
                }
                right = right && out.at(i, j) == sum;
                covered[static_cast<std::size_t>(i * out.row + j * out.column)] = true;
            }
        }
        CHECK_MESSAGE(right, "every number is the sum");
        for (std::size_t i = 0; i < before.size(); ++i) {
            right = right && (covered[i] || out.numbers[i] == before[i]);
        }
        CHECK_MESSAGE(right, "what lies between is untouched");
    }
}

// 8-bit integers with steps in elements, in a block of exactly their span.
struct Bytes {
    DataType type;
    std::int64_t line, depth;
    std::unique_ptr<std::uint8_t[]> numbers;
    std::vector<std::uint8_t> zeros;

    Bytes(std::int64_t lines, std::int64_t depths, Random& random)
        : type(random.chance(50) ? DataType::int8 : DataType::uint8), zeros(random.chance(50) ? 1 : static_cast<std::size_t>(lines)) {
        const std::int64_t step = random.between(1, 3);
        const bool along = random.chance(50);
        line = along ? depths * step : step;
        depth = along ? step : lines * step;
        const auto size = static_cast<std::size_t>((lines - 1) * line + (depths - 1) * depth + 1);
        numbers.reset(new std::uint8_t[size]);
        std::generate_n(numbers.get(), size, [&] { return static_cast<std::uint8_t>(random.between(0, 255)); });
        std::ranges::generate(zeros, [&] { return static_cast<std::uint8_t>(random.between(0, 255)); });
    }
    std::int64_t number(std::uint8_t bits) const { return type == DataType::int8 ? static_cast<std::int8_t>(bits) : bits; }
    std::int64_t centred(std::int64_t i, std::int64_t k) const {
        const std::uint8_t zero = zeros[zeros.size() == 1 ? 0 : static_cast<std::size_t>(i)];
        return number(numbers[static_cast<std::size_t>(i * line + k * depth)]) - number(zero);
    }
    MatrixPanels panels(std::int64_t depths) const {
        MatrixPanels result(reinterpret_cast<const std::byte*>(numbers.get()), type, {}, line, depth);
        result.depths = depths;
        result.zeros = ZeroPoints(reinterpret_cast<const std::byte*>(zeros.data()), type, 1, static_cast<std::int64_t>(zeros.size()));
        return result;
    }
};

void check_integers(std::int64_t m, std::int64_t k, std::int64_t n, Random& random, const ProductKernels& kernels) {
    const Bytes a(m, k, random), b(n, k, random);
    const MatrixPanels rows = a.panels(k), columns = b.panels(k);
    const Epilogue epilogue({}, DataType::int32, 2, DataType::int32);
    Product product;
    product.sums = DataType::int32;
    product.sizes.m = m, product.sizes.n = n, product.sizes.k = (k + 1) / 2;
    product.target.epilogue = &epilogue;
    product.kernels = &kernels;
    const Panels packed_rows(rows, 0, {}, product.sizes.k, rows_of(product.sizes, product.tiles()), false, kernels);
    const Panels packed_columns(columns, 0, {}, product.sizes.k, columns_of(product.sizes, product.tiles()), true, kernels);
    product.a = {random.chance(50) ? &packed_rows : nullptr, &rows, &rows};
    product.b = {random.chance(50) ? &packed_columns : nullptr, &columns, &columns};
    const std::unique_ptr<std::int32_t[]> out(new std::int32_t[static_cast<std::size_t>(m * n)]);
    product.target.out.data = reinterpret_cast<std::byte*>(out.get());
    product.target.out.type = DataType::int32;
    product.target.out.row = n * item;
    product.target.out.sizes[0] = n;
    product.target.out.strides[0] = item;
    const int workers = static_cast<int>(random.between(1, 3));
    Context context(product_scratch(product.sizes, 0, epilogue, product.tiles()), workers);
    run_product(context.get(), product);
    bool right = true;
    for (std::int64_t i = 0; i < m * n; ++i) {
        std::int64_t sum = 0;
        for (std::int64_t l = 0; l < k; ++l) {
            sum += a.centred(i / n, l) * b.centred(i % n, l);
        }
        right = right && out[static_cast<std::size_t>(i)] == static_cast<std::int32_t>(sum);
    }
    CHECK_MESSAGE(right, "every number is the sum of centred integers");
}

// The element of a window at a tap, or zero.
float element(const std::vector<float>& x, const Spatial& sizes, const Windows& windows, std::int64_t channel,
              const Spatial& window, const Spatial& tap) {
    std::int64_t index = channel;
    for (std::size_t d = 0; d < most_spatial; ++d) {
        const std::int64_t at = window[d] * windows.strides[d] + tap[d] * windows.dilations[d] - windows.padding[d];
        if (at < 0 || at >= sizes[d]) {
            return 0;
        }
        index = index * sizes[d] + at;
    }
    return x[static_cast<std::size_t>(index)];
}

Spatial place(std::int64_t index, const Spatial& sizes) {
    return {index / sizes[2] / sizes[1], index / sizes[2] % sizes[1], index % sizes[2]};
}

void check_windows(Random& random, const ProductKernels& kernels) {
    Windows windows;
    Spatial sizes{};
    for (std::size_t d = 0; d < most_spatial; ++d) {
        windows.taps[d] = random.between(1, 3);
        windows.strides[d] = random.between(1, 4);
        windows.dilations[d] = random.between(1, 2);
        windows.padding[d] = random.between(0, 3);
        sizes[d] = random.between(1, d == 2 ? 40 : 4);
        windows.counts[d] = random.between(1, d == 2 ? 40 : 3);  // more than fit: the others are all padding
    }
    windows.mirrored = random.chance(30);
    const std::int64_t channels = random.between(1, 5), taps = windows.tap_count(), depth = channels * taps;
    std::vector<float> x(static_cast<std::size_t>(channels * sizes[0] * sizes[1] * sizes[2]));
    for (float& each : x) {
        each = static_cast<float>(random.between(1, 99));
    }
    const std::unique_ptr<float[]> exact(new float[x.size()]);
    std::memcpy(exact.get(), x.data(), x.size() * sizeof(float));
    WindowPanels panels(windows, sizes, DataType::float32);
    panels.data = reinterpret_cast<const std::byte*>(exact.get());
    panels.strides = {sizes[1] * sizes[2] * item, sizes[2] * item, item};
    panels.channel = sizes[0] * panels.strides[0];
    const std::int64_t width = 2 * kernels.lanes;
    for (std::int64_t first = 0; first < windows.count(); first += width) {
        const std::int64_t lines = std::min(width, windows.count() - first);
        const std::int64_t from = random.between(0, depth - 1), count = random.between(1, depth - from);
        const std::unique_ptr<float[]> out(new float[static_cast<std::size_t>(count * width)]);
        panels.pack({{}, first, lines, from, count, width}, out.get(), kernels);
        bool right = true;
        for (std::int64_t k = 0; k < count; ++k) {
            const std::int64_t channel = (from + k) / taps, t = (from + k) % taps;
            const Spatial tap = place(windows.mirrored ? taps - 1 - t : t, windows.taps);
            for (std::int64_t i = 0; i < width; ++i) {
                const float expected =
                    i < lines ? element(x, sizes, windows, channel, place(first + i, windows.counts), tap) : 0.0f;
                right = right && out[static_cast<std::size_t>(k * width + i)] == expected;
            }
        }
        CHECK_MESSAGE(right, "a panel has the elements of its windows");
    }
}

// The filters of a depthwise convolution, one after the other.
class Filters final : public PanelSource {
public:
    explicit Filters(std::vector<float> numbers, std::int64_t outputs) : numbers_(std::move(numbers)), outputs_(outputs) {}
    void pack(const PanelPart& part, float* out, const ProductKernels&) const override {
        std::copy_n(numbers_.begin() + (part.batch[1] * outputs_ + part.first) * part.depth, part.depth, out);
    }

private:
    std::vector<float> numbers_;
    std::int64_t outputs_;
};

std::vector<float> whole_numbers(std::int64_t count, Random& random) {
    std::vector<float> result(static_cast<std::size_t>(count));
    std::ranges::generate(result, [&] { return static_cast<float>(random.between(-9, 9)); });
    return result;
}

void check_depthwise(Random& random, const ProductKernels& kernels) {
    Windows windows;
    Spatial sizes{1, 1, 1};
    for (std::size_t d = 1; d < most_spatial; ++d) {
        windows.taps[d] = random.between(1, 4);
        windows.strides[d] = random.between(1, 3);
        windows.dilations[d] = random.between(1, 3);
        windows.padding[d] = random.between(0, 3);
        sizes[d] = random.between(1, d == 2 && random.chance(20) ? 900 : 40);
        windows.counts[d] = random.between(1, d == 2 && random.chance(20) ? 900 : 40);
    }
    windows.mirrored = random.chance(30);
    const std::int64_t groups = random.between(1, 3), outputs = random.between(1, 2), taps = windows.tap_count();
    const std::vector<float> x = whole_numbers(groups * sizes[1] * sizes[2], random);
    const std::vector<float> numbers = whole_numbers(groups * outputs * taps, random);
    const std::unique_ptr<float[]> exact(new float[x.size()]);
    std::memcpy(exact.get(), x.data(), x.size() * sizeof(float));
    WindowPanels panels(windows, sizes, DataType::float32);
    panels.data = reinterpret_cast<const std::byte*>(exact.get());
    panels.strides = {0, sizes[2] * item, item};
    panels.batch = {0, sizes[1] * sizes[2] * item};
    const Filters filters(numbers, outputs);
    const Epilogue epilogue;
    const std::int64_t count = windows.count();
    const std::unique_ptr<float[]> out(new float[static_cast<std::size_t>(groups * outputs * count)]);
    Depthwise convolution{1, groups, outputs, &panels, &filters, {{}, {}, &epilogue, nullptr}, &kernels};
    MatrixTensor& result = convolution.target.out;
    result.data = reinterpret_cast<std::byte*>(out.get());
    result.type = DataType::float32;
    result.row = count * item;
    result.batch = {0, outputs * count * item};
    result.sizes[0] = count;
    result.strides[0] = item;
    const int workers = static_cast<int>(random.between(1, 3));
    Context context(depthwise_scratch(windows, 0, epilogue, kernels), workers);
    run_depthwise(context.get(), convolution);
    bool right = true;
    for (std::int64_t i = 0; i < groups * outputs * count; ++i) {
        float sum = 0;
        for (std::int64_t t = 0; t < taps; ++t) {
            const Spatial window = place(i % count, windows.counts);
            sum += numbers[static_cast<std::size_t>(i / count * taps + t)] *
                   element(x, sizes, windows, i / count / outputs, window, windows.tap(t));
        }
        right = right && out[static_cast<std::size_t>(i)] == sum;
    }
    CHECK_MESSAGE(right, "every number is the sum over the taps");
}

// Every output of a backward convolution is in one phase, whose windows meet just the elements and taps that add to it.
void check_phases(Random& random) {
    Windows windows;
    Spatial input{};
    for (std::size_t d = 0; d < most_spatial; ++d) {
        windows.taps[d] = random.between(1, 5);
        windows.strides[d] = random.between(1, 6);
        windows.dilations[d] = random.between(1, 4);
        windows.padding[d] = random.between(0, 4);
        windows.counts[d] = random.between(1, 12);
        input[d] = random.between(1, 6);
    }
    windows.mirrored = random.chance(50);
    for (std::size_t d = 0; d < most_spatial; ++d) {
        std::vector<std::vector<std::int64_t>> expected(static_cast<std::size_t>(windows.counts[d]));  // element · taps + tap
        std::vector<std::vector<std::int64_t>> found(expected.size());
        for (std::int64_t i = 0; i < input[d]; ++i) {
            for (std::int64_t k = 0; k < windows.taps[d]; ++k) {
                const std::int64_t at = i * windows.strides[d] + k * windows.dilations[d] - windows.padding[d];
                if (at >= 0 && at < windows.counts[d]) {
                    const std::int64_t tap = windows.mirrored ? windows.taps[d] - 1 - k : k;
                    expected[static_cast<std::size_t>(at)].push_back(i * windows.taps[d] + tap);
                }
            }
        }
        std::vector<int> covered(expected.size());
        for (const Phase& phase : backward_phases(windows, input)) {
            bool first = true;  // phases that differ along other dimensions alone are the same along this one
            for (std::size_t other = 0; other < most_spatial; ++other) {
                first = first && (other == d || phase.first[other] == 0);
            }
            for (std::int64_t o = 0; first && o < phase.windows.counts[d]; ++o) {
                const auto at = static_cast<std::size_t>(phase.first[d] + o * phase.step[d]);
                REQUIRE(at < found.size());
                ++covered[at];
                for (std::int64_t t = 0; t < phase.windows.taps[d]; ++t) {
                    const std::int64_t i = o + t * phase.windows.dilations[d] - phase.windows.padding[d];
                    if (i >= 0 && i < input[d]) {
                        found[at].push_back(i * windows.taps[d] + phase.first_tap[d] + t * phase.tap_step[d]);
                    }
                }
            }
        }
        for (auto* const each : {&expected, &found}) {
            for (auto& terms : *each) {
                std::ranges::sort(terms);
            }
        }
        CHECK_MESSAGE(std::ranges::all_of(covered, [](int times) { return times == 1; }), "every output is in one phase");
        CHECK_MESSAGE(found == expected, "the terms are those that the elements add");
    }
}

// Sums without terms are zero, in blocks that several workers share.
void check_empty(Random& random, const ProductKernels& kernels) {
    const Epilogue epilogue;
    Product product;
    product.sizes.m = random.between(1, 9), product.sizes.n = random.between(1, 1200), product.sizes.k = 0;
    product.target.epilogue = &epilogue;
    product.kernels = &kernels;
    const Matrix out(product.sizes.m, product.sizes.n, random);
    product.target.out.data = out.data();
    product.target.out.type = DataType::float32;
    product.target.out.row = out.row * item;
    product.target.out.sizes[0] = product.sizes.n;
    product.target.out.strides[0] = out.column * item;
    Context context(product_scratch(product.sizes, 0, epilogue, kernels), 3);
    run_product(context.get(), product);
    bool right = true;
    for (std::int64_t i = 0; i < product.sizes.m; ++i) {
        for (std::int64_t j = 0; j < product.sizes.n; ++j) {
            right = right && out.at(i, j) == 0;
        }
    }
    CHECK_MESSAGE(right, "every number is zero");
}

}  // namespace

TEST_CASE("phases of backward convolutions") {
    Random random(6);
    for (int i = 0; i < 200; ++i) {
        check_phases(random);
    }
    for (int i = 0; i < 20; ++i) {
        check_empty(random, product_kernels());
    }
}

TEST_CASE("products at every level") {
    Random random(3);
    for (const Level level : levels()) {
        INFO(level_name(level));
        const ProductKernels& kernels = product_kernels(level);
        for (int rows = 1; rows <= kernels.rows + 1; ++rows) {
            check_product(rows, random.between(1, 5), random.between(1, 70), random, kernels);
        }
        for (const std::int64_t k : {1, 319, 320, 321, 645}) {
            check_product(random.between(1, 30), k, random.between(1, 40), random, kernels);
        }
        for (int i = 0; i < (watches_threads ? 5 : 30); ++i) {
            check_product(random.between(1, 300), random.between(1, 20), random.between(1, 300), random, kernels);
        }
        check_product(700, 3, 900, random, kernels);
        for (const std::int64_t rows : {1, 2, 3, 4, 5}) {
            check_product(rows, 330, random.between(500, 1100), random, kernels);
        }
    }
}

TEST_CASE("products of integers at every level") {
    Random random(7);
    for (const Level level : levels()) {
        INFO(level_name(level));
        ProductKernels common = product_kernels(level);
        common.integers = common_integer_kernels(level);
        for (const ProductKernels* const kernels : {&product_kernels(level), static_cast<const ProductKernels*>(&common)}) {
            for (int rows = 1; rows <= kernels->rows + 1; ++rows) {
                check_integers(rows, random.between(1, 9), random.between(1, 70), random, *kernels);
            }
            for (const std::int64_t k : {639, 640, 641, 1300}) {
                check_integers(random.between(1, 30), k, random.between(1, 40), random, *kernels);
            }
            for (int i = 0; i < (watches_threads ? 5 : 20); ++i) {
                check_integers(random.between(1, 200), random.between(1, 20), random.between(1, 200), random, *kernels);
            }
        }
    }
}

TEST_CASE("depthwise convolutions at every level") {
    Random random(5);
    for (const Level level : levels()) {
        INFO(level_name(level));
        for (int i = 0; i < (watches_threads ? 10 : 60); ++i) {
            check_depthwise(random, product_kernels(level));
        }
    }
}

TEST_CASE("windows at every level") {
    Random random(4);
    for (const Level level : levels()) {
        INFO(level_name(level));
        for (int i = 0; i < 100; ++i) {
            check_windows(random, product_kernels(level));
        }
    }
}

}  // namespace dmlgraph::cpu::tests
