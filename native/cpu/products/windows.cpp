#include "cpu/products/windows.h"

#include <algorithm>

namespace dmlgraph::cpu {
namespace {

// Neighbouring windows along the last dimension.
struct Run {
    std::int64_t to;  // the place of the first in the panel
    std::int64_t count;
    Spatial at;  // the first window
};

// The same tap of neighbouring windows: elements, or zeros.
struct Copy {
    std::int64_t to;
    std::int64_t count;
    std::int64_t from;  // bytes from the channel's first element
    bool zero;
};

// The windows of a panel, row by row.
class Runs {
public:
    Runs(const Windows& windows, std::int64_t first, std::int64_t lines) {
        for (std::int64_t done = 0; done < lines;) {
            const std::int64_t place = first + done, row = place / windows.counts[2];
            const std::int64_t column = place % windows.counts[2];
            const std::int64_t count = std::min(lines - done, windows.counts[2] - column);
            runs_[count_++] = {done, count, {row / windows.counts[1], row % windows.counts[1], column}};
            done += count;
        }
    }
    const Run* begin() const { return runs_.data(); }
    const Run* end() const { return runs_.data() + count_; }

private:
    std::array<Run, widest_panel> runs_;
    std::size_t count_ = 0;
};

// What a tap of a panel's windows consists of, the same for every channel.
class Copies {
public:
    void add(std::int64_t to, std::int64_t count, std::int64_t from, bool zero) {
        if (count > 0) {
            copies_[count_++] = {to, count, from, zero};
        }
    }
    const Copy* begin() const { return copies_.data(); }
    const Copy* end() const { return copies_.data() + count_; }

private:
    std::array<Copy, 3 * widest_panel + 1> copies_;
    std::size_t count_ = 0;
};

// Adds the elements of neighbouring windows at a tap, and zeros before and after them.
void add_run(Copies& copies, const Run& run, const Spatial& tap, const Windows& windows, const Spatial& sizes,
             const Spatial& strides) {
    Spatial at{};
    bool inside = true;
    for (std::size_t d = 0; d < most_spatial; ++d) {
        at[d] = run.at[d] * windows.strides[d] + tap[d] * windows.dilations[d] - windows.padding[d];
        inside = inside && (d == 2 || (at[d] >= 0 && at[d] < sizes[d]));
    }
    // The windows begin … end − 1 have this tap inside the tensor.
    const std::int64_t stride = windows.strides[2];
    const std::int64_t begin = inside ? std::clamp((-at[2] + stride - 1) / stride, std::int64_t{0}, run.count) : run.count;
    const std::int64_t end = std::clamp((sizes[2] - at[2] + stride - 1) / stride, begin, run.count);
    copies.add(run.to, begin, 0, true);
    copies.add(run.to + begin, end - begin,
               at[0] * strides[0] + at[1] * strides[1] + (at[2] + begin * stride) * strides[2], false);
    copies.add(run.to + end, run.count - end, 0, true);
}

}  // namespace

bool Windows::is_element(const Spatial& sizes) const {
    return tap_count() == 1 && counts == sizes && padding == Spatial{} && strides == Spatial{1, 1, 1};
}

bool Windows::is_whole(const Spatial& sizes) const {
    for (std::size_t d = 0; d < most_spatial; ++d) {
        if (taps[d] > 1 && dilations[d] > 1) {
            return false;
        }
    }
    return count() == 1 && taps == sizes && padding == Spatial{} && (!mirrored || tap_count() == 1);
}

Spatial Windows::tap(std::int64_t index) const {
    const std::int64_t read = mirrored ? tap_count() - 1 - index : index;
    return {read / taps[2] / taps[1], read / taps[2] % taps[1], read % taps[2]};
}

bool WindowPanels::is_inside(std::int64_t window) const {
    return is_inside(window, 0) && is_inside(window, windows_.tap_count() - 1);
}

bool WindowPanels::is_inside(std::int64_t window, std::int64_t tap) const {
    const Spatial taps = windows_.tap(tap), &counts = windows_.counts;
    const Spatial at{window / counts[2] / counts[1], window / counts[2] % counts[1], window % counts[2]};
    for (std::size_t d = 0; d < most_spatial; ++d) {
        const std::int64_t place = at[d] * windows_.strides[d] + taps[d] * windows_.dilations[d] - windows_.padding[d];
        if (place < 0 || place >= sizes_[d]) {
            return false;
        }
    }
    return true;
}

void WindowPanels::pack(const PanelPart& part, float* out, const ProductKernels& kernels) const {
    const SeveralLinesKernel lines = kernels.several_lines_of(type_);
    const std::byte* const first = data + part.batch[0] * batch[0] + part.batch[1] * batch[1];
    const Runs runs(windows_, part.first, part.lines);
    const std::int64_t taps = windows_.tap_count(), last = part.first_depth + part.depth;
    const std::int64_t step = strides[2] * windows_.strides[2];
    for (std::int64_t t = 0; t < taps; ++t) {
        const std::int64_t index = (part.first_depth - t + taps - 1) / taps;  // of the first channel with this tap
        const std::int64_t depth = index * taps + t;
        if (depth >= last) {
            continue;
        }
        const std::int64_t channels_here = (last - depth + taps - 1) / taps, out_step = taps * part.width;
        Copies copies;
        for (const Run& run : runs) {
            add_run(copies, run, windows_.tap(t), windows_, sizes_, strides);
        }
        copies.add(part.lines, part.width - part.lines, 0, true);
        float* const to = out + (depth - part.first_depth) * part.width;
        for (const Copy& copy : copies) {
            if (copy.zero) {
                for (std::int64_t i = 0; i < channels_here; ++i) {
                    std::fill_n(to + copy.to + i * out_step, copy.count, border);
                }
            } else {
                lines({to + copy.to, out_step, first + index * channel + copy.from, channel, channels_here, step, copy.count});
            }
        }
    }
}

}  // namespace dmlgraph::cpu
