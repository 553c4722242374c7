#include "cpu/products/windows.h"

#include <algorithm>

#include "cpu/products/lines.h"

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
    std::size_t index(const Run& run) const { return static_cast<std::size_t>(&run - begin()); }

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

// The windows of a run that have a tap of one column inside the tensor: begin … end − 1.
struct Inside {
    std::int64_t begin;
    std::int64_t end;
    std::int64_t at;  // where the first of them has it along the row
};

Inside inside_of(const Run& run, std::int64_t column, const Windows& windows, const Spatial& sizes) {
    const std::int64_t stride = windows.strides[2],
                       at = run.at[2] * stride + column * windows.dilations[2] - windows.padding[2];
    Inside result{};
    result.begin = std::clamp((-at + stride - 1) / stride, std::int64_t{0}, run.count);
    result.end = std::clamp((sizes[2] - at + stride - 1) / stride, result.begin, run.count);
    result.at = at + result.begin * stride;
    return result;
}

// Adds the elements of neighbouring windows at a tap, and zeros before and after them.
void add_run(Copies& copies, const Run& run, Inside inside, const Spatial& tap, const Windows& windows,
             const Spatial& sizes, const Spatial& strides) {
    std::int64_t from = inside.at * strides[2];
    for (std::size_t d = 0; d < 2; ++d) {
        const std::int64_t at = run.at[d] * windows.strides[d] + tap[d] * windows.dilations[d] - windows.padding[d];
        if (at < 0 || at >= sizes[d]) {
            return copies.add(run.to, run.count, 0, true);
        }
        from += at * strides[d];
    }
    copies.add(run.to, inside.begin, 0, true);
    copies.add(run.to + inside.begin, inside.end - inside.begin, from, false);
    copies.add(run.to + inside.end, run.count - inside.end, 0, true);
}

// How many of the depths before `depth` have each tap: `all`, and one more of the first ones.
struct Depths {
    std::int64_t all;
    std::int64_t first;

    Depths(std::int64_t depth, std::int64_t taps) : all(depth / taps), first(depth % taps) {}
    std::int64_t with(std::int64_t tap) const { return all + (tap < first ? 1 : 0); }
};

}  // namespace

Spatial spatial(const Sizes& of, int outer, int rank, std::int64_t missing) {
    Spatial result{missing, missing, missing};
    for (int d = outer; d < rank; ++d) {
        result[static_cast<std::size_t>(most_spatial - rank + d)] = of[d];
    }
    return result;
}

bool Windows::is_element(const Spatial& sizes) const {
    return tap_count() == 1 && counts == sizes && padding == Spatial{} && strides == Spatial{1, 1, 1};
}

bool Windows::is_flat(const Spatial& sizes) const {
    return sizes[0] == 1 && counts[0] == 1 && taps[0] == 1 && padding[0] == 0;
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

MatrixPanels WindowPanels::elements() const {
    MatrixTensor channel_row;
    channel_row.type = type_;
    channel_row.rank = most_spatial;
    std::ranges::copy(sizes_, channel_row.sizes.begin());
    std::ranges::copy(strides, channel_row.strides.begin());
    channel_row.join_dimensions();
    if (!windows_.is_element(sizes_) || channel_row.rank > 1) {
        return {};
    }
    return {data, type_, {batch[0], batch[1]}, channel_row.strides[0], channel};
}

void WindowPanels::pack(const PanelPart& part, NumbersTo out, const ProductKernels& kernels) const {
    const SeveralLinesKernel lines = kernels.several_lines_of(type_);
    const std::byte* const first = data + part.batch[0] * batch[0] + part.batch[1] * batch[1];
    const Runs runs(windows_, part.first, part.lines);
    const std::int64_t taps = windows_.tap_count(), rows = windows_.taps[0] * windows_.taps[1],
                       out_step = taps * part.width;
    const Depths before(part.first_depth, taps), until(part.first_depth + part.depth, taps);
    const std::int64_t step = strides[2] * windows_.strides[2];
    for (std::int64_t column = 0; column < windows_.taps[2]; ++column) {
        std::array<Inside, widest_panel> inside;
        for (const Run& run : runs) {
            inside[runs.index(run)] =
                inside_of(run, windows_.mirrored ? windows_.taps[2] - 1 - column : column, windows_, sizes_);
        }
        for (std::int64_t row = 0; row < rows; ++row) {
            const std::int64_t t = row * windows_.taps[2] + column, index = before.with(t),
                               channels_here = until.with(t) - index;
            if (channels_here <= 0) {
                continue;
            }
            const std::int64_t read = windows_.mirrored ? rows - 1 - row : row;
            const Spatial tap{read / windows_.taps[1], read % windows_.taps[1], 0};
            Copies copies;
            for (const Run& run : runs) {
                add_run(copies, run, inside[runs.index(run)], tap, windows_, sizes_, strides);
            }
            copies.add(part.lines, part.width - part.lines, 0, true);
            const NumbersTo to = out + (index * taps + t - part.first_depth) * part.width;
            for (const Copy& copy : copies) {
                if (copy.zero) {
                    for (std::int64_t i = 0; i < channels_here; ++i) {
                        std::fill_n((to + copy.to + i * out_step).as<std::uint32_t>(), copy.count, border);
                    }
                } else {
                    lines({to + copy.to, out_step, first + index * channel + copy.from, channel, channels_here, step,
                           copy.count});
                }
            }
        }
    }
}

}  // namespace dmlgraph::cpu
