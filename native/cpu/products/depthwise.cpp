#include "cpu/products/depthwise.h"

#include <algorithm>
#include <vector>

#include "cpu/products/float_picture.h"
#include "cpu/quotient.h"
#include "cpu/runtime/scratch.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t ample_plane = 6 << 10;  // floats
constexpr std::int64_t most_at_once = 8;       // channels
constexpr std::int64_t items_each = 4;         // for each of several workers

// Rows of windows that are computed at a time, and their elements: planes, or the rows of a picture of float16 as
// float32.
struct Band {
    std::int64_t rows;                  // of windows
    std::int64_t height;                // rows of a plane
    std::int64_t pitch;                 // elements of a row of a plane
    std::int64_t beyond;                // elements that are read and written beyond the last
    std::vector<std::int64_t> columns;  // by plane: its first column in the tensor, from that of the first window on
    std::vector<std::int64_t> places;   // by place of a tap along a row: its elements in the planes
    std::int64_t picture;               // the most elements of the rows that a band's windows have

    Band(const Windows& windows, const Spatial& sizes, const ConvolutionKernels& kernels) : beyond(kernels.lanes) {
        const std::int64_t stride = windows.strides[2];
        const auto reach = [&](std::size_t d) { return (windows.taps[d] - 1) * windows.dilations[d]; };
        pitch = windows.counts[2] + reach(2) / stride;
        const auto remainder = [&](std::int64_t tap) { return tap * windows.dilations[2] % stride; };
        for (std::int64_t x = 0; x < windows.taps[2]; ++x) {
            if (std::ranges::find(columns, remainder(x)) == columns.end()) {
                columns.push_back(remainder(x));
            }
        }
        const std::int64_t row = pitch * static_cast<std::int64_t>(columns.size());
        rows = std::clamp((ample_plane / row - reach(1)) / windows.strides[1], std::int64_t{1}, windows.counts[1]);
        rows = quotient_up(windows.counts[1], quotient_up(windows.counts[1], rows));
        height = (rows - 1) * windows.strides[1] + reach(1) + 1;
        for (std::int64_t x = 0; x < windows.taps[2]; ++x) {
            const std::int64_t at = std::ranges::find(columns, remainder(x)) - columns.begin();
            places.push_back(at * plane() + x * windows.dilations[2] / stride);
        }
        picture = std::min(height, sizes[1]) * sizes[2];
    }

    std::int64_t plane() const { return height * pitch; }
    // Of a channel, in whole vectors.
    std::int64_t floats() const {
        return quotient_up(std::max(static_cast<std::int64_t>(columns.size()) * plane(), picture), beyond) * beyond;
    }
    // Channels that are copied before they are computed: what was stored just before is not read as fast.
    std::int64_t channels() const { return std::clamp(ample_plane / floats(), std::int64_t{1}, most_at_once); }
};

// The memory of a worker.
struct BandMemory {
    float* floats;   // of some channels
    float* sums;     // if they cannot be where the results are
    float* weights;  // of an output
    std::byte* line;

    BandMemory(Scratch& scratch, const Windows& windows, const Band& band, std::size_t operands,
               const Epilogue& epilogue) {
        floats = scratch.take(band.channels() * band.floats() + band.beyond);
        sums = scratch.take(band.rows * windows.counts[2]);
        weights = scratch.take(windows.tap_count());
        line = Target::take_line(scratch, operands, epilogue, band.rows * windows.counts[2]);
    }
};

// A channel where it lies, for rows of windows from the row `top` on.
Picture picture_of(const WindowPanels& from, const std::byte* channel, std::int64_t top) {
    const Windows& windows = from.windows();
    return {channel,
            from.strides[1],
            from.sizes()[1],
            from.sizes()[2],
            top * windows.strides[1] - windows.padding[1],
            -windows.padding[2],
            windows.strides[1],
            windows.strides[2],
            windows.taps[1]};
}

// A channel's elements as planes: those of `rows` rows of windows, from the row `top` on.
void fill_planes(float* out, const std::byte* channel, std::int64_t top, std::int64_t rows, const Band& band,
                 const WindowPanels& from, const ConvolutionKernels& kernels) {
    const Windows& windows = from.windows();
    const std::int64_t stride = windows.strides[2], y = top * windows.strides[1] - windows.padding[1];
    const std::int64_t height = band.height - (band.rows - rows) * windows.strides[1];
    const std::int64_t first = std::clamp(-y, std::int64_t{0}, height),
                       last = std::clamp(from.sizes()[1] - y, first, height);
    for (const std::int64_t column : band.columns) {
        const std::int64_t x = column - windows.padding[2];
        const std::int64_t begin = std::min(x < 0 ? (stride - 1 - x) / stride : 0, band.pitch);
        const std::int64_t end =
            std::clamp(x < from.sizes()[2] ? (from.sizes()[2] - 1 - x) / stride + 1 : 0, begin, band.pitch);
        std::fill_n(out, first * band.pitch, 0.0f);
        const PlaneCall call{out + first * band.pitch,
                             band.pitch,
                             channel + (y + first) * from.strides[1] + (x + begin * stride) * from.strides[2],
                             from.strides[1],
                             stride * from.strides[2],
                             last - first,
                             band.pitch,
                             begin,
                             end};
        if (call.rows > 0) {
            (from.type() == DataType::float16 ? kernels.half_plane : kernels.plane)(call);
        }
        std::fill_n(out + last * band.pitch, (height - last) * band.pitch, 0.0f);
        out += band.plane();
    }
}

}  // namespace

const float* Depthwise::weights_of(const Operands& operands, const Sizes& place, std::int64_t output,
                                   float* memory) const {
    const Windows& windows = phase().windows;
    const std::int64_t taps = windows.tap_count();
    const float* weights = memory;
    if (operands.panels != nullptr) {
        weights = operands.panels->at(place, output, 0).as<float>();
    } else {
        operands.filters.pack({place, output, 1, 0, taps, 1}, memory, *convolution_.kernels);
    }
    if (windows.mirrored && weights == memory) {
        std::reverse(memory, memory + taps);
    } else if (windows.mirrored) {
        std::reverse_copy(weights, weights + taps, memory);
        weights = memory;
    }
    return weights;
}

bool Depthwise::reads_pictures(const WindowPanels& from) const {
    const Windows& windows = from.windows();
    const std::int64_t taps = windows.taps[1], stride = windows.strides[2];
    const bool square = windows.taps[2] == taps && windows.dilations[1] == 1 && windows.dilations[2] == 1;
    const bool small = taps == 3 || taps == 5 ? stride <= 2 : taps == 7 && stride == 1;
    return convolution_.planes->picture != nullptr && square && small &&
           from.strides[2] == static_cast<std::int64_t>(item_size(from.type()));
}

std::size_t Depthwise::scratch_bytes() const {
    const Windows& windows = phase().windows;
    return scratch_of<BandMemory>(windows, Band(windows, convolution_.sizes, *convolution_.planes),
                                  convolution_.operands, *convolution_.epilogue);
}

void Depthwise::compute(RunContext& context, const Operands& operands) const {
    const WindowPanels& from = operands.windows;
    const Windows& windows = from.windows();
    const Target& target = operands.target;
    const std::int64_t groups = convolution_.groups;
    const ConvolutionKernels& kernels = *convolution_.planes;
    const Band band(windows, from.sizes(), kernels);
    const std::int64_t bands = quotient_up(windows.counts[1], band.rows), width = windows.counts[2];
    const bool in_place = target.takes_sums(DataType::float32);
    const std::optional<Ending> ending = target.ending();
    const std::int64_t all = convolution_.batch * groups * bands,
                       items = context.workers > 1 ? context.workers * items_each : 1;
    const std::int64_t at_once = std::clamp(all / items, std::int64_t{1}, band.channels());
    const std::int64_t parts = quotient_up(groups, at_once);
    const bool pictures = reads_pictures(from), is_half = from.type() == DataType::float16;
    const auto channel_at = [&](std::int64_t n, std::int64_t c) {
        return from.data + n * from.batch[0] + c * from.batch[1];
    };
    // Its elements are in `floats`, unless it is read where it lies.
    const auto compute_channel = [&](const Sizes& place, std::int64_t top, std::int64_t rows, const float* floats,
                                     const BandMemory& scratch) {
        for (std::int64_t o = 0; o < convolution_.outputs; ++o) {
            const float* const weights = weights_of(operands, place, o, scratch.weights);
            float* const sums =
                in_place ? reinterpret_cast<float*>(target.out.row_at(place, o)) + top * width : scratch.sums;
            float number = 0;
            const SumEnding what =
                ending ? ending->at(place, o, top * width, rows * width, std::span(&number, 1)) : SumEnding{};
            const SumEnding* const after = ending ? &what : nullptr;
            if (pictures) {
                const Picture picture = picture_of(from, channel_at(place[0], place[1]), top);
                kernels.picture(
                    {sums, rows, width, is_half ? FloatPicture(picture, rows).read(floats) : picture, weights, after});
            } else {
                kernels.taps({sums, rows, width, floats, band.pitch, windows.strides[1], windows.dilations[1],
                              windows.taps[1], windows.taps[2], band.places.data(), weights, after});
            }
            target.finish_or_store(ending, sums, place, o, top * width, rows * width, scratch.line);
        }
    };
    const auto compute = [&](std::int64_t index, const BandMemory& scratch) {
        const std::int64_t top = index % bands * band.rows, rows = std::min(band.rows, windows.counts[1] - top);
        const std::int64_t n = index / bands / parts, first = index / bands % parts * at_once;
        const std::int64_t last = std::min(first + at_once, groups);
        for (std::int64_t c = first; c < last && (is_half || !pictures); ++c) {
            float* const floats = scratch.floats + (c - first) * band.floats();
            if (pictures) {
                FloatPicture(picture_of(from, channel_at(n, c), top), rows)
                    .write(floats, from.strides[2], convolution_.kernels->half_line);
            } else {
                fill_planes(floats, channel_at(n, c), top, rows, band, from, kernels);
            }
        }
        for (std::int64_t c = first; c < last; ++c) {
            compute_channel({n, c}, top, rows, scratch.floats + (c - first) * band.floats(), scratch);
        }
    };
    const std::int64_t count = convolution_.batch * parts * bands;
    const auto sums = static_cast<double>(convolution_.batch * groups * convolution_.outputs * windows.count());
    context.each_with(
        count, sums * (static_cast<double>(windows.tap_count()) + sizeof(float)),
        [&](Scratch scratch) { return BandMemory(scratch, windows, band, target.operands.size(), *target.epilogue); },
        [&](const BandMemory& memory, std::int64_t i) { compute(i, memory); });
}

}  // namespace dmlgraph::cpu
