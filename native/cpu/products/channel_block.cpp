#include "cpu/products/channel_block.h"

#include <algorithm>
#include <optional>
#include <span>

#include "cpu/quotient.h"
#include "cpu/runtime/scratch.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t ample_cells =
    10 << 10;  // floats of a block's cells, before and after: they stay in the first cache
constexpr std::int64_t most_stride = 2;
constexpr std::int64_t most_windows = 15;  // of a row: vectors along more of them have work in most lanes
constexpr std::int64_t item = sizeof(float);

// The memory of a worker.
struct CellMemory {
    float* cells;
    float* results;  // cells, too
    float* sums;     // of channels, if they cannot be where the results are
    float* weights;
    float* numbers;  // of an ending
    std::byte* line;

    CellMemory(Scratch& scratch, const Windows& windows, const CellPlane& plane, std::int64_t lanes,
               std::size_t operands, const Epilogue& epilogue) {
        cells = scratch.take(plane.cells * lanes);
        results = scratch.take(std::max(windows.count(), lanes) * lanes);
        sums = scratch.take(windows.count() * lanes);
        weights = scratch.take(windows.tap_count() * lanes);
        numbers = scratch.take(lanes);
        line = Target::take_line(scratch, operands, epilogue, windows.count());
    }
};

// Rows and columns of a plane: those that windows have, and those of the picture with its padding.
std::int64_t side(const Windows& windows, const Spatial& sizes, std::size_t d) {
    const std::int64_t reach = (windows.taps[d] - 1) * windows.dilations[d];
    return std::max((windows.counts[d] - 1) * windows.strides[d] + reach + 1, windows.padding[d] + sizes[d]);
}

}  // namespace

CellPlane::CellPlane(const Windows& windows, const Spatial& sizes, int lanes)
    : pitch(side(windows, sizes, 2)), cells(count(windows, sizes)) {
    for (std::int64_t y = 0; y < sizes[1]; ++y) {
        for (std::int64_t x = 0; x < sizes[2]; ++x) {
            places.push_back(((y + windows.padding[1]) * pitch + x + windows.padding[2]) * lanes);
        }
    }
    places.resize(std::max(places.size(), static_cast<std::size_t>(lanes)), (cells - 1) * lanes);
}

std::int64_t CellPlane::count(const Windows& windows, const Spatial& sizes) {
    return side(windows, sizes, 1) * side(windows, sizes, 2) + 1;
}

bool CellPlane::pays(const Windows& windows, const Spatial& sizes, int lanes) {
    const std::int64_t cells = side(windows, sizes, 1) * side(windows, sizes, 2) + windows.count();
    return windows.counts[2] <= most_windows && windows.strides[2] <= most_stride && cells * lanes <= ample_cells &&
           !windows.mirrored;
}

bool has_pictures(DataType type, const Spatial& sizes, const Spatial& strides, std::int64_t channel) {
    const auto each = static_cast<std::int64_t>(item_size(type));
    return (sizes[2] == 1 || strides[2] == each) && (sizes[1] == 1 || strides[1] == sizes[2] * each) &&
           channel % each == 0;
}

bool BlockedDepthwise::fits(const Convolution& convolution) {
    return convolution.is_by_channel() && convolution.outputs == 1 && !convolution.backward &&
           CellPlane::pays(convolution.windows(), convolution.sizes, convolution.planes->lanes);
}

// Of all groups together: the filters of their only outputs follow one another.
BlockedDepthwise::BlockedDepthwise(const Convolution& convolution)
    : FilterMethod(convolution, {convolution.groups, convolution.planes->lanes}, true),
      plane_(convolution.windows(), convolution.sizes, convolution.planes->lanes),
      rows_(convolution) {
    packing_.rank = 1;
    packing_.batch = {1};
}

std::size_t BlockedDepthwise::scratch_bytes() const {
    const std::int64_t lanes = convolution_.planes->lanes;
    return std::max(rows_.scratch_bytes(), scratch_of<CellMemory>(phase().windows, plane_, lanes, convolution_.operands,
                                                                  *convolution_.epilogue));
}

void BlockedDepthwise::compute(RunContext& context, const Operands& operands) const {
    const WindowPanels& from = operands.windows;
    if (!has_pictures(from.type(), from.sizes(), from.strides, from.batch[1])) {
        return rows_.compute(context, {from, operands.filters, nullptr, operands.target});
    }
    const Windows& windows = from.windows();
    const std::int64_t batch = convolution_.batch, all = convolution_.groups;
    Target& target = operands.target;  // whose rows become channels
    const auto turn = [](MatrixTensor& tensor) { tensor.row = tensor.batch[1]; };
    turn(target.out);
    std::ranges::for_each(target.operands, turn);
    const ChannelBlockKernels& kernels = *convolution_.blocks;
    const Division blocks{all, convolution_.kernels->lanes};
    const bool in_place = target.takes_sums(DataType::float32);
    const std::optional<Ending> ending = target.ending();
    const std::int64_t count = windows.count(), taps = windows.tap_count(),
                       elements = from.sizes()[1] * from.sizes()[2];
    const auto compute = [&](std::int64_t n, std::int64_t block, const CellMemory& scratch) {
        const std::int64_t first = blocks.first(block), channels = blocks.in(block);
        const Sizes place{n};
        const float* weights = scratch.weights;
        if (operands.panels != nullptr) {
            weights = operands.panels->at({}, block, 0).as<float>();
        } else {
            operands.filters.pack({{}, first, channels, 0, taps, blocks.width}, scratch.weights, *convolution_.kernels);
        }
        const std::byte* const picture = from.data + n * from.batch[0] + first * from.batch[1];
        const std::int64_t step = from.batch[1] / static_cast<std::int64_t>(item_size(from.type()));
        kernels.gather({scratch.cells, plane_.places.data(), picture, from.type() == DataType::float16, step,
                        static_cast<int>(channels), elements});
        kernels.taps({scratch.results, windows.counts[1], windows.counts[2], scratch.cells,
                      windows.strides[1] * plane_.pitch, windows.strides[2], windows.dilations[1] * plane_.pitch,
                      windows.dilations[2], windows.taps[1], windows.taps[2], weights});
        float* const sums = in_place ? reinterpret_cast<float*>(target.out.row_at(place, first)) : scratch.sums;
        const std::int64_t sums_step = in_place ? target.out.row / item : count;
        const auto numbers = std::span(scratch.numbers, static_cast<std::size_t>(channels));
        const SumEnding after = ending ? ending->at(place, first, 0, count, numbers) : SumEnding{};
        kernels.scatter({scratch.results, blocks.width, count, sums, sums_step, static_cast<int>(channels),
                         ending ? &after : nullptr});
        if (ending && sums_step == count) {
            return ending->finish(sums, channels * count);
        }
        for (std::int64_t c = 0; c < channels; ++c) {
            target.finish_or_store(ending, sums + c * sums_step, place, first + c, 0, count, scratch.line);
        }
    };
    const auto work = static_cast<double>(batch * all * count);
    const double each = static_cast<double>(taps) + sizeof(float);
    const auto empty = [&](Scratch scratch) {
        const CellMemory memory(scratch, windows, plane_, blocks.width, target.operands.size(), *target.epilogue);
        std::fill_n(memory.cells, plane_.cells * blocks.width, 0.0f);
        return memory;
    };
    context.each_with(batch * blocks.count(), work * each, empty, [&](const CellMemory& memory, std::int64_t i) {
        compute(i / blocks.count(), i % blocks.count(), memory);
    });
}

}  // namespace dmlgraph::cpu
