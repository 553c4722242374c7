// Pooling and resampling at every instruction-set level, on memory of exactly the needed bytes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "cpu/kernels/level.h"
#include "cpu/kernels/product.h"
#include "cpu/kernels/resampling.h"
#include "cpu/runtime/memory.h"
#include "cpu/tests/random.h"
#include "cpu/tests/sanitizers.h"
#include "cpu/windows/pooled_blocks.h"
#include "cpu/windows/pooling.h"

namespace dmlgraph::cpu::tests {
namespace {

constexpr std::int64_t item = sizeof(float);

// Numbers in a block of exactly their bytes.
template <class T>
class Exact {
public:
    explicit Exact(std::int64_t count) : numbers_(new T[static_cast<std::size_t>(count)]), count_(count) {}
    T* get() const { return numbers_.get(); }
    T& operator[](std::int64_t i) const { return numbers_[static_cast<std::size_t>(i)]; }
    std::int64_t count() const { return count_; }
    std::byte* bytes() const { return reinterpret_cast<std::byte*>(numbers_.get()); }

private:
    std::unique_ptr<T[]> numbers_;
    std::int64_t count_;
};

struct Kind {
    bool is_maximum;
    std::uint32_t power;
};

// Small whole numbers, which sums do not round; of the greatest ones there are several.
Exact<float> numbers(std::int64_t count, Random& random) {
    Exact<float> result(count);
    std::generate_n(result.get(), count, [&] { return static_cast<float>(random.between(-3, 3)); });
    return result;
}

Pooling random_pooling(Random& random, const Level& level, const Kind& kind) {
    Pooling pooling;
    Windows& windows = pooling.windows;
    for (std::size_t d = 0; d < most_spatial; ++d) {
        const std::int64_t longest = d == 0 ? 3 : d == 2 && random.chance(10) ? 2500 : 40;
        windows.taps[d] = random.between(1, d == 0 ? 2 : 5);
        windows.strides[d] = random.between(1, 3);
        windows.dilations[d] = random.between(1, 3);
        windows.padding[d] = random.between(0, 3);
        pooling.sizes[d] = random.between(1, longest);
        windows.counts[d] = random.between(1, longest);  // more than fit: the others are all padding
    }
    if (random.chance(50)) {  // a picture, as most poolings have it
        const std::int64_t taps = random.between(2, 3), stride = random.between(1, 4);
        windows.taps = {1, taps, taps}, windows.strides = {1, stride, stride}, windows.dilations = {1, 1, 1};
        pooling.sizes[0] = windows.counts[0] = 1;
        windows.padding[0] = 0;
    }
    pooling.type = DataType::float32;
    pooling.item = sizeof(float);
    pooling.power = kind.power;
    pooling.magnitudes = level.pooling.magnitudes;
    pooling.line = level.products->line;
    pooling.kernels = kind.is_maximum ? level.pooling.maxima(DataType::float32) : &level.pooling.sums;
    const float start = kind.is_maximum ? -100.0f : 0.0f;
    std::memcpy(pooling.start.data(), &start, sizeof(float));
    pooling.empty = pooling.start;
    return pooling;
}

struct Expected {
    float value;
    std::uint32_t where = no_index;
};

// The result of a window, tap by tap.
Expected expected(const Pooling& pooling, const Exact<float>& x, const Spatial& window, const Kind& kind) {
    Expected result{kind.is_maximum ? -100.0f : 0.0f};
    for (std::int64_t t = 0; t < pooling.windows.tap_count(); ++t) {
        const Spatial tap = pooling.windows.tap(t);
        std::int64_t index = 0;
        bool inside = true;
        for (std::size_t d = 0; d < most_spatial; ++d) {
            const std::int64_t at = window[d] * pooling.windows.strides[d] + tap[d] * pooling.windows.dilations[d] -
                                    pooling.windows.padding[d];
            inside = inside && at >= 0 && at < pooling.sizes[d];
            index = index * pooling.sizes[d] + at;
        }
        if (!inside) {
            continue;
        }
        const float number = x[index];
        if (!kind.is_maximum) {
            result.value += kind.power == 0 ? number : kind.power == 1 ? std::abs(number) : number * number;
        } else if (number > result.value) {
            result = {number, static_cast<std::uint32_t>(index)};
        }
    }
    return result;
}

Planes planes_of(const Pooling& pooling) {
    Planes planes;
    planes.strides = {pooling.sizes[1] * pooling.sizes[2] * item, pooling.sizes[2] * item, item};
    planes.row.type = DataType::float32;
    return planes;
}

void check_bands(Random& random, const Level& level, const Kind& kind, bool finds) {
    const Pooling pooling = random_pooling(random, level, kind);
    const Windows& windows = pooling.windows;
    const Exact<float> x = numbers(pooling.sizes[0] * pooling.sizes[1] * pooling.sizes[2], random);
    const Planes planes = planes_of(pooling);
    const Bands bands(pooling, finds);
    const Memory scratch(bands.scratch_bytes());
    bool right = true;
    std::int64_t results = 0;
    for (std::int64_t b = 0; b < bands.count(); ++b) {
        const BandPlace place = bands.at(b);
        const bool direct = bands.is_tight() && !finds && random.chance(50);
        const Exact<float> out(direct ? place.rows * place.columns : 1);
        Scratch parts(scratch.get());
        const BandResult got = bands.compute(place, planes, {x.bytes()}, direct ? out.bytes() : nullptr, parts);
        for (std::int64_t r = 0; r < place.rows; ++r) {
            for (std::int64_t c = 0; c < place.columns; ++c, ++results) {
                const Expected wanted = expected(pooling, x, {place.depth, place.top + r, place.left + c}, kind);
                const std::int64_t at = r * bands.pitch() + c;
                right = right && reinterpret_cast<const float*>(got.values)[at] == wanted.value;
                right = right && (!finds || got.where[at] == wanted.where);
            }
        }
    }
    CHECK_MESSAGE(right, "every number is that of its window");
    CHECK(results == windows.count());
}

void check_whole(Random& random, const Level& level, const Kind& kind) {
    Pooling pooling = random_pooling(random, level, kind);
    pooling.windows.counts = {1, 1, 1};
    pooling.windows.taps = {random.between(1, 2), random.between(1, 9), random.between(1, 3000)};
    const std::int64_t plane = pooling.sizes[0] * pooling.sizes[1] * pooling.sizes[2], count = random.between(1, 3);
    const Exact<float> x = numbers(plane * count, random);
    const Exact<float> out(count);
    const Memory scratch(whole_scratch());
    std::vector<Plane> planes;
    for (std::int64_t c = 0; c < count; ++c) {
        planes.push_back({x.bytes() + c * plane * item});
    }
    pool_whole(pooling, planes_of(pooling), planes, out.bytes(), scratch.get());
    for (std::int64_t c = 0; c < count; ++c) {
        Exact<float> one(plane);
        std::copy_n(x.get() + c * plane, plane, one.get());
        CHECK(out[c] == expected(pooling, one, {0, 0, 0}, kind).value);
    }
}

void check_blocks(Random& random, const Level& level, const Kind& kind) {
    Pooling pooling = random_pooling(random, level, kind);
    pooling.windows.taps[0] = pooling.windows.strides[0] = pooling.windows.counts[0] = pooling.sizes[0] = 1;
    pooling.windows.padding[0] = 0;
    for (std::size_t d = 1; d < most_spatial; ++d) {  // small ones
        pooling.windows.counts[d] = random.between(1, 15);
        pooling.sizes[d] = random.between(1, 20);
    }
    if (!PooledBlocks::pays(pooling, most_lanes, level)) {
        return;
    }
    const PooledBlocks blocks(pooling, level);
    const auto channels = static_cast<int>(random.between(1, blocks.channels_at_once()));
    const std::int64_t plane = pooling.sizes[1] * pooling.sizes[2], count = pooling.windows.count();
    const std::int64_t apart = plane + random.between(0, 2), step = count + random.between(0, 2);
    Planes planes = planes_of(pooling);
    planes.batch[1] = apart * item;
    const Memory scratch(blocks.scratch_bytes());
    blocks.prepare(Scratch(scratch.get()));
    bool right = blocks.reads(planes);
    for (int turn = 0; turn < 2; ++turn) {  // the second one finds the cells of the first
        const Exact<float> x = numbers(apart * (channels - 1) + plane, random), out(step * (channels - 1) + count);
        blocks.compute(planes, x.bytes(), channels, out.get(), step, Scratch(scratch.get()));
        for (int c = 0; c < channels; ++c) {
            Exact<float> one(plane);
            std::copy_n(x.get() + c * apart, plane, one.get());
            for (std::int64_t i = 0; i < count; ++i) {
                const Spatial window{0, i / pooling.windows.counts[2], i % pooling.windows.counts[2]};
                right = right && out[c * step + i] == expected(pooling, one, window, kind).value;
            }
        }
    }
    CHECK_MESSAGE(right, "every number is that of its window");
}

void check_pick(Random& random, const Level& level) {
    const std::int64_t size = random.between(1, 70), count = random.between(1, 90), taps = random.between(1, 3);
    const std::int64_t step = (count + most_lanes - 1) / most_lanes * most_lanes;
    const Exact<float> row = numbers(size + most_lanes - 1, random), out(count);
    const Exact<float> weights = numbers(taps * step, random);
    const Exact<std::int32_t> indices(taps * step);
    const bool far = random.chance(30);
    for (std::int64_t i = 0; i < taps * step; ++i) {
        const std::int64_t near_by = std::min(i % step * size / step + random.between(0, 1), size - 1);
        indices[i] = static_cast<std::int32_t>(far ? random.between(0, size - 1) : near_by);
    }
    level.resampling.pick({out.get(), row.get(), indices.get(), weights.get(), step, taps, count});
    bool right = true;
    for (std::int64_t i = 0; i < count; ++i) {
        const float first = row[indices[i]];
        float wanted = first;
        for (std::int64_t t = 1; t < taps; ++t) {
            wanted += weights[t * step + i] * (row[indices[t * step + i]] - first);
        }
        right = right && out[i] == wanted;
    }
    CHECK_MESSAGE(right, "every number is the mean of its taps");
}

// Elements that are repeated, or not, in their order.
void check_repeat(Random& random, const Level& level) {
    const std::int64_t count = random.between(1, 90), step = (count + most_lanes - 1) / most_lanes * most_lanes;
    const Exact<std::int32_t> indices(step);
    std::int32_t index = static_cast<std::int32_t>(random.between(0, 3));
    for (std::int64_t i = 0; i < step; ++i) {
        indices[i] = index;
        index += i + 1 < count && random.chance(50) ? 1 : 0;
    }
    const Exact<float> row = numbers(index + most_lanes, random), out(count);
    level.resampling.repeat({out.get(), row.get(), indices.get(), count});
    bool right = true;
    for (std::int64_t i = 0; i < count; ++i) {
        right = right && out[i] == row[indices[i]];
    }
    CHECK_MESSAGE(right, "every number is its element");
}

// Rows of the table end anywhere in the row, which ends with a zero.
void check_add_up(Random& random, const Level& level) {
    const std::int64_t size = random.between(1, 70), count = random.between(1, most_lanes), taps = random.between(0, 5);
    const Exact<float> row = numbers(size + most_lanes, random), out(count),
                       weights = numbers(taps * most_lanes, random);
    row[size] = 0;
    const Exact<std::int32_t> indices(taps * most_lanes);
    const bool far = random.chance(50);
    const std::int64_t from = random.between(0, size);
    for (std::int64_t i = 0; i < taps * most_lanes; ++i) {
        indices[i] = static_cast<std::int32_t>(far ? random.between(0, size) : std::min(from + i % most_lanes, size));
    }
    level.resampling.add_up({out.get(), row.get(), indices.get(), weights.get(), most_lanes, taps, count});
    bool right = true;
    for (std::int64_t i = 0; i < count; ++i) {
        double wanted = 0, magnitude = 0;
        for (std::int64_t t = 0; t < taps; ++t) {
            const double term = static_cast<double>(weights[t * most_lanes + i]) * row[indices[t * most_lanes + i]];
            wanted += term;
            magnitude += std::abs(term);
        }
        right = right && std::abs(out[i] - wanted) <= magnitude * 1e-6;
    }
    CHECK_MESSAGE(right, "every number is the sum of its terms");
}

void check_add(Random& random, const Level& level) {
    const std::int64_t count = random.between(1, 70);
    const Exact<float> row = numbers(count, random), before = numbers(count, random), out(count);
    std::copy_n(before.get(), count, out.get());
    const float weight = numbers(1, random)[0];
    level.resampling.add(out.get(), row.get(), weight, count);
    bool right = true;
    for (std::int64_t i = 0; i < count; ++i) {
        const double term = static_cast<double>(weight) * row[i];
        right = right && std::abs(out[i] - (before[i] + term)) <= (std::abs(term) + std::abs(before[i])) * 1e-6;
    }
    CHECK_MESSAGE(right, "the weighted row is added");
}

// Sums of bytes that stand for numbers, as bands, and of whole planes that may follow one another. The numbers are
// multiples of a quarter, so that sums are exact.
void check_numbers(Random& random, const Level& level) {
    constexpr Kind sums{false, 0};
    Pooling pooling = random_pooling(random, level, sums);
    pooling.type = DataType::int8;
    pooling.item = sizeof(double);
    pooling.line = nullptr;
    pooling.numbers = level.pooling.numbers(DataType::int8);
    pooling.kernels = &level.pooling.wide_sums;
    const std::int64_t plane = pooling.sizes[0] * pooling.sizes[1] * pooling.sizes[2], count = random.between(1, 5);
    const std::int64_t gap = random.between(0, 1), spacing = random.between(1, 2);  // after a plane, between neighbours
    const std::int64_t step = plane * spacing + gap;
    Planes planes;
    planes.row.type = DataType::int8;
    planes.strides = {pooling.sizes[1] * pooling.sizes[2] * spacing, pooling.sizes[2] * spacing, spacing};
    const Exact<std::int8_t> x(step * count);
    std::generate_n(x.get(), x.count(), [&] { return static_cast<std::int8_t>(random.between(-128, 127)); });
    std::vector<Plane> pooled;
    std::vector<Exact<float>> numbers;
    for (std::int64_t c = 0; c < count; ++c) {
        const Plane& made = pooled.emplace_back(
            Plane{x.bytes() + c * step, random.chance(70) ? 0.25f : 2.0f, random.chance(70) ? -3.0f : 90.0f});
        const Exact<float>& each = numbers.emplace_back(plane);
        for (std::int64_t i = 0; i < plane; ++i) {
            each[i] = (static_cast<float>(x[c * step + i * spacing]) - made.zero_point) * made.scale;
        }
    }
    const Bands bands(pooling, false);
    const Memory scratch(bands.scratch_bytes());
    bool right = true;
    for (std::int64_t b = 0; b < bands.count(); ++b) {
        const BandPlace place = bands.at(b);
        Scratch parts(scratch.get());
        const BandResult got = bands.compute(place, planes, pooled[0], nullptr, parts);
        for (std::int64_t r = 0; r < place.rows; ++r) {
            for (std::int64_t c = 0; c < place.columns; ++c) {
                const Expected wanted =
                    expected(pooling, numbers[0], {place.depth, place.top + r, place.left + c}, sums);
                const double sum = reinterpret_cast<const double*>(got.values)[r * bands.pitch() + c];
                right = right && sum == static_cast<double>(wanted.value);
            }
        }
    }
    CHECK_MESSAGE(right, "every number is that of its window");
    pooling.windows.counts = {1, 1, 1};
    pooling.windows.taps = {random.between(1, 2), random.between(1, 9), random.between(1, 3000)};
    const Exact<double> out(count);
    const Memory whole(whole_scratch());
    pool_whole(pooling, planes, pooled, out.bytes(), whole.get());
    for (std::int64_t c = 0; c < count; ++c) {
        const float wanted = expected(pooling, numbers[static_cast<std::size_t>(c)], {0, 0, 0}, sums).value;
        CHECK(out[c] == static_cast<double>(wanted));
    }
}

constexpr Kind kinds[] = {{true, 0}, {false, 0}, {false, 1}, {false, 2}};

}  // namespace

TEST_CASE("pooling at every level") {
    Random random(6);
    for (const Level& level : levels()) {
        INFO(level.name);
        for (int i = 0; i < (watches_threads ? 5 : 40); ++i) {
            for (const Kind& kind : kinds) {
                check_bands(random, level, kind, false);
                check_whole(random, level, kind);
                check_blocks(random, level, kind);
            }
            check_bands(random, level, kinds[0], true);
            check_numbers(random, level);
        }
    }
}

TEST_CASE("resampling at every level") {
    Random random(7);
    for (const Level& level : levels()) {
        INFO(level.name);
        for (int i = 0; i < 200; ++i) {
            check_pick(random, level);
            check_repeat(random, level);
            check_add_up(random, level);
            check_add(random, level);
        }
    }
}

}  // namespace dmlgraph::cpu::tests
