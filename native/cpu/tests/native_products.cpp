// Products at every instruction-set level, on memory of exactly the needed bytes: any sizes, strides and workers.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cpu/kernels/level.h"
#include "cpu/products/depthwise.h"
#include "cpu/products/direct.h"
#include "cpu/products/integer_depthwise.h"
#include "cpu/products/phases.h"
#include "cpu/products/product.h"
#include "cpu/products/small_words.h"
#include "cpu/products/windows.h"
#include "cpu/products/words.h"
#include "cpu/products/zero_points.h"
#include "cpu/tests/context.h"
#include "cpu/tests/random.h"
#include "cpu/tests/sanitizers.h"

namespace dmlgraph::cpu::tests {
namespace {

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
    const Panels packed_rows(rows, {0, {}, k, rows_of(product.sizes, kernels), false, &kernels});
    const Panels packed_columns(columns, {0, {}, k, columns_of(product.sizes, kernels), true, &kernels});
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

constexpr std::array<std::uint8_t, 4> extremes{0, 255, 128, 127};

// 8-bit integers with steps in elements, in a block of exactly their span.
struct Bytes {
    DataType type;
    std::int64_t line, depth;
    std::unique_ptr<std::uint8_t[]> numbers;
    std::vector<std::uint8_t> zeros;

    // `small`: numbers from −64 to 64, or from 64 to 192.
    Bytes(std::int64_t lines, std::int64_t depths, Random& random, bool small = false)
        : type(random.chance(50) ? DataType::int8 : DataType::uint8),
          zeros(random.chance(50) ? 1 : static_cast<std::size_t>(lines)) {
        const std::int64_t step = random.between(1, 3);
        const bool along = random.chance(50);
        line = along ? depths * step : step;
        depth = along ? step : lines * step;
        const auto size = static_cast<std::size_t>((lines - 1) * line + (depths - 1) * depth + 1);
        numbers.reset(new std::uint8_t[size]);
        const std::int64_t middle = type == DataType::int8 ? 0 : 128;
        const bool ends = random.chance(50);
        const auto any = [&] {
            return ends ? std::int64_t{extremes[static_cast<std::size_t>(random.between(0, 3))]}
                        : random.between(0, 255);
        };
        const auto any_small = [&] {
            return middle + (ends ? 128 * random.between(0, 1) - 64 : random.between(-64, 64));
        };
        std::generate_n(numbers.get(), size, [&] { return static_cast<std::uint8_t>(small ? any_small() : any()); });
        const bool extreme = random.chance(50);  // 0, 255, −128, 127
        std::ranges::generate(zeros, [&] {
            return extreme ? extremes[static_cast<std::size_t>(random.between(0, 3))]
                           : static_cast<std::uint8_t>(random.between(0, 255));
        });
    }
    std::int64_t number(std::uint8_t bits) const {
        return type == DataType::int8 ? static_cast<std::int8_t>(bits) : bits;
    }
    std::int64_t centred(std::int64_t i, std::int64_t k) const {
        const std::uint8_t zero = zeros[zeros.size() == 1 ? 0 : static_cast<std::size_t>(i)];
        return number(numbers[static_cast<std::size_t>(i * line + k * depth)]) - number(zero);
    }
    WordMatrices words(std::int64_t lines, std::int64_t depths, Lines side, const IntegerKernels& kernels,
                       RunContext* context) const {
        const MatrixPanels panels(reinterpret_cast<const std::byte*>(numbers.get()), type, {}, line, depth);
        return {panels, 0, {}, lines, depths, side, kernels, context};
    }
    ZeroPoints zero_points() const {
        return {reinterpret_cast<const std::byte*>(zeros.data()), type, 1, static_cast<std::int64_t>(zeros.size())};
    }
    ZeroPoints zero_points(Lines side, const IntegerKernels& kernels) const {
        return zero_points().less(form_of(type, side, kernels).shift);
    }
};

enum class Small : std::uint8_t { none, rows, columns };

void check_integers(std::int64_t m, std::int64_t k, std::int64_t n, Random& random, const ProductKernels& kernels,
                    Small small = Small::none) {
    const bool near = random.chance(50);  // else small words have many rests
    const Bytes a(m, k, random, near && small == Small::rows),
        b(n, k, random, small == Small::columns);  // columns have no rests
    const IntegerKernels& integers = kernels.integers;
    const int workers = static_cast<int>(random.between(1, 3));
    Context converting(0, workers);
    RunContext* const shared = random.chance(50) ? &converting.get() : nullptr;
    const WordMatrices row_words = a.words(m, k, Lines::rows, integers, shared);
    const WordMatrices column_words = b.words(n, k, Lines::columns, integers, shared);
    const MatrixPanels &rows = row_words.panels(), &columns = column_words.panels();
    const ZeroPoints row_zeros = a.zero_points(Lines::rows, integers),
                     column_zeros = b.zero_points(Lines::columns, integers);
    const LineSums row_sums = row_words.sums(), column_sums = column_words.sums();
    const ZeroPointTerms terms({row_zeros, column_zeros.all_zero() ? nullptr : &row_sums},
                               {column_zeros, row_zeros.all_zero() ? nullptr : &column_sums}, k, integers);
    const Epilogue epilogue({}, DataType::int32, 2, DataType::int32);
    Product product;
    product.sums = DataType::int32;
    product.sizes.m = m, product.sizes.n = n, product.sizes.k = (k + integers.depths - 1) / integers.depths;
    product.target.correction = &terms;
    product.target.epilogue = &epilogue;
    product.kernels = &kernels;
    const Panels packed_rows(rows, {0, {}, product.sizes.k, rows_of(product.sizes, product.tiles()), false, &kernels});
    const Division division = columns_of(product.sizes, product.tiles());
    const Panels packed_columns(columns, {0, {}, product.sizes.k, division, true, &kernels, random.chance(50)});
    product.a = {random.chance(50) ? &packed_rows : nullptr, &rows, &rows};
    product.b = {random.chance(50) ? &packed_columns : nullptr, &columns, &columns};
    const Division lines = small == Small::rows ? rows_of(product.sizes, product.tiles()) : division;
    Rests rests({}, lines.width, product.sizes.k, integers.words_together);
    Panels small_panels;
    if (small != Small::none) {
        const MatrixPanels& source = small == Small::rows ? rows : columns;
        Side& side = small == Small::rows ? product.a : product.b;
        small_panels =
            Panels(SmallWords(source, rests), {0, {}, product.sizes.k, lines, small == Small::columns, &kernels});
        side.panels = &small_panels;
        side.rests = rests.empty() ? nullptr : &rests;
    }
    const std::unique_ptr<std::int32_t[]> out(new std::int32_t[static_cast<std::size_t>(m * n)]);
    product.target.out.data = reinterpret_cast<std::byte*>(out.get());
    product.target.out.type = DataType::int32;
    product.target.out.row = n * item;
    product.target.out.sizes[0] = n;
    product.target.out.strides[0] = item;
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

// The element of a window at a tap, or what is beyond the tensor.
float element(const std::vector<float>& x, const Spatial& sizes, const Windows& windows, std::int64_t channel,
              const Spatial& window, const Spatial& tap, float border = 0) {
    std::int64_t index = channel;
    for (std::size_t d = 0; d < most_spatial; ++d) {
        const std::int64_t at = window[d] * windows.strides[d] + tap[d] * windows.dilations[d] - windows.padding[d];
        if (at < 0 || at >= sizes[d]) {
            return border;
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
    const float border = random.chance(50) ? 0.0f : 7.0f;
    panels.border = std::bit_cast<std::uint32_t>(border);
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
                    i < lines ? element(x, sizes, windows, channel, place(first + i, windows.counts), tap, border)
                              : 0.0f;
                right = right && (i >= lines || out[static_cast<std::size_t>(k * width + i)] == expected);
            }
        }
        CHECK_MESSAGE(right, "a panel has the elements of its windows");
    }
}

// A packed tensor.
Tensor tensor_of(const void* data, DataType type, std::initializer_list<std::int64_t> sizes) {
    Tensor result{const_cast<std::byte*>(static_cast<const std::byte*>(data)),
                  type,
                  static_cast<std::uint8_t>(sizes.size()),
                  {},
                  {}};
    std::ranges::copy(sizes, result.sizes.begin());
    auto step = static_cast<std::int64_t>(item_size(type));
    for (int d = result.rank - 1; d >= 0; step *= result.sizes[d--]) {
        result.strides[d] = step;
    }
    return result;
}

// A convolution of one image, with the kernels of a level.
Convolution convolution_of(const Windows& windows, const Spatial& sizes, std::int64_t groups, std::int64_t outputs,
                           const Epilogue& epilogue, const Level& level) {
    Convolution result;
    result.groups = groups;
    result.outputs = outputs;
    result.sizes = sizes;
    result.phase.windows = windows;
    result.epilogue = &epilogue;
    result.kernels = level.products;
    result.planes = &level.convolution;
    result.blocks = &level.channel_block;
    return result;
}

// With filters that are packed before, or not.
template <class Method>
void run_method(const Convolution& convolution, ConvolutionRun run, Random& random) {
    const Method method(convolution);
    Context context(method.scratch_bytes(), static_cast<int>(random.between(1, 3)));
    const std::shared_ptr<const Weights> packed = method.pack(context.get(), run.filters, run.filter_zeros);
    run.weights = random.chance(50) ? packed.get() : nullptr;
    method.run(context.get(), run);
}

std::vector<float> whole_numbers(std::int64_t count, Random& random) {
    std::vector<float> result(static_cast<std::size_t>(count));
    std::ranges::generate(result, [&] { return static_cast<float>(random.between(-9, 9)); });
    return result;
}

void check_depthwise(Random& random, const Level& level) {
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
    const Epilogue epilogue;
    const std::int64_t count = windows.count();
    const std::unique_ptr<float[]> out(new float[static_cast<std::size_t>(groups * outputs * count)]);
    ConvolutionRun run;
    run.input = tensor_of(exact.get(), DataType::float32, {1, groups, 1, sizes[1], sizes[2]});
    run.filters = tensor_of(numbers.data(), DataType::float32, {groups * outputs, 1, windows.taps[1], windows.taps[2]});
    run.target.epilogue = &epilogue;
    MatrixTensor& result = run.target.out;
    result.data = reinterpret_cast<std::byte*>(out.get());
    result.type = DataType::float32;
    result.row = count * item;
    result.batch = {0, outputs * count * item};
    result.sizes[0] = count;
    result.strides[0] = item;
    run_method<Depthwise>(convolution_of(windows, sizes, groups, outputs, epilogue, level), run, random);
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

// Windows over elements of these sizes, in one to three dimensions.
Windows any_windows(Spatial& sizes, Random& random) {
    Windows windows;
    const bool long_rows = random.chance(15);
    for (std::size_t d = random.chance(30) ? 0 : 1; d < most_spatial; ++d) {
        const std::int64_t most = d == 0 ? 3 : long_rows ? (d == 2 ? 2500 : 3) : 30;
        windows.taps[d] = random.between(1, 4);
        windows.strides[d] = random.between(1, 4);
        windows.dilations[d] = random.chance(20) ? random.between(1, 9) : 1;
        windows.padding[d] = random.between(0, 6);
        sizes[d] = random.between(1, most);
        windows.counts[d] = random.between(1, most);
    }
    windows.mirrored = random.chance(30);
    return windows;
}

// A function of a sum as an instruction, and what it gives. The attributes are such that results of whole numbers are
// exact.
struct Last {
    Opcode opcode;
    std::vector<Immediate> immediates;
    float (*of)(float x);
};

float unit(float x) { return std::clamp(x, 0.0f, 1.0f); }

const std::vector<Last> lasts{
    {Opcode::RELU, {}, [](float x) { return std::max(x, 0.0f); }},
    {Opcode::THRESHOLD, {{.f = -2.0}}, [](float x) { return std::max(x, -2.0f); }},
    {Opcode::CLIP, {{.f = -3.0}, {.f = 6.0}}, [](float x) { return std::clamp(x, -3.0f, 6.0f); }},
    {Opcode::LEAKY_RELU, {{.f = 0.25}}, [](float x) { return x < 0 ? x / 4 : x; }},
    {Opcode::LEAKY_RELU, {{.f = 2.0}}, [](float x) { return x < 0 ? x * 2 : x; }},
    {Opcode::HARD_SIGMOID, {{.f = 0.125}, {.f = 0.5}}, [](float x) { return unit(x / 8 + 0.5f); }},
    {Opcode::HARD_SWISH, {{.f = 0.125}, {.f = 0.5}}, [](float x) { return x * unit(x / 8 + 0.5f); }},
    {Opcode::NEGATE, {}, [](float x) { return -x; }},
};

// What follows the sums: a bias, which is operand 2, a tensor, which is operand 3, a function, and something else.
struct Following {
    bool adds;
    bool adds_others;
    const Last* last;
    bool later;

    explicit Following(Random& random)
        : adds(random.chance(60)),
          adds_others(random.chance(50)),
          last(random.chance(70)
                   ? &lasts[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(lasts.size()) - 1))]
                   : nullptr),
          later(random.chance(20)) {}

    std::vector<InstructionSpec> code() const {
        std::vector<InstructionSpec> result;
        const auto before = [&] {
            return static_cast<std::int16_t>(result.empty() ? 0 : ~static_cast<int>(result.size() - 1));
        };
        const auto follow = [&](bool is_there, Opcode opcode, std::vector<std::int16_t> operands,
                                std::vector<Immediate> immediates = {}) {
            if (is_there) {
                const Kernel kernel = find_kernel(opcode, DataType::float32, DataType::float32);
                result.push_back(
                    {opcode, DataType::float32, DataType::float32, kernel, std::move(operands), std::move(immediates)});
            }
        };
        follow(adds, Opcode::ADD, {0, 2});
        follow(adds_others, Opcode::ADD, {before(), 3});
        if (last != nullptr) {
            follow(true, last->opcode, {before()}, last->immediates);
        }
        follow(later, Opcode::NEGATE, {before()});
        return result;
    }

    float of(float sum, float bias, float other) const {
        sum += adds ? bias : 0.0f;
        sum += adds_others ? other : 0.0f;
        sum = last == nullptr ? sum : last->of(sum);
        return later ? -sum : sum;
    }
};

// A tensor of rows with `count` elements; steps in bytes.
MatrixTensor rows_at(const float* data, std::int64_t count, std::int64_t item_step, std::int64_t row,
                     std::array<std::int64_t, 2> batch) {
    MatrixTensor result;
    result.data = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(data));
    result.type = DataType::float32;
    result.row = row;
    result.batch = {batch[0], batch[1]};
    result.sizes[0] = count;
    result.strides[0] = item_step;
    return result;
}

// A convolution of whole numbers, whose sums are exact: in place or elsewhere, with and without an ending, for filters
// that are packed before all runs or during each.
void check_direct(Random& random, const Level& level) {
    Spatial sizes{1, 1, 1};
    const Windows windows = any_windows(sizes, random);
    const std::int64_t batch = random.between(1, 2), groups = random.between(1, 2), taps = windows.tap_count();
    const std::int64_t channels = random.between(1, random.chance(20) ? 60 : 5);
    const std::int64_t outputs = random.between(1, random.chance(30) ? 70 : 12);
    const std::int64_t elements = sizes[0] * sizes[1] * sizes[2], count = windows.count();
    const std::vector<float> x = whole_numbers(batch * groups * channels * elements, random);
    const std::unique_ptr<float[]> exact(new float[x.size()]);
    std::memcpy(exact.get(), x.data(), x.size() * sizeof(float));
    const std::vector<float> numbers = whole_numbers(groups * outputs * channels * taps, random);
    const std::vector<float> bias = whole_numbers(groups * outputs, random);
    const std::vector<float> others = whole_numbers(batch * groups * outputs * count, random);
    const Following following(random);
    const Epilogue epilogue(following.code(), DataType::float32, 4);
    const std::int64_t step = random.chance(30) ? 2 : 1;  // 2: the results do not lie side by side
    std::vector<float> out(static_cast<std::size_t>(batch * groups * outputs * count * step), 1000.0f);
    const auto matrix = [&](const float* data, std::int64_t item_step, std::int64_t row, std::int64_t first) {
        return rows_at(data, count, item_step, row, {first * groups, outputs * row});
    };
    const std::int64_t row = count * step * item;
    Convolution convolution = convolution_of(windows, sizes, groups, outputs, epilogue, level);
    convolution.batch = batch;
    convolution.channels = channels;
    convolution.operands = 2;
    ConvolutionRun run;
    run.input = tensor_of(exact.get(), DataType::float32, {batch, groups, channels, sizes[0], sizes[1], sizes[2]});
    run.filters = tensor_of(numbers.data(), DataType::float32,
                            {groups * outputs, channels, windows.taps[0], windows.taps[1], windows.taps[2]});
    run.target = {matrix(out.data(), step * item, row, outputs * row),
                  {matrix(bias.data(), 0, item, 0), matrix(others.data(), item, count * item, outputs * count * item)},
                  &epilogue,
                  nullptr};
    run_method<Direct>(convolution, run, random);
    bool right = true;
    for (std::int64_t i = 0; i < batch * groups * outputs * count; ++i) {
        const std::int64_t output = i / count % (groups * outputs), group = output / outputs,
                           of = i / count / (groups * outputs);
        float sum = 0;
        for (std::int64_t k = 0; k < channels * taps; ++k) {
            const std::int64_t channel = (of * groups + group) * channels + k / taps;
            sum += numbers[static_cast<std::size_t>(output * channels * taps + k)] *
                   element(x, sizes, windows, channel, place(i % count, windows.counts), windows.tap(k % taps));
        }
        const float added =
            following.of(sum, bias[static_cast<std::size_t>(output)], others[static_cast<std::size_t>(i)]);
        right = right && out[static_cast<std::size_t>(i * step)] == added;
    }
    CHECK_MESSAGE(right, "every number is the sum over the channels and taps");
    for (std::size_t i = 1; step == 2 && i < out.size(); i += 2) {
        right = right && out[i] == 1000.0f;
    }
    CHECK_MESSAGE(right, "nothing between the results is written");
}

// Rows of elements that lie any number of bytes apart, with zeros beside them.
void check_planes(Random& random, const ConvolutionKernels& kernels) {
    const std::int64_t count = random.between(1, 70), begin = random.between(0, count),
                       end = random.between(begin, count);
    const std::int64_t rows = random.between(1, 4), step = random.between(1, 5), pitch = count + random.between(0, 3);
    const std::int64_t row = std::max<std::int64_t>(1, (end - begin - 1) * step + 1);
    const std::vector<float> x = whole_numbers(rows * row, random);
    const std::unique_ptr<float[]> exact(new float[x.size()]);
    const std::unique_ptr<std::uint16_t[]> halves(new std::uint16_t[x.size()]);
    std::memcpy(exact.get(), x.data(), x.size() * sizeof(float));
    const bool half = random.chance(40);
    for (std::size_t i = 0; i < x.size(); ++i) {
        halves[i] = static_cast<std::uint16_t>(0x3c00 + 16 * (x[i] + 9));  // 1 + (x + 9) / 64
    }
    const std::int64_t bytes = half ? 2 : item;
    std::vector<float> out(static_cast<std::size_t>(rows * pitch + kernels.lanes), 1000.0f);
    const std::byte* const in =
        half ? reinterpret_cast<const std::byte*>(halves.get()) : reinterpret_cast<const std::byte*>(exact.get());
    (half ? kernels.half_plane
          : kernels.plane)({out.data(), pitch, in, row * bytes, step * bytes, rows, count, begin, end});
    bool right = true;
    for (std::int64_t i = 0; i < rows * count; ++i) {
        const std::int64_t at = i % count;
        float expected = 0;
        if (at >= begin && at < end) {
            expected = x[static_cast<std::size_t>(i / count * row + (at - begin) * step)];
            expected = half ? 1 + (expected + 9) / 64 : expected;
        }
        right = right && out[static_cast<std::size_t>(i / count * pitch + at)] == expected;
    }
    CHECK_MESSAGE(right, "a row has its elements, and zeros beside them");
}

void check_integer_depthwise(Random& random, const ProductKernels& kernels) {
    Windows windows;
    Spatial sizes{1, 1, 1};
    const bool same = random.chance(50);  // as many windows as elements, up to the stride
    for (std::size_t d = 1; d < most_spatial; ++d) {
        windows.taps[d] = random.between(1, 9);
        windows.strides[d] = random.between(1, 3);
        windows.dilations[d] = random.between(1, 3);
        windows.padding[d] = random.between(0, 5);
        windows.counts[d] = random.between(1, d == 2 && random.chance(20) ? 900 : 40);
        sizes[d] = same ? windows.counts[d] * windows.strides[d] : random.between(1, 40);
    }
    windows.mirrored = random.chance(30);
    const std::int64_t groups = random.between(1, 3), outputs = random.between(1, 2), taps = windows.tap_count();
    const Bytes x(groups * sizes[1], sizes[2], random), weights(groups * outputs, taps, random);
    ConvolutionRun run;
    run.input = {reinterpret_cast<std::byte*>(x.numbers.get()),
                 x.type,
                 5,
                 {1, groups, 1, sizes[1], sizes[2]},
                 {0, sizes[1] * x.line, 0, x.line, x.depth}};
    run.filters = {reinterpret_cast<std::byte*>(weights.numbers.get()),
                   weights.type,
                   3,
                   {groups * outputs, 1, taps},
                   {weights.line, 0, weights.depth}};
    const ZeroPoints input_zeros = x.zero_points(), filter_zeros = weights.zero_points();
    run.input_zeros = &input_zeros, run.filter_zeros = &filter_zeros;
    const Epilogue epilogue({}, DataType::int32, 2, DataType::int32);
    const std::int64_t count = windows.count();
    const std::unique_ptr<std::int32_t[]> out(new std::int32_t[static_cast<std::size_t>(groups * outputs * count)]);
    const std::int64_t zero = x.number(x.zeros[0]);
    run.target.epilogue = &epilogue;
    MatrixTensor& result = run.target.out;
    result.data = reinterpret_cast<std::byte*>(out.get());
    result.type = DataType::int32;
    result.row = count * item;
    result.batch = {0, outputs * count * item};
    result.sizes[0] = count;
    result.strides[0] = item;
    Convolution convolution = convolution_of(windows, sizes, groups, outputs, epilogue, levels().front());
    convolution.sums = DataType::int32;
    convolution.kernels = &kernels;
    run_method<IntegerDepthwise>(convolution, run, random);
    std::vector<float> numbers;
    for (std::int64_t i = 0; i < groups * sizes[1] * sizes[2]; ++i) {
        const std::uint8_t byte = x.numbers[static_cast<std::size_t>(i / sizes[2] * x.line + i % sizes[2] * x.depth)];
        numbers.push_back(static_cast<float>(x.number(byte) - zero));
    }
    bool right = true;
    for (std::int64_t i = 0; i < groups * outputs * count; ++i) {
        std::int64_t sum = 0;
        for (std::int64_t t = 0; t < taps; ++t) {
            const float number =
                element(numbers, sizes, windows, i / count / outputs, place(i % count, windows.counts), windows.tap(t));
            sum += weights.centred(i / count, t) * static_cast<std::int64_t>(number);
        }
        right = right && out[static_cast<std::size_t>(i)] == static_cast<std::int32_t>(sum);
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
        std::vector<std::vector<std::int64_t>> expected(
            static_cast<std::size_t>(windows.counts[d]));  // element · taps + tap
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
        CHECK_MESSAGE(std::ranges::all_of(covered, [](int times) { return times == 1; }),
                      "every output is in one phase");
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
        check_empty(random, *chosen_level().products);
    }
}

TEST_CASE("products at every level") {
    Random random(3);
    for (const Level& level : levels()) {
        INFO(level.name);
        const ProductKernels& kernels = *level.products;
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
    for (const Level& level : levels()) {
        INFO(level.name);
        ProductKernels common = *level.products;
        common.integers = level.integers;
        for (const ProductKernels* const kernels : {level.products, static_cast<const ProductKernels*>(&common)}) {
            for (int rows = 1; rows <= kernels->rows + 1; ++rows) {
                check_integers(rows, random.between(1, 9), random.between(1, 70), random, *kernels);
            }
            for (const std::int64_t k : {639, 640, 641, 1279, 1280, 1281, 2601}) {
                check_integers(random.between(1, 30), k, random.between(1, 40), random, *kernels);
            }
            for (int i = 0; i < (watches_threads ? 5 : 20); ++i) {
                check_integers(random.between(1, 200), random.between(1, 20), random.between(1, 200), random, *kernels);
                check_integers(random.between(1, 30), random.between(1, 600), random.between(1, 30), random, *kernels);
            }
            for (int i = 0; i < (watches_threads ? 10 : 60); ++i) {
                check_integer_depthwise(random, *kernels);
            }
        }
    }
}

TEST_CASE("products of small weights at every level") {
    Random random(8);
    for (const Level& level : levels()) {
        INFO(level.name);
        const PairKernels* const pairs = level.pairs;
        for (int i = 0; pairs != nullptr && i < (watches_threads ? 10 : 60); ++i) {
            check_integers(random.between(1, 100), random.between(1, 700), random.between(1, 60), random,
                           pairs->small_rows, Small::rows);
            check_integers(random.between(1, 100), random.between(1, 700), random.between(1, 60), random,
                           pairs->small_columns, Small::columns);
        }
    }
}

TEST_CASE("weights that are not small have rests") {
    const auto has_rest = [](const std::array<std::int8_t, 4>& word) {
        Rests rests({}, 1, 1, 1);
        auto number = std::bit_cast<std::uint32_t>(word);
        rests.take(1, 1, &number);
        return !rests.empty();
    };
    CHECK(!has_rest({64, 64, -64, -64}));
    CHECK(!has_rest({127, 1, -128, 0}));
    CHECK(!has_rest({127, -128, -128, 127}));
    CHECK(!has_rest({1, 127, 127, -1}));
    CHECK(has_rest({65, 64, 0, 0}));
    CHECK(has_rest({0, 0, 127, 2}));
    CHECK(has_rest({0, 0, -128, -1}));
    CHECK(has_rest({-64, -65, 0, 0}));
}

TEST_CASE("small words and their rests are the words, and have sums of 16 bits") {
    using Word = std::array<std::int8_t, 4>;
    const auto fits = [](std::initializer_list<Word> words) {
        for (const std::size_t pair : {0, 2}) {
            int above = 0, below = 0;
            for (const Word& word : words) {
                for (const std::size_t k : {pair, pair + 1}) {
                    (word[k] > 0 ? above : below) += word[k];
                }
            }
            if (above > 128 || below < -128) {
                return false;
            }
        }
        return true;
    };
    Random random(9);
    for (int i = 0; i < 200; ++i) {
        const std::int64_t lines = random.between(1, 6), depth = random.between(1, 700), size = lines * depth;
        const int deviation = static_cast<int>(random.between(1, 255));
        std::vector<std::uint32_t> words(static_cast<std::size_t>(size));
        for (std::uint32_t& each : words) {
            Word word;
            std::ranges::generate(word, [&] {
                return static_cast<std::int8_t>(
                    std::clamp<std::int64_t>(random.between(-deviation, deviation), -128, 127));
            });
            each = std::bit_cast<std::uint32_t>(word);
        }
        std::vector<std::uint32_t> small = words;
        Rests rests({}, lines, depth, 2);
        rests.take(lines, lines, small.data());
        const std::int64_t each = depth_at_a_time(depth);
        bool right = true;
        for (std::int64_t k = 0; k < depth; k += 2) {
            for (std::int64_t line = 0; line < lines; ++line) {
                const std::uint32_t* const first = small.data() + k * lines + line;
                right = right && fits({std::bit_cast<Word>(first[0]),
                                       k + 1 < depth ? std::bit_cast<Word>(first[lines]) : Word{}});
            }
        }
        for (std::int64_t from = 0; from < depth; from += each) {
            const RestDepths found = rests.of({}, 0, from);
            for (std::int64_t r = 0; r < found.count * lines; ++r) {
                right = right && fits({std::bit_cast<Word>(found.words[r])}) && from + found.depths[r] < depth;
            }
        }
        CHECK(right);
        rests.add_to({Sizes{}, 0, lines, 0, depth, lines}, small.data());
        CHECK(small == words);
    }
}

TEST_CASE("depthwise convolutions at every level") {
    Random random(5);
    for (const Level& level : levels()) {
        INFO(level.name);
        for (int i = 0; i < (watches_threads ? 10 : 60); ++i) {
            check_depthwise(random, level);
        }
    }
}

TEST_CASE("convolutions from planes at every level") {
    Random random(8);
    for (const Level& level : levels()) {
        INFO(level.name);
        for (int i = 0; i < (watches_threads ? 15 : 120); ++i) {
            check_direct(random, level);
            check_planes(random, level.convolution);
        }
    }
}

TEST_CASE("windows at every level") {
    Random random(4);
    for (const Level& level : levels()) {
        INFO(level.name);
        for (int i = 0; i < 100; ++i) {
            check_windows(random, *level.products);
        }
    }
}

}  // namespace dmlgraph::cpu::tests
