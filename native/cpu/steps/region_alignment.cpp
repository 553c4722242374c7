#include "cpu/steps/region_alignment.h"

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>
#include <utility>

#include "cpu/quotient.h"
#include "cpu/steps/region_samples.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t channels_at_a_time = 64;

// Rows are combined first, for all columns that the region needs, which lie side by side; then columns.
class RegionAlignmentStep final : public Step {
public:
    RegionAlignmentStep(const StepTensors& tensors, RegionAlignmentParameters parameters)
        : image_(tensors.inputs.at(0)),
          regions_(tensors.inputs.at(1)),
          batches_(tensors.inputs.at(2)),
          output_(tensors.outputs.at(0)),
          p_(std::move(parameters)) {
        if (image_.type != DataType::float32 || regions_.type != DataType::float32 ||
            output_.type != DataType::float32) {
            throw std::invalid_argument("regions are aligned in float32");
        }
        sampling_ = {p_.is_nearest,    p_.aligns_to_corners, p_.offsets.at(0),
                     p_.offsets.at(1), p_.least_samples,     p_.most_samples};
    }

    void run(RunContext& context) const override {
        if (output_.buffer == no_buffer) {
            return;
        }
        const std::int64_t parts = quotient_up(channels(), channels_at_a_time);
        context.parallel(output_.sizes[0] * parts, cost(), [&](int worker, Chunks& chunks) {
            for (std::int64_t first = 0, end = 0; chunks.next(first, end);) {
                for (std::int64_t i = first; i < end; ++i) {
                    const std::int64_t channel = i % parts * channels_at_a_time;
                    align(context, i / parts, channel, std::min(channel + channels_at_a_time, channels()),
                          reinterpret_cast<float*>(context.scratch(worker)));
                }
            }
        });
    }
    double cost() const override { return static_cast<double>(output_.element_count()) * 64; }
    std::size_t scratch_bytes() const override { return static_cast<std::size_t>(image_.sizes[3]) * sizeof(float); }
    void visit(const Visitor& visitor) override {
        visitor(image_, false);
        visitor(regions_, false);
        visitor(batches_, false);
        visitor(output_, true);
    }

private:
    std::int64_t channels() const { return image_.sizes[1]; }

    // A region's left, top, right and bottom.
    std::array<float, 4> corners(const RunContext& context, std::int64_t region) const {
        const float* const given = reinterpret_cast<const float*>(context.data(regions_)) + region * 4;
        std::array<float, 4> result{};
        for (std::size_t i = 0; i < result.size(); ++i) {
            result[i] = given[i] * static_cast<float>(p_.scales[i % 2]);
        }
        return result;
    }

    // Some channels of a region.
    void align(const RunContext& context, std::int64_t region, std::int64_t channel, std::int64_t end,
               float* row) const {
        const auto [left, top, right, bottom] = corners(context, region);
        const std::int64_t height = output_.sizes[2], width = output_.sizes[3];
        const Samples rows(sampling_, top, bottom, image_.sizes[2], height);
        const Samples columns(sampling_, left, right, image_.sizes[3], width);
        const std::int64_t plane = image_.sizes[2] * image_.sizes[3];
        const auto* in = reinterpret_cast<const float*>(context.data(image_)) +
                         (batch_of(context, region) * channels() + channel) * plane;
        auto* out = reinterpret_cast<float*>(context.data(output_)) + (region * channels() + channel) * height * width;
        if (p_.is_maximum) {
            for (; channel < end; ++channel, in += plane, out += height * width) {
                find_maxima(in, rows, columns, row, out);
            }
            return;
        }
        std::vector<std::vector<Tap>> sums_of_rows, sums_of_columns;
        for (std::int64_t i = 0; i < height; ++i) {
            sums_of_rows.push_back(rows.sum_of(i));
        }
        for (std::int64_t j = 0; j < width; ++j) {
            sums_of_columns.push_back(columns.sum_of(j));
        }
        const std::vector<float> beyond = outside_of(rows, columns);
        const auto count = static_cast<float>(rows.per_output() * columns.per_output());
        for (; channel < end; ++channel, in += plane, out += height * width) {
            for (std::int64_t i = 0; i < height; ++i) {
                combine(in, sums_of_rows[static_cast<std::size_t>(i)], columns, row);
                for (std::int64_t j = 0; j < width; ++j) {
                    float sum = beyond[static_cast<std::size_t>(i * width + j)];
                    if (!sums_of_rows[static_cast<std::size_t>(i)].empty()) {
                        for (const Tap& each : sums_of_columns[static_cast<std::size_t>(j)]) {
                            sum += row[each.at] * each.weight;
                        }
                    }
                    out[i * width + j] = sum / count;
                }
            }
        }
    }

    std::int64_t batch_of(const RunContext& context, std::int64_t region) const {
        const std::byte* const data = context.data(batches_);
        const std::uint64_t batch = batches_.type == DataType::uint64
                                        ? reinterpret_cast<const std::uint64_t*>(data)[region]
                                        : reinterpret_cast<const std::uint32_t*>(data)[region];
        return static_cast<std::int64_t>(std::min(batch, static_cast<std::uint64_t>(image_.sizes[0] - 1)));
    }

    // What the samples outside add to each output element.
    std::vector<float> outside_of(const Samples& rows, const Samples& columns) const {
        std::vector<float> result;
        const std::int64_t all = rows.per_output() * columns.per_output();
        for (std::int64_t i = 0; i < output_.sizes[2]; ++i) {
            for (std::int64_t j = 0; j < output_.sizes[3]; ++j) {
                const std::int64_t outside = all - rows.inside_of(i) * columns.inside_of(j);
                result.push_back(outside == 0 ? 0.0f : static_cast<float>(static_cast<double>(outside) * p_.bounds[0]));
            }
        }
        return result;
    }

    // The sum of rows of the image, in the columns that are read.
    void combine(const float* in, std::span<const Tap> taps, const Samples& columns, float* row) const {
        const std::int64_t first = columns.first(), last = columns.last();
        bool is_first = true;
        for (const Tap& each : taps) {
            const float* const from = in + each.at * image_.sizes[3];
            if (std::exchange(is_first, false)) {
                for (std::int64_t x = first; x < last; ++x) {
                    row[x] = from[x] * each.weight;
                }
            } else {
                for (std::int64_t x = first; x < last; ++x) {
                    row[x] += from[x] * each.weight;
                }
            }
        }
    }

    void find_maxima(const float* in, const Samples& rows, const Samples& columns, float* row, float* out) const {
        const std::int64_t height = output_.sizes[2], width = output_.sizes[3];
        const auto outside = static_cast<float>(p_.bounds[0]);
        std::fill_n(out, height * width, static_cast<float>(p_.bounds[1]));
        for (std::int64_t s = 0; s < height * rows.per_output(); ++s) {
            const Tap* const taps = rows.taps(s);
            if (taps != nullptr) {
                combine(in, {taps, taps_of_sample()}, columns, row);
            }
            float* result = out + s / rows.per_output() * width;
            for (std::int64_t c = 0; c < width * columns.per_output(); ++result) {
                float most = *result;
                for (const std::int64_t end = c + columns.per_output(); c < end; ++c) {
                    const Tap* const across = taps == nullptr ? nullptr : columns.taps(c);
                    const float sample = across == nullptr ? outside : interpolated(across, row);
                    most = sample > most ? sample : most;  // NaN is ignored
                }
                *result = most;
            }
        }
    }

    std::size_t taps_of_sample() const { return p_.is_nearest ? 1 : 2; }

    float interpolated(const Tap* taps, const float* row) const {
        const float one = row[taps[0].at] * taps[0].weight;
        return p_.is_nearest ? one : one + row[taps[1].at] * taps[1].weight;
    }

    View image_;
    View regions_;
    View batches_;
    View output_;
    RegionAlignmentParameters p_;
    Sampling sampling_;
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const RegionAlignmentParameters& parameters) {
    return std::make_unique<RegionAlignmentStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
