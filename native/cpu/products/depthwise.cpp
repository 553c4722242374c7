#include "cpu/products/depthwise.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu/runtime/cache_line.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t ample_plane = 16 << 10;  // floats

std::int64_t quotient_up(std::int64_t all, std::int64_t each) { return (all + each - 1) / each; }

// Rows of windows that are computed at a time, and the plane of their elements.
struct Band {
    std::int64_t rows;      // of windows
    std::int64_t pitch;     // elements of a row of a phase, and sums of a row of windows
    std::int64_t height;    // rows of a phase
    std::int64_t vector;    // elements that are read and written beyond the last

    Band(const Windows& windows, const ProductKernels& kernels) : vector(4 * kernels.lanes) {
        const auto reach = [&](std::size_t d) { return (windows.taps[d] - 1) * windows.dilations[d] / windows.strides[d]; };
        pitch = windows.counts[2] + reach(2);
        const std::int64_t ample = ample_plane / (pitch * windows.strides[1] * windows.strides[2]) - reach(1);
        rows = std::clamp(ample, std::int64_t{1}, windows.counts[1]);
        rows = quotient_up(windows.counts[1], quotient_up(windows.counts[1], rows));
        height = rows + reach(1);
    }

    std::int64_t phase() const { return height * pitch; }
};

// The memory of a worker.
struct BandMemory {
    float* plane;
    float* sums;
    float* weights;
    std::int64_t* offsets;
    std::byte* line;
    std::size_t bytes;

    BandMemory(std::byte* memory, const Windows& windows, const Band& band, std::size_t operands, const Epilogue& epilogue) {
        std::size_t used = 0;
        const auto take = [&]<class T>(T*& part, std::int64_t count) {
            part = reinterpret_cast<T*>(memory + used);
            used += align_to_line(static_cast<std::size_t>(count) * sizeof(T));
        };
        take(plane, windows.strides[1] * windows.strides[2] * band.phase() + band.vector);
        take(sums, band.rows * band.pitch + band.vector);
        take(weights, windows.tap_count());
        take(offsets, windows.tap_count());
        line = memory + used;
        bytes = used + Target::line_scratch(operands, epilogue, band.rows * windows.counts[2]);
    }
};

// Where each tap of the first window is in the plane.
void set_offsets(const Windows& windows, const Band& band, std::int64_t* offsets) {
    for (std::int64_t t = 0; t < windows.tap_count(); ++t) {
        const Spatial tap = windows.tap(t);
        const std::int64_t y = tap[1] * windows.dilations[1], x = tap[2] * windows.dilations[2];
        const std::int64_t phase = y % windows.strides[1] * windows.strides[2] + x % windows.strides[2];
        offsets[t] = phase * band.phase() + y / windows.strides[1] * band.pitch + x / windows.strides[2];
    }
}

// A row of a phase: the elements x, x + stride, … of a row of the tensor, and zeros beyond it.
void fill_row(float* out, const std::byte* row, std::int64_t x, const Band& band, const WindowPanels& from,
              LineKernel line) {
    const std::int64_t stride = from.windows().strides[2], size = from.sizes()[2];
    const std::int64_t begin = row == nullptr ? band.pitch : std::clamp((-x + stride - 1) / stride, std::int64_t{0}, band.pitch);
    const std::int64_t end = std::clamp((size - x + stride - 1) / stride, begin, band.pitch);
    std::fill_n(out, begin, 0.0f);
    if (end > begin) {
        line(out + begin, row + (x + begin * stride) * from.strides[2], stride * from.strides[2], end - begin);
        const float zero = is_byte(from.type()) ? *from.zeros.at(0) : 0.0f;
        for (std::int64_t i = begin; zero != 0 && i < end; ++i) {
            out[i] -= zero;
        }
    }
    std::fill_n(out + end, band.pitch - end, 0.0f);
}

// The elements of the windows from the row `top` on.
void fill_plane(float* plane, const std::byte* channel, std::int64_t top, std::int64_t rows, const Band& band,
                const WindowPanels& from, const ProductKernels& kernels) {
    const Windows& windows = from.windows();
    const LineKernel line = kernels.line_of(from.type());
    const std::int64_t height = band.height - band.rows + rows;
    for (std::int64_t i = 0; i < height * windows.strides[1]; ++i) {
        const std::int64_t y = top * windows.strides[1] + i - windows.padding[1];
        const std::byte* const row = y < 0 || y >= from.sizes()[1] ? nullptr : channel + y * from.strides[1];
        for (std::int64_t p = 0; p < windows.strides[2]; ++p) {
            const std::int64_t phase = i % windows.strides[1] * windows.strides[2] + p;
            float* const out = plane + phase * band.phase() + i / windows.strides[1] * band.pitch;
            fill_row(out, row, p - windows.padding[2], band, from, line);
        }
    }
}

}  // namespace

bool is_flat(const Windows& windows, const Spatial& sizes) {
    return sizes[0] == 1 && windows.counts[0] == 1 && windows.taps[0] == 1 && windows.padding[0] == 0;
}

std::size_t depthwise_scratch(const Windows& windows, std::size_t operands, const Epilogue& epilogue,
                              const ProductKernels& kernels) {
    return BandMemory(nullptr, windows, Band(windows, kernels), operands, epilogue).bytes;
}

void WholeSums::correct(float* sums, const Sizes&, std::int64_t, std::int64_t, std::int64_t width) const {
    for (std::int64_t i = 0; i < width; ++i) {
        sums[i] = std::bit_cast<float>(static_cast<std::int32_t>(sums[i]));
    }
}

void run_depthwise(RunContext& context, const Depthwise& convolution) {
    const WindowPanels& from = *convolution.windows;
    const Windows& windows = from.windows();
    const ProductKernels& kernels = *convolution.kernels;
    const Target& target = convolution.target;
    const Band band(windows, kernels);
    const std::int64_t bands = quotient_up(windows.counts[1], band.rows), width = windows.counts[2];
    const Sizes order{convolution.batch, convolution.groups, convolution.outputs, bands};
    const auto compute = [&](const Sizes& each, const BandMemory& scratch) {
        const Sizes place{each[0], each[1]};
        const std::int64_t top = each[3] * band.rows, rows = std::min(band.rows, windows.counts[1] - top);
        fill_plane(scratch.plane, from.data + place[0] * from.batch[0] + place[1] * from.batch[1], top, rows, band, from, kernels);
        convolution.filters->pack({place, each[2], 1, 0, windows.tap_count(), 1}, scratch.weights, kernels);
        kernels.taps({scratch.sums, scratch.plane, scratch.offsets, scratch.weights, windows.tap_count(),
                      (rows - 1) * band.pitch + width});
        for (std::int64_t r = 1; r < rows && width < band.pitch; ++r) {
            std::memmove(scratch.sums + r * width, scratch.sums + r * band.pitch, static_cast<std::size_t>(width) * sizeof(float));
        }
        target.correct_and_store(scratch.sums, place, each[2], top * width, rows * width, scratch.line);
    };
    const std::int64_t count = convolution.batch * convolution.groups * convolution.outputs * bands;
    const double work = static_cast<double>(count * band.rows * width) * static_cast<double>(windows.tap_count());
    context.parallel(count, work + static_cast<double>(count * band.rows * width) * sizeof(float), [&](int worker, Chunks& chunks) {
        const BandMemory scratch(context.scratch(worker), windows, band, target.operands.size(), *target.epilogue);
        set_offsets(windows, band, scratch.offsets);
        for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
            for (std::int64_t i = first; i < last; ++i) {
                compute(place_in(order, 4, i), scratch);
            }
        }
    });
}

}  // namespace dmlgraph::cpu
