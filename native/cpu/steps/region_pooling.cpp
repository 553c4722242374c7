#include "cpu/steps/region_pooling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "cpu/quotient.h"

namespace dmlgraph::cpu {
namespace {

// Elements from `first` up to, excluding, `last`.
struct Cell {
    std::int64_t first;
    std::int64_t last;
};

// A scaled coordinate: a half is rounded to an even number.
std::int64_t rounded(float corner, float scale) {
    const float place = std::nearbyint(corner * scale);
    if (std::isnan(place)) {
        return 0;
    }
    constexpr double low = std::numeric_limits<std::int32_t>::min(), high = std::numeric_limits<std::int32_t>::max();
    return static_cast<std::int64_t>(std::clamp(static_cast<double>(place), low, high));
}

// The range of `length` elements from `start` in `count` cells, clamped to [0, size].
std::vector<Cell> cells_of(std::int64_t start, std::int64_t end, std::int64_t count, std::int64_t size) {
    const std::int64_t length = std::max<std::int64_t>(end - start + 1, 1);
    std::vector<Cell> cells;
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t first = start + i * length / count, last = start + quotient_up((i + 1) * length, count);
        cells.push_back({std::clamp<std::int64_t>(first, 0, size), std::clamp<std::int64_t>(last, 0, size)});
    }
    return cells;
}

class RegionPoolingStep final : public Step {
public:
    RegionPoolingStep(const StepTensors& tensors, const RegionPoolingParameters& parameters)
        : image_(tensors.inputs.at(0)), regions_(tensors.inputs.at(1)), output_(tensors.outputs.at(0)), p_(parameters) {
        if (image_.type != DataType::float32 || regions_.type != DataType::float32 ||
            output_.type != DataType::float32) {
            throw std::invalid_argument("regions are pooled in float32");
        }
    }

    void run(RunContext& context) const override {
        if (output_.buffer != no_buffer) {
            context.each(output_.sizes[0], cost(), [&](std::int64_t region) { pool(context, region); });
        }
    }
    double cost() const override { return static_cast<double>(output_.element_count()) * 32; }
    void visit(const Visitor& visitor) override {
        visitor(image_, false);
        visitor(regions_, false);
        visitor(output_, true);
    }

private:
    void pool(const RunContext& context, std::int64_t region) const {
        const float* const corners = reinterpret_cast<const float*>(context.data(regions_)) + region * 5;
        const auto place = [&](int i) { return rounded(corners[i], static_cast<float>(p_.scale)); };
        const std::int64_t height = image_.sizes[2], width = image_.sizes[3], channels = image_.sizes[1];
        const std::vector<Cell> rows = cells_of(place(2), place(4), output_.sizes[2], height);
        const std::vector<Cell> columns = cells_of(place(1), place(3), output_.sizes[3], width);
        const double batch =
            std::isnan(corners[0]) ? 0 : std::clamp<double>(corners[0], 0, static_cast<double>(image_.sizes[0] - 1));
        const auto* in = reinterpret_cast<const float*>(context.data(image_)) +
                         static_cast<std::int64_t>(batch) * channels * height * width;
        auto* out =
            reinterpret_cast<float*>(context.data(output_)) + region * channels * output_.sizes[2] * output_.sizes[3];
        for (std::int64_t c = 0; c < channels; ++c, in += height * width) {
            for (const Cell& row : rows) {
                for (const Cell& column : columns) {
                    *out++ = greatest(in, row, column);
                }
            }
        }
    }

    // Of a cell, without NaN; zero if the cell is empty.
    float greatest(const float* in, const Cell& rows, const Cell& columns) const {
        if (rows.first >= rows.last || columns.first >= columns.last) {
            return 0;
        }
        auto most = static_cast<float>(p_.least);
        for (std::int64_t y = rows.first; y < rows.last; ++y) {
            const float* const row = in + y * image_.sizes[3];
            for (std::int64_t x = columns.first; x < columns.last; ++x) {
                most = row[x] > most ? row[x] : most;
            }
        }
        return most;
    }

    View image_;
    View regions_;
    View output_;
    RegionPoolingParameters p_;
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const RegionPoolingParameters& parameters) {
    return std::make_unique<RegionPoolingStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
