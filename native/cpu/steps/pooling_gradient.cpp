#include "cpu/steps/pooling_gradient.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "cpu/kernels/level.h"
#include "cpu/quotient.h"
#include "cpu/windows/pooling.h"

namespace dmlgraph::cpu {
namespace {

class PoolingGradientStep final : public Step {
public:
    PoolingGradientStep(const StepTensors& tensors, const PoolingGradientParameters& parameters)
        : gradient_(tensors.inputs.back()),
          output_(tensors.outputs.at(0)),
          pooling_(gradient_.type, parameters.is_maximum, false, 0),
          kernels_(chosen_level().pooling.gradients(gradient_.type)) {
        const std::size_t inputs = parameters.is_maximum ? 2 : 1, spatial = parameters.taps.size();
        if (tensors.inputs.size() != inputs || kernels_ == nullptr || output_.rank != gradient_.rank) {
            throw std::invalid_argument("a gradient of pooling needs tensors of floats, of the same rank");
        }
        if (spatial < 1 || spatial > most_spatial || spatial > output_.rank) {
            throw std::invalid_argument("a pooling has one to three spatial dimensions");
        }
        const std::size_t batch = output_.rank - spatial;
        for (std::size_t d = 0; d < batch; ++d) {
            planes_ *= output_.sizes[d];
        }
        Windows& windows = pooling_.windows;
        for (std::size_t d = 0; d < spatial; ++d) {
            const std::size_t at = most_spatial - spatial + d;
            pooling_.sizes[at] = output_.sizes[batch + d];
            windows.counts[at] = gradient_.sizes[batch + d];
            windows.taps[at] = parameters.taps[d];
            windows.strides[at] = parameters.strides.at(d);
            windows.dilations[at] = parameters.dilations.at(d);
            windows.padding[at] = parameters.padding.at(d);
        }
        if (parameters.is_maximum) {
            input_ = tensors.inputs[0];
            bands_.emplace(pooling_, true, true);
        }
    }

    void run(RunContext& context) const override {
        if (output_.buffer == no_buffer) {
            return;
        }
        const std::int64_t item = static_cast<std::int64_t>(item_size(output_.type));
        const std::int64_t elements = pooling_.sizes[0] * pooling_.sizes[1] * pooling_.sizes[2];
        const std::int64_t count = pooling_.windows.count();
        std::byte* const out = context.tensor(output_).data;
        const std::byte* const gradient = context.tensor(gradient_).data;
        const std::byte* const x = bands_ ? context.tensor(input_).data : nullptr;
        context.parallel(planes_, cost(), [&](int worker, Chunks& chunks) {
            for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
                for (std::int64_t i = first; i < last; ++i) {
                    std::byte* const to = out + i * elements * item;
                    const std::byte* const given = gradient + i * count * item;
                    std::memset(to, 0, static_cast<std::size_t>(elements * item));
                    if (bands_) {
                        add_at_maxima(to, x + i * elements * item, given, item, Scratch(context.scratch(worker)));
                    } else {
                        add_to_windows(to, given, item);
                    }
                }
            }
        });
    }

    double cost() const override {
        const auto taps =
            static_cast<double>(bands_ ? pooling_.windows.taps[0] * pooling_.windows.taps[1] + pooling_.windows.taps[2]
                                       : pooling_.windows.tap_count());
        return 2 * static_cast<double>(output_.bytes()) + static_cast<double>(gradient_.bytes()) * (1 + taps);
    }
    std::size_t scratch_bytes() const override { return bands_ ? bands_->scratch_bytes() : 0; }
    void visit(const Visitor& visitor) override {
        if (bands_) {
            visitor(input_, false);
        }
        visitor(gradient_, false);
        visitor(output_, true);
    }

private:
    void add_at_maxima(std::byte* out, const std::byte* x, const std::byte* gradient, std::int64_t item,
                       Scratch scratch) const {
        Planes planes;
        planes.strides = {pooling_.sizes[1] * pooling_.sizes[2] * item, pooling_.sizes[2] * item, item};
        planes.row.type = pooling_.type;
        for (std::int64_t b = 0; b < bands_->count(); ++b) {
            const BandPlace place = bands_->at(b);
            Scratch memory = scratch;
            const BandResult found = bands_->compute(place, planes, {x}, nullptr, memory);
            for (std::int64_t r = 0; r < place.rows; ++r) {
                const std::int64_t row = place.depth * pooling_.windows.counts[1] + place.top + r;
                const std::byte* const from = gradient + row * pooling_.windows.counts[2] * item;
                kernels_->scattered({out, found.where + r * bands_->pitch(), from, place.columns});
            }
        }
    }

    // For an element, the rows of its windows come one after the other, and the windows of a row by descending taps.
    void add_to_windows(std::byte* out, const std::byte* shares, std::int64_t item) const {
        const Windows& windows = pooling_.windows;
        const std::byte* row = shares;
        for (std::int64_t z = 0; z < windows.counts[0]; ++z) {
            for (std::int64_t y = 0; y < windows.counts[1]; ++y, row += windows.counts[2] * item) {
                each_inside(0, z, [&](std::int64_t plane) {
                    each_inside(1, y, [&](std::int64_t line) {
                        add_to_row(out + (plane * pooling_.sizes[1] + line) * pooling_.sizes[2] * item, row, item);
                    });
                });
            }
        }
    }

    template <class Function>
    void each_inside(std::size_t axis, std::int64_t window, const Function& function) const {
        const Windows& windows = pooling_.windows;
        for (std::int64_t t = 0; t < windows.taps[axis]; ++t) {
            const std::int64_t at =
                window * windows.strides[axis] + t * windows.dilations[axis] - windows.padding[axis];
            if (at >= 0 && at < pooling_.sizes[axis]) {
                function(at);
            }
        }
    }

    void add_to_row(std::byte* out, const std::byte* shares, std::int64_t item) const {
        const Windows& windows = pooling_.windows;
        const std::int64_t size = pooling_.sizes[2], dilation = windows.dilations[2], padding = windows.padding[2];
        const auto inside = [&](std::int64_t first, std::int64_t step, std::int64_t count, auto add) {
            const std::int64_t begin = std::clamp(quotient_up(-first, step), std::int64_t{0}, count);
            const std::int64_t end = std::clamp(quotient_up(size - first, step), begin, count);
            add(begin, end - begin, out + (first + begin * step) * item);
        };
        if (windows.counts[2] == 1) {  // all taps at once
            inside(-padding, dilation, windows.taps[2], [&](std::int64_t, std::int64_t count, std::byte* to) {
                kernels_->spaced({to, dilation, shares, 0, count});
            });
            return;
        }
        for (std::int64_t t = windows.taps[2] - 1; t >= 0; --t) {
            const std::int64_t stride = windows.strides[2];
            inside(t * dilation - padding, stride, windows.counts[2],
                   [&](std::int64_t begin, std::int64_t count, std::byte* to) {
                       kernels_->spaced({to, stride, shares + begin * item, 1, count});
                   });
        }
    }

    View input_;
    View gradient_;
    View output_;
    Pooling pooling_;
    std::optional<Bands> bands_;  // of maxima
    const GradientKernels* kernels_;
    std::int64_t planes_ = 1;
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const PoolingGradientParameters& parameters) {
    return std::make_unique<PoolingGradientStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
