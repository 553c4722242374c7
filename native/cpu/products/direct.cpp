#include "cpu/products/direct.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "cpu/products/sharing.h"
#include "cpu/quotient.h"
#include "cpu/runtime/processors.h"
#include "cpu/runtime/scratch.h"

namespace dmlgraph::cpu {
namespace {

// The numbers of a sum that are added up at a time, if these are whole channels. Sums depend on it, so it is the same
// on every processor.
constexpr std::int64_t ample_depth = 224;

constexpr std::int64_t most_plane_taps = 1024;
constexpr std::int64_t most_patch_columns = 1024;   // of a patch
constexpr std::int64_t most_block_outputs = 512;    // of a block, unless it has fewer sums than this: planes are copied
constexpr std::int64_t ample_block_sums = 1 << 17;  // again for each block
constexpr double moving =
    0.5;  // the time to read a filter's number or write a plane's, in that of a vector's multiply-add
constexpr double transposing = 8;  // depths that take as long as to transpose a vector of sums

std::int64_t reach(const Windows& windows, std::size_t d) { return (windows.taps[d] - 1) * windows.dilations[d]; }

// The planes that the taps along a dimension need, which have the same size there, and where each tap finds its
// windows. Taps share a plane if their places have the same remainder by the stride; remainders repeat after some taps.
class Slots {
public:
    std::int64_t size = 0;  // rows or columns of a plane

    Slots() = default;
    // Of `count` windows. `shares`: whether taps may have a plane in common.
    Slots(const Windows& windows, std::size_t d, std::int64_t count, bool shares = true)
        : size(count), planes_(windows.taps[d]), dilation_(windows.dilations[d]), stride_(windows.strides[d]) {
        const std::int64_t phases = std::min(planes_, stride_ / std::gcd(stride_, dilation_)),
                           shared = count + reach(windows, d) / stride_;
        shares_ = shares && phases * shared <= planes_ * count;  // else they would share too few rows
        if (shares_) {
            size = shared;
            planes_ = phases;
        }
    }

    std::int64_t planes() const { return planes_; }
    std::int64_t total() const { return planes_ * size; }
    // The first row of a plane in the tensor, from the first row of the patch's windows on.
    std::int64_t first(std::int64_t plane) const { return shares_ ? plane * dilation_ % stride_ : plane * dilation_; }
    // The plane of a tap, and its first row there.
    std::int64_t plane_of(std::int64_t tap) const { return tap % planes_; }
    std::int64_t place(std::int64_t tap) const { return shares_ ? tap * dilation_ / stride_ : 0; }

    bool operator==(const Slots&) const = default;

private:
    std::int64_t planes_ = 0, dilation_ = 1, stride_ = 1;
    bool shares_ = false;
};

// The floats that a channel has in planes, for patches of so many rows and columns; at most, if taps may share planes.
std::int64_t plane_floats(const Windows& windows, const Slots& down, std::int64_t columns) {
    return windows.taps[0] * down.total() * windows.taps[2] * columns;
}

// Of filters that meet a patch.
std::int64_t most_panels(const DirectShape& shape) {
    const std::int64_t outputs = std::max(most_block_outputs, ample_block_sums / (shape.rows * shape.columns));
    return std::max<std::int64_t>(1, outputs / shape.filters.width);
}

// Some windows that a worker computes.
struct Patch {
    std::int64_t depth, row, column;  // the first window
    std::int64_t rows, columns;

    std::int64_t count() const { return rows * columns; }
};

// The patches of a convolution, and how many panels of filters meet one at a time.
class Patches {
public:
    // Those with which the workers end soonest.
    Patches(const Convolution& convolution, const DirectShape& shape, int workers)
        : counts_(convolution.windows().counts), columns_(shape.columns) {
        const std::int64_t all = shape.filters.count(), most = most_panels(shape);
        if (workers == 1) {
            rows_ = shape.rows;
            panels_ = quotient_up(all, quotient_up(all, most));
            return;
        }
        const Windows& windows = convolution.windows();
        const std::int64_t lanes = convolution.planes->lanes;
        const Slots across(windows, 2, columns_, shape.along && convolution.planes->has_places);
        double soonest = std::numeric_limits<double>::infinity();
        each_division(counts_[1], shape.rows, workers, [&](std::int64_t rows) {
            const std::int64_t planes = windows.taps[0] * Slots(windows, 1, rows).total() * across.total();
            const std::int64_t count = shape.along ? rows * columns_ : quotient_up(rows * columns_, lanes) * lanes;
            const std::int64_t patches = counts_[0] * quotient_up(counts_[1], rows) * this->across();
            each_division(all, most, workers, [&](std::int64_t panels) {
                const std::int64_t blocks = convolution.batch * convolution.groups * patches * quotient_up(all, panels);
                const std::int64_t filters = panels * shape.filters.width * windows.tap_count();
                const double cost =
                    static_cast<double>(filters * count) + static_cast<double>((filters + planes) * lanes) * moving;
                const double time = makespan(blocks, cost, workers);
                if (time < soonest) {
                    soonest = time, rows_ = rows, panels_ = panels;
                }
            });
        });
    }

    std::int64_t panels() const { return panels_; }
    std::int64_t parts(const DirectShape& shape) const { return quotient_up(shape.filters.count(), panels_); }
    std::int64_t patches() const { return counts_[0] * down() * across(); }
    std::int64_t count(const DirectShape& shape) const { return parts(shape) * patches(); }

    Patch patch(std::int64_t index) const {
        Patch result{index / across() / down(), index / across() % down() * rows_, index % across() * columns_, 0, 0};
        result.rows = std::min(rows_, counts_[1] - result.row);
        result.columns = std::min(columns_, counts_[2] - result.column);
        return result;
    }

private:
    std::int64_t down() const { return quotient_up(counts_[1], rows_); }
    std::int64_t across() const { return quotient_up(counts_[2], columns_); }

    Spatial counts_;
    std::int64_t rows_ = 1, columns_, panels_ = 1;
};

// The memory of a worker.
struct DirectMemory {
    float* planes;
    float* panel;  // of filters, of one depth
    float* sums;
    float* results;  // of a vector of outputs
    float* numbers;  // … that are added to them
    std::byte* line;

    DirectMemory(Scratch& scratch, const Windows& windows, const DirectShape& shape, std::size_t operands,
                 const Epilogue& epilogue, const ConvolutionKernels& kernels) {
        const std::int64_t slack = (kernels.across.vectors + 1) * kernels.lanes + reach(windows, 2);
        const std::int64_t windows_each = quotient_up(shape.rows * shape.columns, kernels.lanes) * kernels.lanes;
        planes = scratch.take(shape.channels_each * shape.floats + slack);
        const std::int64_t depth = shape.channels_each * windows.tap_count();
        panel = scratch.take(shape.filters.width * depth);
        const std::int64_t panels = std::min(shape.filters.count(), most_panels(shape));
        sums = scratch.take(panels * shape.filters.width * windows_each);
        results = scratch.take(kernels.lanes * windows_each);
        numbers = scratch.take(kernels.lanes);
        line = Target::take_line(scratch, operands, epilogue, shape.rows * shape.columns);
    }
};

// How a plane is filled: its rows top … bottom − 1 come from memory, the others are zero.
struct PlaneCopy {
    PlaneCall call{};   // without addresses
    std::int64_t from;  // bytes from the channel's first element
    std::int64_t top;
    std::int64_t bottom;
};

// Computes some outputs of a patch, one after the other, for one worker.
class DirectWorker {
public:
    DirectWorker(const Convolution& convolution, const DirectShape& shape, const FilterMethod::Operands& operands,
                 const Patches& blocks, Scratch scratch)
        : convolution_(convolution),
          blocks_(blocks),
          shape_(shape),
          operands_(operands),
          windows_(convolution.windows()),
          kernels_(*convolution.planes),
          memory_(scratch, windows_, shape, convolution.operands, *convolution.epilogue, kernels_),
          ending_(operands.target.ending()),
          in_place_(operands.target.takes_sums(DataType::float32)) {}

    void compute(std::int64_t index) {
        begin(index);
        for (std::int64_t channel = 0; channel < shape_.channels; channel += shape_.channels_each) {
            const std::int64_t channels = std::min(shape_.channels_each, shape_.channels - channel);
            fill_planes(channel, channels);
            const Depths depths{channel * windows_.tap_count(), channels * windows_.tap_count(),
                                channel + channels == shape_.channels};
            multiply(depths);
        }
    }

private:
    void begin(std::int64_t index) {
        const std::int64_t parts = blocks_.parts(shape_), product = index / parts / blocks_.patches();
        patch_ = blocks_.patch(index / parts % blocks_.patches());
        place_ = {product / convolution_.groups, product % convolution_.groups};
        first_panel_ = index % parts * blocks_.panels();
        last_panel_ = std::min(first_panel_ + blocks_.panels(), shape_.filters.count());
        left_ = (patch_.depth * windows_.counts[1] + patch_.row) * windows_.counts[2] + patch_.column;
        set_endings();
        const Slots down(windows_, 1, patch_.rows),
            across(windows_, 2, patch_.columns, shape_.along && kernels_.has_places);
        if (down != down_ || across != across_) {
            down_ = down, across_ = across;
            set_places();
            set_offsets();
        }
        copies_.clear();
        for (std::int64_t x = 0; x < across_.planes(); ++x) {
            for (std::int64_t y = 0; y < down_.planes(); ++y) {
                copies_.push_back(copy_of(down_.first(y), across_.first(x)));
            }
        }
    }

    // Those of some channels: `from` … from + count − 1 of a sum.
    struct Depths {
        std::int64_t from;
        std::int64_t count;
        bool are_last;
    };

    // Every panel of filters meets all windows in the planes.
    void multiply(const Depths& depths) const {
        for (std::int64_t p = first_panel_; p < last_panel_; ++p) {
            const float* const filters = filters_of_panel(p, depths.from, depths.count);
            if (shape_.along) {
                along(p, filters, depths);
            } else {
                across(p, filters, depths);
            }
            if (depths.are_last) {
                finish(p);
            }
        }
    }

    std::int64_t plane() const { return down_.size * across_.size; }

    // What tiles do with the sums of each panel of filters, if they do it.
    void set_endings() {
        if (shape_.along || !ending_) {
            return;
        }
        ends_at_once_ = !in_place_ && shape_.channels_each >= shape_.channels;
        const std::int64_t width = shape_.filters.width;
        numbers_.resize(static_cast<std::size_t>((last_panel_ - first_panel_) * width));
        endings_.clear();
        for (std::int64_t p = first_panel_; p < last_panel_; ++p) {
            const auto first = static_cast<std::size_t>((p - first_panel_) * width);
            const auto rows = std::span(numbers_).subspan(first, static_cast<std::size_t>(shape_.filters.in(p)));
            endings_.push_back(ending_->at(place_, shape_.filters.first(p), left_, patch_.count(), rows));
        }
    }

    // Where tiles along the outputs find the windows.
    void set_places() {
        places_.clear();
        for (std::int64_t i = 0; shape_.along && i < patch_.count(); ++i) {
            places_.push_back(i / patch_.columns * across_.size + i % patch_.columns);
        }
    }

    void set_offsets() {
        const std::int64_t taps = windows_.tap_count(), planes = across_.planes() * down_.planes();
        offsets_.resize(static_cast<std::size_t>(shape_.channels_each * taps));
        for (std::int64_t t = 0; t < taps; ++t) {
            const Spatial tap = windows_.tap(t);
            const std::int64_t index =
                tap[0] * planes + across_.plane_of(tap[2]) * down_.planes() + down_.plane_of(tap[1]);
            const std::int64_t at = index * plane() + down_.place(tap[1]) * across_.size + across_.place(tap[2]);
            for (std::int64_t c = 0; c < shape_.channels_each; ++c) {
                offsets_[static_cast<std::size_t>(c * taps + t)] = at + c * windows_.taps[0] * planes * plane();
            }
        }
    }

    // The elements of a channel's plane that begins with this row and column. The same for every channel.
    PlaneCopy copy_of(std::int64_t row, std::int64_t column) const {
        const WindowPanels& from = operands_.windows;
        const Spatial &strides = windows_.strides, &sizes = from.sizes();
        const std::int64_t columns = across_.size, item = static_cast<std::int64_t>(item_size(from.type()));
        const std::int64_t y = patch_.row * strides[1] + row - windows_.padding[1];
        const std::int64_t x = patch_.column * strides[2] + column - windows_.padding[2];
        const auto first_inside = [](std::int64_t at, std::int64_t stride) {
            return at < 0 ? (stride - 1 - at) / stride : 0;
        };
        const auto last_inside = [](std::int64_t at, std::int64_t stride, std::int64_t size) {
            return at < size ? (size - 1 - at) / stride + 1 : 0;
        };
        PlaneCopy copy{};
        copy.top = std::min(first_inside(y, strides[1]), down_.size);
        copy.bottom = std::clamp(last_inside(y, strides[1], sizes[1]), copy.top, down_.size);
        PlaneCall& call = copy.call;
        call.begin = std::min(first_inside(x, strides[2]), columns);
        call.end = std::clamp(last_inside(x, strides[2], sizes[2]), call.begin, columns);
        call.pitch = call.count = columns;
        call.rows = copy.bottom - copy.top;
        call.row_step = strides[1] * from.strides[1];
        call.step = strides[2] * from.strides[2];
        copy.from = (y + copy.top * strides[1]) * from.strides[1] + (x + call.begin * strides[2]) * from.strides[2];
        if (call.begin == 0 && call.end == columns && call.step == item &&
            call.row_step == columns * item) {  // as one row
            call.count = call.end = call.pitch = call.rows * columns;
            call.rows = std::min<std::int64_t>(call.rows, 1);
        }
        return copy;
    }

    // One plane after the other, because each writes beyond its end.
    void fill_planes(std::int64_t channel, std::int64_t channels) const {
        const WindowPanels& from = operands_.windows;
        const PlaneKernel kernel = from.type() == DataType::float16 ? kernels_.half_plane : kernels_.plane;
        const std::byte* const first = from.data + place_[0] * from.batch[0] + place_[1] * from.batch[1];
        const std::int64_t columns = across_.size, height = down_.size;
        float* out = memory_.planes;
        for (std::int64_t c = channel; c < channel + channels; ++c) {
            for (std::int64_t k = 0; k < windows_.taps[0]; ++k) {
                const std::int64_t z =
                    patch_.depth * windows_.strides[0] + k * windows_.dilations[0] - windows_.padding[0];
                const bool inside = z >= 0 && z < from.sizes()[0];
                for (const PlaneCopy& copy : copies_) {
                    const std::int64_t top = inside ? copy.top : height, bottom = inside ? copy.bottom : height;
                    std::fill_n(out, top * columns, 0.0f);
                    if (bottom > top) {
                        PlaneCall call = copy.call;
                        call.out = out + top * columns;
                        call.in = first + c * from.channel + z * from.strides[0] + copy.from;
                        kernel(call);
                    }
                    std::fill_n(out + bottom * columns, (height - bottom) * columns, 0.0f);
                    out += plane();
                }
            }
        }
    }

    const float* filters_of_panel(std::int64_t panel, std::int64_t from, std::int64_t depth) const {
        if (operands_.panels != nullptr) {
            return operands_.panels->at(place_, panel, from).as<float>();
        }
        const std::int64_t lines = shape_.filters.in(panel), width = shape_.along ? shape_.filters.width : lines;
        operands_.filters.pack({place_, shape_.filters.first(panel), lines, from, depth, width}, memory_.panel,
                               *convolution_.kernels);
        return memory_.panel;
    }

    // The filters that are read after those of a panel, which meet so many tiles.
    Ahead ahead(std::int64_t panel, const Depths& depths, std::int64_t width, std::int64_t tiles) const {
        if (operands_.panels == nullptr) {
            return {};
        }
        const NumbersAt next =
            operands_.panels->after(place_, panel, first_panel_, last_panel_, depths.from, depths.count);
        return {next, width, depths.count, tiles};
    }

    // Windows in whole vectors.
    std::int64_t padded() const { return quotient_up(patch_.count(), kernels_.lanes) * kernels_.lanes; }

    // From row to row, which are outputs.
    std::int64_t sums_step() const {
        return ends_at_once_ ? tiles_across().width * kernels_.lanes
               : in_place_   ? operands_.target.out.row / std::int64_t{sizeof(float)}
                             : padded();
    }

    float* sums_of(std::int64_t panel) const {
        if (in_place_ && !shape_.along) {
            return results_of(shape_.filters.first(panel));
        }
        if (ends_at_once_) {
            return memory_.sums;
        }
        return memory_.sums + (panel - first_panel_) * shape_.filters.width * padded();
    }

    // Where the results of an output are, if sums may be there, too.
    float* results_of(std::int64_t output) const {
        return reinterpret_cast<float*>(operands_.target.out.row_at(place_, output)) + left_;
    }

    // Of vectors of windows.
    Division tiles_across() const {
        return Division::even(quotient_up(patch_.count(), kernels_.lanes), kernels_.across.vectors);
    }

    void across(std::int64_t panel, const float* filters, const Depths& depths) const {
        const Division tiles = tiles_across();
        const std::int64_t height = shape_.filters.in(panel);
        const Ahead next = ahead(panel, depths, height, tiles.count());
        for (std::int64_t t = 0; t < tiles.count(); ++t) {
            WindowTileCall call{filters,
                                height,
                                memory_.planes + tiles.first(t) * kernels_.lanes,
                                offsets_.data(),
                                depths.count,
                                sums_of(panel),
                                sums_step(),
                                depths.from > 0,
                                nullptr,
                                0,
                                ending_of(panel, depths)};
            next.set(call, t);
            run_tile(kernels_.across.tile(static_cast<int>(height), static_cast<int>(tiles.in(t))), call, tiles, t);
        }
    }

    // What tiles do with a panel's sums.
    const SumEnding* ending_of(std::int64_t panel, const Depths& depths) const {
        return depths.are_last && !endings_.empty() ? &endings_[static_cast<std::size_t>(panel - first_panel_)]
                                                    : nullptr;
    }

    // The tile of some windows. Its call has the sums and the ending of the first tile.
    template <class Call>
    void run_tile(void (*kernel)(const Call&) noexcept, Call& call, const Division& tiles, std::int64_t tile) const {
        const std::int64_t first = tiles.first(tile) * kernels_.lanes;
        call.sums += ends_at_once_ ? 0 : first;
        call.column = first;
        if (in_place_) {
            call.columns = patch_.count() - first;
        }
        kernel(call);
    }

    void along(std::int64_t panel, const float* filters, const Depths& depths) const {
        const std::int64_t width = shape_.filters.width;
        const std::int64_t count = patch_.count(), tiles = quotient_up(count, kernels_.along.rows);
        const std::int64_t vectors = quotient_up(shape_.filters.in(panel), kernels_.lanes);
        float* const sums = sums_of(panel);
        const Ahead next = ahead(panel, depths, width, tiles);
        for (std::int64_t t = 0; t < tiles; ++t) {
            const std::int64_t first = count * t / tiles, last = count * (t + 1) / tiles;  // about as many for each
            WindowTileCall call{filters,         width,          memory_.planes,
                                offsets_.data(), depths.count,   sums + first * width,
                                width,           depths.from > 0};
            call.places = places_.data() + first;
            next.set(call, t);
            kernels_.along.tile(static_cast<int>(last - first), static_cast<int>(vectors))(call);
        }
    }

    void finish(std::int64_t panel) const {
        const std::int64_t first = shape_.filters.first(panel), outputs = shape_.filters.in(panel);
        if (!shape_.along) {
            return store(sums_of(panel), sums_step(), first, outputs);
        }
        for (std::int64_t o = 0; o < outputs; o += kernels_.lanes) {
            finish_vector(sums_of(panel) + o, first + o, std::min<std::int64_t>(kernels_.lanes, outputs - o));
        }
    }

    // Of tiles along the outputs: sums of some outputs, window by window.
    void finish_vector(const float* sums, std::int64_t first, std::int64_t outputs) const {
        const std::int64_t count = patch_.count();
        float* const results = in_place_ ? results_of(first) : memory_.results;
        const std::int64_t step = in_place_ ? operands_.target.out.row / std::int64_t{sizeof(float)} : count;
        SumEnding ending;
        if (ending_) {
            ending =
                ending_->at(place_, first, left_, count, std::span(memory_.numbers, static_cast<std::size_t>(outputs)));
        }
        convolution_.blocks->scatter(
            {sums, shape_.filters.width, count, results, step, static_cast<int>(outputs), ending_ ? &ending : nullptr});
        store(results, step, first, outputs);
    }

    // Stores the results of some outputs, or finishes those that kernels have made.
    void store(float* sums, std::int64_t step, std::int64_t first, std::int64_t outputs) const {
        for (std::int64_t o = 0; o < outputs; ++o) {
            operands_.target.finish_or_store(ending_, sums + o * step, place_, first + o, left_, patch_.count(),
                                             memory_.line);
        }
    }

    const Convolution& convolution_;
    const Patches& blocks_;
    const DirectShape& shape_;
    const FilterMethod::Operands& operands_;
    const Windows& windows_;
    const ConvolutionKernels& kernels_;
    const DirectMemory memory_;
    const std::optional<Ending> ending_;  // that tiles make
    const bool in_place_;                 // whether sums are added up where the result is
    bool ends_at_once_ = false;  // whether every tile has whole sums and makes the results: all use the same memory
    Patch patch_{};
    Slots down_, across_;
    std::vector<float> numbers_;         // that endings add to rows
    std::vector<SumEnding> endings_;     // by panel of filters; empty: tiles make none
    std::vector<std::int64_t> offsets_;  // by depth
    std::vector<std::int64_t> places_;   // by window, of tiles along the outputs
    std::vector<PlaneCopy> copies_;      // by plane of a channel
    Sizes place_{};
    std::int64_t first_panel_ = 0;
    std::int64_t last_panel_ = 0;
    std::int64_t left_ = 0;  // the first window
};

}  // namespace

DirectShape::DirectShape(const Windows& windows, std::int64_t channels, std::int64_t outputs,
                         const ConvolutionKernels& kernels)
    : channels(channels) {
    const std::int64_t taps = windows.tap_count(), lanes = kernels.lanes;
    channels_each = Division::even(channels, std::max<std::int64_t>(1, ample_depth / taps)).width;
    // Half of the second cache, for the planes.
    const auto cached = static_cast<std::int64_t>(second_cache_bytes() / 2 / sizeof(float)) / channels_each;
    columns = windows.counts[2];
    std::int64_t best = 0;
    for (std::int64_t many = 1; many <= windows.counts[1] && many * columns <= most_patch_columns; ++many) {
        if (many > 1 && plane_floats(windows, Slots(windows, 1, many), columns) > cached) {
            break;
        }
        const std::int64_t whole = windows.counts[1] / many, last = windows.counts[1] % many;
        const std::int64_t vectors = whole * quotient_up(many * columns, lanes) + quotient_up(last * columns, lanes);
        if (many == 1 || vectors <= best + best / 100) {
            best = many == 1 ? vectors : std::min(best, vectors);
            rows = many;
        }
    }
    if (columns > most_patch_columns || plane_floats(windows, Slots(windows, 1, rows), columns) > cached) {
        const std::int64_t step = kernels.across.vectors * lanes;
        const std::int64_t fitting = std::clamp(cached / taps / step * step, step, most_patch_columns / step * step);
        rows = 1;
        columns = std::min(columns, fitting);
    }
    for (std::int64_t fewer = 1; fewer <= rows; ++fewer) {  // which may not share their elements
        floats = std::max(floats, plane_floats(windows, Slots(windows, 1, fewer), columns));
    }
    const auto count = static_cast<double>(rows * columns), depth = static_cast<double>(channels * taps);
    const std::int64_t vectors = quotient_up(outputs, lanes), rest = vectors % kernels.along.vectors;
    const double along_outputs = static_cast<double>(vectors - rest) * kernels.along_cost +
                                 static_cast<double>(rest) * kernels.narrow_along_cost;
    const double across_outputs = static_cast<double>(outputs * quotient_up(rows * columns, lanes));
    along = along_outputs * count * (depth + transposing) < across_outputs * depth;
    filters =
        along ? Division{outputs, std::min<std::int64_t>(quotient_up(outputs, lanes), kernels.along.vectors) * lanes}
              : Division::even(outputs, kernels.across.rows);
}

// Single elements lie side by side as they are.
bool Direct::fits(const Convolution& convolution) {
    const Windows& windows = convolution.windows();
    const std::int64_t taps = windows.tap_count();
    return convolution.channels * taps > 0 && taps <= most_plane_taps && windows.count() > 0 &&
           !windows.is_element(convolution.sizes);
}

Direct::Direct(const Convolution& convolution)
    : Direct(convolution,
             DirectShape(convolution.windows(), convolution.channels, convolution.outputs, *convolution.planes)) {}

Direct::Direct(const Convolution& convolution, const DirectShape& shape)
    : FilterMethod(convolution, shape.filters, shape.along), shape_(shape) {}

std::size_t Direct::scratch_bytes() const {
    return scratch_of<DirectMemory>(convolution_.windows(), shape_, convolution_.operands, *convolution_.epilogue,
                                    *convolution_.planes);
}

void Direct::compute(RunContext& context, const Operands& operands) const {
    const Patches blocks(convolution_, shape_, context.workers_for(cost()));
    context.each_with(
        convolution_.batch * convolution_.groups * blocks.count(shape_), cost(),
        [&](Scratch scratch) { return DirectWorker(convolution_, shape_, operands, blocks, scratch); },
        [](DirectWorker& worker, std::int64_t i) { worker.compute(i); });
}

}  // namespace dmlgraph::cpu
