#include "cpu/products/contributions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <vector>

#include "cpu/products/sharing.h"
#include "cpu/quotient.h"
#include "cpu/runtime/processors.h"
#include "cpu/runtime/scratch.h"

namespace dmlgraph::cpu {
namespace {

// The numbers of a line that are multiplied at a time. Sums depend on it, so it is the same on every processor.
constexpr std::int64_t most_multiplied = 320;
constexpr std::int64_t results_at_once = 4096;  // that an epilogue takes
constexpr std::int64_t most_lines_in_place =
    32;  // for so few lines of filters, packing elements takes longer than it saves, …
constexpr std::int64_t most_lines_near = 128;  // … for these, too, if the channels are in few pages
constexpr std::int64_t near_bytes = 256 << 10;
constexpr std::int64_t page_floats = 1024;
constexpr std::int64_t near_sums = 6144;  // contributions that stay in the first cache
constexpr double packing_elements = 3;    // the time to pack a vector of elements, in that of its multiply-add, …
constexpr double adding_near =
    4;                            // … to store contributions and add them to outputs if they stay in the first cache, …
constexpr double adding_far = 8;  // … if not, …
constexpr double beginning = 4000;  // … and to begin a block

std::int64_t depth_of(std::int64_t channels) { return quotient_up(channels, quotient_up(channels, most_multiplied)); }

// Elements or outputs first … last − 1 along a dimension.
struct Range {
    std::int64_t first;
    std::int64_t last;

    std::int64_t count() const { return last - first; }
};

// The elements that contribute to outputs.
Range elements_of(const ContributionShape& shape, std::size_t d, Range outputs) {
    const Windows& windows = shape.windows;
    const std::int64_t stride = windows.strides[d], reach = (windows.taps[d] - 1) * windows.dilations[d];
    const auto below = [&](std::int64_t x) { return x < 0 ? -quotient_up(-x, stride) : x / stride; };  // rounded down
    const std::int64_t first =
        std::clamp<std::int64_t>(-below(reach - outputs.first - windows.padding[d]), 0, shape.sizes[d]);
    return {first, std::clamp(below(outputs.last - 1 + windows.padding[d]) + 1, first, shape.sizes[d])};
}

// The places of a band of so many elements along its dimension, as tiles write them: from line to line. Lines whose
// distance is a multiple of a page would compete for the same places of the cache.
std::int64_t pitch_of(std::int64_t places, const Tiles& tiles) {
    const std::int64_t padded = quotient_up(places, tiles.lanes) * tiles.lanes;
    return padded % (page_floats / 4) == 0 ? padded + tiles.lanes : padded;
}

// The elements at one place along the bands' dimension.
std::int64_t places_of_element(const ContributionShape& shape) {
    std::int64_t places = 1;
    for (std::size_t d = shape.along + 1; d < most_spatial; ++d) {
        places *= shape.sizes[d];
    }
    return places;
}

// The most places of a band.
std::int64_t most_places(const ContributionShape& shape, std::int64_t steps) {
    const std::size_t d = shape.along;
    if (shape.one_band || steps >= shape.steps()) {
        return shape.sizes[0] * shape.sizes[1] * shape.sizes[2];
    }
    const Windows& windows = shape.windows;
    const std::int64_t reach = (windows.taps[d] - 1) * windows.dilations[d];
    const std::int64_t elements = (steps * windows.strides[d] - 1 + reach) / windows.strides[d] + 1;
    return std::min(elements, shape.sizes[d]) * places_of_element(shape);
}

// What stays in a second cache of so many floats.
struct Cached {
    std::int64_t elements;
    std::int64_t sums;

    explicit Cached(std::size_t bytes)
        : elements(static_cast<std::int64_t>(bytes / sizeof(float)) / 2),
          sums(static_cast<std::int64_t>(bytes / sizeof(float)) / 4) {}
};

// The floats of a band that long: of its packed elements, and of a unit's contributions.
struct BandFloats {
    std::int64_t elements;
    std::int64_t sums;

    BandFloats(const ContributionShape& shape, std::int64_t steps, const Tiles& tiles) {
        const std::int64_t places = most_places(shape, steps);
        elements = quotient_up(places, tiles.lanes) * tiles.lanes * shape.channels;
        sums = shape.lines.lines * pitch_of(places, tiles);
    }
    bool fit(const Cached& cached) const { return elements <= cached.elements && sums <= cached.sums; }
};

// The blocks with which the workers end soonest.
ContributionBlocks blocks_of(const ContributionShape& shape, std::int64_t pictures, const Tiles& tiles,
                             const Cached& cached, int workers) {
    const std::int64_t units = shape.units(), steps = shape.one_band ? 1 : shape.steps();
    ContributionBlocks best;
    for (std::int64_t bands = 1; bands <= steps; bands += 1 + bands / 8) {
        const std::int64_t each = quotient_up(steps, bands);
        const BandFloats floats(shape, each, tiles);
        if (!floats.fit(cached) && each > 1) {
            continue;
        }
        each_division(units, units, workers, [&](std::int64_t some) {
            const auto vectors = static_cast<double>(quotient_up(most_places(shape, each), tiles.lanes));
            const auto lines = static_cast<double>(some * shape.lines.lines);
            const double adding = floats.sums <= near_sums ? adding_near : adding_far;
            const double cost = vectors * static_cast<double>(shape.channels) * (lines + packing_elements) +
                                vectors * lines * adding + beginning;
            const double time = makespan(pictures * quotient_up(steps, each) * quotient_up(units, some), cost, workers);
            if (best.time == 0 || time < best.time) {
                best = {each, some, time};
            }
        });
    }
    return best;
}

// Lines of filters: of a unit's output o and tap t, line o · taps + t.
class TapLines final : public PanelSource {
public:
    TapLines(const Tensor& filters, std::int64_t groups, const ContributionShape& shape)
        : shape_(shape),
          data_(filters.data),
          type_(filters.type),
          group_(filters.strides[0] * (filters.sizes[0] / groups)),
          channel_(filters.strides[0]),
          output_(filters.strides[1]) {
        for (int d = 2; d < filters.rank; ++d) {
            strides_[static_cast<std::size_t>(most_spatial - filters.rank + d)] = filters.strides[d];
        }
    }

    void pack(const PanelPart& part, NumbersTo to, const ProductKernels& kernels) const override {
        const std::int64_t taps = shape_.taps(),
                           outputs = std::min(shape_.unit, shape_.outputs - part.batch[2] * shape_.unit);
        const std::int64_t present = std::clamp<std::int64_t>(outputs * taps - part.first, 0, part.lines);
        const auto item = static_cast<std::int64_t>(item_size(type_));
        if (lie_in_order(item)) {
            const MatrixPanels matrix(data_, type_, {0, group_, shape_.unit * output_}, item, channel_);
            return matrix.pack({part.batch, part.first, present, part.first_depth, part.depth, part.width}, to,
                               kernels);
        }
        auto* const out = to.as<float>();
        std::vector<float> line(static_cast<std::size_t>(part.depth));
        std::fill_n(out, part.depth * part.width, 0.0f);
        for (std::int64_t i = 0; i < present; ++i) {
            const std::int64_t index = part.first + i, tap = index % taps;
            const std::int64_t output = part.batch[2] * shape_.unit + index / taps;
            const Spatial& sizes = shape_.windows.taps;
            const std::int64_t at = tap / sizes[2] / sizes[1] * strides_[0] + tap / sizes[2] % sizes[1] * strides_[1] +
                                    tap % sizes[2] * strides_[2];
            const std::byte* const from =
                data_ + part.batch[1] * group_ + output * output_ + at + part.first_depth * channel_;
            kernels.line_of(type_)(line.data(), from, channel_, part.depth);
            for (std::int64_t k = 0; k < part.depth; ++k) {
                out[k * part.width + i] = line[static_cast<std::size_t>(k)];
            }
        }
    }

private:
    // Whether the lines of neighbouring taps and outputs lie side by side.
    bool lie_in_order(std::int64_t item) const {
        std::int64_t step = item;
        for (std::size_t d = most_spatial; d-- > 0;) {
            if (shape_.windows.taps[d] > 1 && strides_[d] != step) {
                return false;
            }
            step *= shape_.windows.taps[d];
        }
        return output_ == step || shape_.outputs == 1;
    }

    const ContributionShape& shape_;
    const std::byte* data_;
    DataType type_;
    std::int64_t group_, channel_, output_;
    Spatial strides_{};
};

// Of the product of all taps.
ProductSizes sizes_of(const Convolution& convolution) {
    ProductSizes sizes = convolution.product();
    sizes.m *= convolution.windows().tap_count();
    sizes.n = convolution.sizes[0] * convolution.sizes[1] * convolution.sizes[2];
    sizes.k = convolution.channels;
    return sizes;
}

// The memory of a worker.
struct ContributionMemory {
    float* columns;  // panels of elements
    float* sums;     // contributions to a unit
    float* results;  // of some rows of outputs
    std::byte* line;

    ContributionMemory(Scratch& scratch, const ContributionShape& shape, std::size_t operands, const Epilogue& epilogue,
                       const Tiles& tiles) {
        const Cached cached(second_cache_bytes());
        const BandFloats least(shape, 1, tiles), all(shape, shape.steps(), tiles);
        columns = scratch.take(std::max(least.elements, std::min(all.elements, cached.elements)));
        sums = scratch.take(std::max(least.sums, std::min(all.sums, cached.sums)));
        results = scratch.take(std::max(shape.windows.counts[2], results_at_once));
        line = Target::take_line(scratch, operands, epilogue, std::min(results_at_once, shape.windows.count()));
    }
};

// What the blocks of a run have in common.
struct ContributionRun {
    const Convolution& convolution;
    const ContributionShape& shape;
    const WindowPanels& elements;  // a column for each
    MatrixPanels matrix;           // the same, if they are a matrix
    const Panels& panels;          // of the filters
    const Target& target;
};

// Computes blocks, one after the other, for one worker.
class ContributionWorker {
public:
    ContributionWorker(const ContributionRun& run, const ContributionBlocks& blocks, Scratch scratch)
        : run_(run),
          blocks_(blocks),
          shape_(run.shape),
          tiles_(*run.convolution.kernels),
          memory_(scratch, shape_, run.convolution.operands, *run.convolution.epilogue, tiles_) {}

    void compute(std::int64_t index) {
        begin(index);
        for (std::int64_t u = first_unit_; u < last_unit_; ++u) {
            multiply(u);
            for (std::int64_t o = u * shape_.unit; o < std::min((u + 1) * shape_.unit, shape_.outputs); ++o) {
                add_up(o);
            }
        }
    }

private:
    // A panel of elements: vectors, from a place on.
    struct Columns {
        const float* first;
        std::int64_t step;
        std::int64_t place;
        std::int64_t vectors;
    };

    void begin(std::int64_t index) {
        const std::int64_t parts = quotient_up(shape_.units(), blocks_.units);
        const std::int64_t bands = shape_.one_band ? 1 : quotient_up(shape_.steps(), blocks_.steps),
                           product = index / parts / bands;
        place_ = {product / run_.convolution.groups, product % run_.convolution.groups};
        first_unit_ = index % parts * blocks_.units;
        last_unit_ = std::min(first_unit_ + blocks_.units, shape_.units());
        const std::int64_t step = blocks_.steps * shape_.windows.strides[shape_.along],
                           first = index / parts % bands * step;
        for (std::size_t d = 0; d < most_spatial; ++d) {
            outputs_[d] = {0, shape_.windows.counts[d]};
            elements_[d] = {0, shape_.sizes[d]};
        }
        if (bands > 1) {
            outputs_[shape_.along] = {first, std::min(first + step, shape_.windows.counts[shape_.along])};
            elements_[shape_.along] = dmlgraph::cpu::elements_of(shape_, shape_.along, outputs_[shape_.along]);
        }
        left_ = elements_[shape_.along].first * places_of_element(shape_);
        places_ = elements_[0].count() * elements_[1].count() * elements_[2].count();
        pitch_ = pitch_of(places_, tiles_);
        set_taps();
        set_lines();
        set_columns();
    }

    void set_columns() {
        const std::int64_t width = tiles_.vectors * tiles_.lanes;
        columns_.clear();
        float* packed = memory_.columns;
        for (std::int64_t first = 0; first < places_; first += width) {
            const std::int64_t columns = std::min(width, places_ - first), vectors = quotient_up(columns, tiles_.lanes);
            if (reads_in_place() && columns % tiles_.lanes == 0) {
                const MatrixPanels& matrix = run_.matrix;
                const auto* const numbers =
                    reinterpret_cast<const float*>(matrix.matrix(place_) + (left_ + first) * matrix.line);
                columns_.push_back({numbers, matrix.depth / std::int64_t{sizeof(float)}, first, vectors});
            } else {
                const PanelSource& elements =
                    run_.matrix.data != nullptr ? static_cast<const PanelSource&>(run_.matrix) : run_.elements;
                elements.pack({place_, left_ + first, columns, 0, shape_.channels, vectors * tiles_.lanes}, packed,
                              *run_.convolution.kernels);
                columns_.push_back({packed, vectors * tiles_.lanes, first, vectors});
                packed += vectors * tiles_.lanes * shape_.channels;
            }
        }
    }

    // Every panel of elements meets a unit's filters while it is in the first cache.
    void multiply(std::int64_t unit) const {
        const std::int64_t depth = depth_of(shape_.channels);
        const Sizes filters{0, place_[1], unit};
        for (const Columns& each : columns_) {
            for (std::int64_t from = 0; from < shape_.channels; from += depth) {
                const std::int64_t some = std::min(depth, shape_.channels - from);
                float* sums = memory_.sums + each.place;
                for (std::int64_t p = 0; p < shape_.lines.count(); ++p) {
                    const std::int64_t height = shape_.lines.in(p);
                    const NumbersAt numbers = run_.panels.at(filters, p, from);
                    tiles_.tile(static_cast<int>(height),
                                static_cast<int>(each.vectors))({numbers, 1, height, each.first + from * each.step,
                                                                 each.step, 0, some, sums, pitch_, from > 0});
                    sums += height * pitch_;
                }
            }
        }
    }

    bool reads_in_place() const {
        const MatrixPanels& matrix = run_.matrix;
        const std::int64_t lines = (last_unit_ - first_unit_) * shape_.lines.lines;
        return matrix.data != nullptr && matrix.type == DataType::float32 && matrix.line == sizeof(float) &&
               (lines <= most_lines_in_place ||
                (lines <= most_lines_near && matrix.depth * std::min(shape_.channels, most_multiplied) <= near_bytes));
    }

    // Where tap k of a dimension is in the filter.
    std::int64_t in_filter(std::size_t d, std::int64_t k) const {
        return shape_.windows.mirrored ? shape_.windows.taps[d] - 1 - k : k;
    }

    // The taps along a row, by phase: the outputs first + q · stride + phase have those that are at some element's
    // distance from them.
    void set_taps() {
        const Windows& windows = shape_.windows;
        const std::int64_t stride = windows.strides[2];
        taps_.clear(), first_tap_.clear();
        for (std::int64_t phase = 0; phase < stride; ++phase) {
            first_tap_.push_back(static_cast<std::int64_t>(taps_.size()));
            for (std::int64_t k = 0; k < windows.taps[2]; ++k) {
                const std::int64_t distance = outputs_[2].first + phase + windows.padding[2] - k * windows.dilations[2];
                if (distance % stride == 0) {
                    taps_.push_back({in_filter(2, k) * pitch_, distance / stride - elements_[2].first});
                }
            }
        }
        first_tap_.push_back(static_cast<std::int64_t>(taps_.size()));
    }

    // The rows of elements that contribute to each row of outputs, at each of the taps across rows.
    void set_lines() {
        const Windows& windows = shape_.windows;
        const auto each_element = [&](std::size_t d, std::int64_t output, const auto& function) {
            for (std::int64_t k = 0; k < windows.taps[d]; ++k) {
                const std::int64_t distance = output + windows.padding[d] - k * windows.dilations[d],
                                   element = distance / windows.strides[d];
                if (distance % windows.strides[d] == 0 && element >= elements_[d].first &&
                    element < elements_[d].last) {
                    function(in_filter(d, k), element - elements_[d].first);
                }
            }
        };
        lines_.clear(), first_line_.clear();
        for (std::int64_t z = outputs_[0].first; z < outputs_[0].last; ++z) {
            for (std::int64_t y = outputs_[1].first; y < outputs_[1].last; ++y) {
                first_line_.push_back(static_cast<std::int64_t>(lines_.size()));
                each_element(0, z, [&](std::int64_t tap_z, std::int64_t element_z) {
                    each_element(1, y, [&](std::int64_t tap_y, std::int64_t element_y) {
                        const std::int64_t tap = (tap_z * windows.taps[1] + tap_y) * windows.taps[2];
                        lines_.push_back(tap * pitch_ +
                                         (element_z * elements_[1].count() + element_y) * elements_[2].count());
                    });
                });
            }
        }
        first_line_.push_back(static_cast<std::int64_t>(lines_.size()));
    }

    // The results of an output, some rows at a time.
    void add_up(std::int64_t output) const {
        const Target& target = run_.target;
        const std::int64_t count = outputs_[2].count(), rows = static_cast<std::int64_t>(first_line_.size()) - 1;
        const bool in_place = target.takes_sums(DataType::float32);
        const std::int64_t some =
            in_place && target.epilogue->empty() ? rows : std::max<std::int64_t>(1, results_at_once / count);
        const std::int64_t first =
            (outputs_[0].first * shape_.windows.counts[1] + outputs_[1].first) * shape_.windows.counts[2] +
            outputs_[2].first;
        const std::int64_t in_unit = output % shape_.unit;
        for (std::int64_t row = 0; row < rows; row += some) {
            const std::int64_t left = first + row * count, now = std::min(some, rows - row);
            float* const out =
                in_place ? reinterpret_cast<float*>(target.out.row_at(place_, output)) + left : memory_.results;
            run_.convolution.add_up({out, now, count, shape_.windows.strides[2],
                                     memory_.sums + in_unit * shape_.taps() * pitch_, elements_[2].count(),
                                     lines_.data(), first_line_.data() + row, taps_.data(), first_tap_.data()});
            if (in_place && target.epilogue->empty()) {
                continue;
            }
            for (std::int64_t done = 0; done < now * count; done += results_at_once) {
                target.store(out + done, place_, output, left + done, std::min(results_at_once, now * count - done),
                             memory_.line);
            }
        }
    }

    const ContributionRun& run_;
    const ContributionBlocks& blocks_;
    const ContributionShape& shape_;
    const Tiles& tiles_;
    ContributionMemory memory_;
    Sizes place_{};
    std::int64_t first_unit_ = 0;
    std::int64_t last_unit_ = 0;
    std::array<Range, most_spatial> outputs_{};
    std::array<Range, most_spatial> elements_{};
    std::int64_t left_ = 0;    // the first element
    std::int64_t places_ = 0;  // elements
    std::int64_t pitch_ = 0;   // of contributions, from line to line
    std::vector<Columns> columns_;
    std::vector<TapOfRow> taps_;
    std::vector<std::int64_t> first_tap_;  // by phase
    std::vector<std::int64_t> lines_;
    std::vector<std::int64_t> first_line_;  // by row
};

}  // namespace

ContributionShape::ContributionShape(const Windows& windows, const Spatial& sizes, std::int64_t channels,
                                     std::int64_t outputs, const Tiles& tiles, std::size_t cache_bytes)
    : windows(windows), sizes(sizes), channels(channels), outputs(outputs) {
    constexpr std::int64_t most_lines_of_unit = 28;
    constexpr std::int64_t beginning_tile = 2;  // as long as so many lines of a tile take
    std::int64_t least = 0;
    for (std::int64_t some = 1; some == 1 || (some <= outputs && some * taps() <= most_lines_of_unit); ++some) {
        const std::int64_t of_unit = some * taps(),
                           cost = quotient_up(outputs, some) *
                                  (of_unit + quotient_up(of_unit, tiles.rows) * beginning_tile);
        if (some == 1 || cost < least) {
            least = cost, unit = some;
        }
    }
    lines = Division::even(unit * taps(), tiles.rows);
    while (along + 1 < most_spatial && windows.counts[along] == 1) {
        ++along;
    }
    for (std::size_t d = 0; d < along; ++d) {
        one_band |= sizes[d] > 1;
    }
    alone = blocks_of(*this, 1, tiles, Cached(cache_bytes), 1);
}

std::int64_t ContributionShape::steps() const { return quotient_up(windows.counts[along], windows.strides[along]); }

bool Contributions::fits(const Convolution& convolution, const std::vector<Phase>& phases) {
    const Windows& windows = convolution.windows();
    const std::int64_t channels = convolution.channels, outputs = convolution.outputs;
    constexpr Tiles tiles{16, 14, 2, nullptr};  // those of AVX-512
    constexpr std::size_t cache_bytes = 1 << 20;
    constexpr std::int64_t most_stride = 8;  // phases of greater strides are short, and many
    constexpr double filters_of_tile = 8,
                     filling = 3;  // the time to fill a vector of a plane, in that of its multiply-add, …
    constexpr double storing = 4, storing_apart = 32;  // … to store a vector of outputs, side by side or not
    const bool has_terms = channels > 0 && outputs > 0 && windows.tap_count() > 0 && windows.count() > 0;
    if (!has_terms || windows.strides[2] > most_stride) {
        return false;
    }
    const auto depth = static_cast<double>(channels), rows = static_cast<double>(outputs);
    double time = 0;
    for (const Phase& phase : phases) {
        const auto vectors = static_cast<double>(quotient_up(phase.windows.count(), tiles.lanes));
        const auto all = static_cast<double>(phase.windows.tap_count()),
                   across = static_cast<double>(phase.windows.taps[2]);
        const double multiplied = depth * all * (rows + std::ceil(rows / filters_of_tile)),
                     filled = depth * across * filling;
        time +=
            vectors * (multiplied + filled + rows * (windows.strides[2] == 1 ? storing : storing_apart)) + beginning;
    }
    return ContributionShape(windows, convolution.sizes, channels, outputs, tiles, cache_bytes).alone.time < time;
}

Contributions::Contributions(const Convolution& convolution)
    : ConvolutionMethod(convolution, sizes_of(convolution)),
      shape_(convolution.windows(), convolution.sizes, convolution.channels, convolution.outputs, *convolution.kernels,
             second_cache_bytes()) {}

std::size_t Contributions::scratch_bytes() const {
    return scratch_of<ContributionMemory>(shape_, convolution_.operands, *convolution_.epilogue, *convolution_.kernels);
}

// Lines for each group and unit.
std::shared_ptr<const Weights> Contributions::pack(const RunContext& fixed, const Tensor& filters,
                                                   const ZeroPoints*) const {
    const Packing packing{
        3, {1, convolution_.groups, shape_.units()}, shape_.channels, shape_.lines, false, convolution_.kernels};
    return fixed.made<Panels>(std::tuple(filters, shape_.unit, packing),
                              [&] { return Panels(TapLines(filters, convolution_.groups, shape_), packing); });
}

void Contributions::run(RunContext& context, ConvolutionRun& run) const {
    const std::shared_ptr<const Weights> made = run.weights == nullptr ? pack(context, run.filters, nullptr) : nullptr;
    const Weights& weights = made != nullptr ? *made : *run.weights;
    Convolution of_elements = convolution_;
    of_elements.phase = {.windows = {.counts = convolution_.sizes}};
    const WindowPanels elements = of_elements.windows_in(run.input);
    const ContributionRun all{convolution_, shape_, elements, elements.elements(), static_cast<const Panels&>(weights),
                              run.target};
    const std::int64_t pictures = convolution_.batch * convolution_.groups;
    const int workers = context.workers_for(cost());
    const ContributionBlocks blocks =
        workers == 1 ? shape_.alone
                     : blocks_of(shape_, pictures, *convolution_.kernels, Cached(second_cache_bytes()), workers);
    const std::int64_t bands = shape_.one_band ? 1 : quotient_up(shape_.steps(), blocks.steps);
    context.each_with(
        pictures * bands * quotient_up(shape_.units(), blocks.units), cost(),
        [&](Scratch scratch) { return ContributionWorker(all, blocks, scratch); },
        [](ContributionWorker& worker, std::int64_t i) { worker.compute(i); });
}

}  // namespace dmlgraph::cpu
