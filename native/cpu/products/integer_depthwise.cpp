#include "cpu/products/integer_depthwise.h"

#include <algorithm>
#include <cstring>

#include "cpu/quotient.h"
#include "cpu/runtime/scratch.h"
#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t ample_words = 16 << 10;  // words
constexpr std::int64_t ample_period = 128;      // words: it takes longer than to begin a loop
constexpr std::int64_t words_beyond = 8 * 16;   // words that are read and written beyond the last

// The filters' numbers, less their zero points, as words of a row of taps. What a word's number cannot hold is in
// further parts, which are added.
class WordFilters final : public Weights {
public:
    // Filters {outputs, 1, taps…}.
    WordFilters(const Tensor& filters, const Windows& windows, const ZeroPoints& zeros, const IntegerKernels& kernels);

    std::int64_t parts() const { return parts_; }
    // Of a filter, for each part, row of taps, and word of that row.
    const std::uint32_t* of(std::int64_t output) const { return words_.data() + output * each_; }
    std::int32_t sum(std::int64_t output) const { return sums_[static_cast<std::size_t>(output)]; }

    static constexpr std::int64_t most_parts = 3;

private:
    std::int64_t parts_ = 1;
    std::int64_t each_ = 0;  // words of a filter
    std::vector<std::uint32_t> words_;
    std::vector<std::int32_t> sums_;
};

std::uint32_t mask_of(const IntegerKernels& kernels) { return kernels.depths == 2 ? 0xffff : 0xff; }

// Rows of windows that are computed at a time, and the words of their elements.
struct WordBand {
    std::int64_t rows;    // of windows
    std::int64_t height;  // rows of elements
    std::int64_t width;   // words of a row: one for each window
    std::int64_t across;  // words of a row of taps
    std::int64_t reach;   // bytes from the first to the last that a row of taps meets, as whole words

    WordBand(const Windows& windows, const IntegerKernels& kernels)
        : width(windows.counts[2]),
          across(quotient_up(windows.taps[2], kernels.depths)),
          reach((across * kernels.depths - 1) * windows.dilations[2] + 1) {
        const std::int64_t more = (windows.taps[1] - 1) * windows.dilations[1] + 1 - windows.strides[1];
        const std::int64_t ample = (ample_words / (width * across) - more) / windows.strides[1];
        rows = std::clamp(ample, std::int64_t{1}, windows.counts[1]);
        rows = quotient_up(windows.counts[1], quotient_up(windows.counts[1], rows));
        height = height_of(windows, rows);
    }

    static std::int64_t height_of(const Windows& windows, std::int64_t rows) {
        return (rows - 1) * windows.strides[1] + (windows.taps[1] - 1) * windows.dilations[1] + 1;
    }
    std::int64_t plane() const { return height * width; }
    // Bytes of a row, or of all rows one after the other, with those before and after it that taps meet.
    std::int64_t bytes(const Windows& windows) const {
        return windows.padding[2] + height * width * windows.strides[2] + reach;
    }
};

// The memory of a worker.
struct WordBandMemory {
    std::uint32_t* plane;  // for each word of a row of taps: rows of words
    std::int32_t* sums;
    std::int64_t* offsets;
    std::byte* bytes_of_rows;
    std::byte* line;

    WordBandMemory(Scratch& scratch, const Windows& windows, const WordBand& band, std::size_t operands,
                   const Epilogue& epilogue) {
        plane = scratch.take<std::uint32_t>(band.across * band.plane() + words_beyond);
        sums = scratch.take<std::int32_t>(band.rows * band.width + words_beyond);
        offsets = scratch.take<std::int64_t>(WordFilters::most_parts * windows.taps[1] * band.across);
        bytes_of_rows = scratch.take<std::byte>(band.bytes(windows));
        line = Target::take_line(scratch, operands, epilogue, band.rows * band.width);
    }
};

// The words of the elements that some rows of windows meet.
class WordPlane {
public:
    // `zero`: the zero point, less the shift of the form.
    WordPlane(const WindowPanels& from, const Form& form, std::int32_t zero, const WordBand& band,
              const WordBandMemory& memory, const IntegerKernels& kernels)
        : from_(from),
          windows_(from_.windows()),
          band_(band),
          memory_(memory),
          kernels_(kernels),
          flip_(form.flip),
          zero_(static_cast<std::uint32_t>(zero) & mask_of(kernels_)),
          border_(static_cast<std::byte>(static_cast<std::uint32_t>(zero) ^ flip_)) {
        // A byte before the row is that of the previous row, and replaced.
        flat_ = from_.strides[2] == 1 && from_.strides[1] == band.width * windows_.strides[2];
        if (flat_) {
            find_beyond();
        }
    }

    WordPlane(const WordPlane&) = delete;  // calls have addresses of its bits
    WordPlane& operator=(const WordPlane&) = delete;

    const WordBandMemory& memory() const { return memory_; }

    void fill(const std::byte* channel, std::int64_t top, std::int64_t rows) const {
        const std::int64_t height = WordBand::height_of(windows_, rows),
                           y = top * windows_.strides[1] - windows_.padding[1];
        const std::int64_t first = std::clamp(-y, std::int64_t{0}, height);
        const std::int64_t last = std::clamp(from_.sizes()[1] - y, first, height);
        for (std::int64_t across = 0; across < band_.across; ++across) {
            std::uint32_t* const plane = memory_.plane + across * band_.plane();
            std::fill_n(plane, first * band_.width, zero_ * kernels_.ones);
            std::fill(plane + last * band_.width, plane + height * band_.width, zero_ * kernels_.ones);
        }
        if (first == last) {
            return;
        }
        const std::byte* const row = channel + (y + first) * from_.strides[1];
        if (flat_) {
            fill_flat(row, first, last - first);
        } else {
            for (std::int64_t i = first; i < last; ++i) {
                fill_row(row + (i - first) * from_.strides[1], i);
            }
        }
    }

private:
    void convert(const std::byte* bytes, std::int64_t row, std::int64_t count) const {
        for (std::int64_t across = 0; across < band_.across; ++across) {
            WordsCall call;
            call.out = memory_.plane + across * band_.plane() + row * band_.width;
            for (std::int64_t k = 0; k < kernels_.depths; ++k) {
                call.in[k] = bytes + (across * kernels_.depths + k) * windows_.dilations[2];
            }
            call.depths = kernels_.depths;
            call.step = windows_.strides[2];
            call.count = count;
            call.flip = flip_;
            call.replaced = flat_ ? &replaced_[static_cast<std::size_t>(across)] : nullptr;
            kernels_.words(call);
        }
    }

    void fill_row(const std::byte* row, std::int64_t index) const {
        const std::int64_t needed = (band_.width - 1) * windows_.strides[2] + band_.reach;
        const std::int64_t before = std::min(windows_.padding[2], needed);
        const std::int64_t inside = std::clamp(from_.sizes()[2], std::int64_t{0}, needed - before);
        std::byte* const bytes = memory_.bytes_of_rows;
        std::fill_n(bytes, before, border_);
        gather_line(bytes + before, row, from_.strides[2], inside, 1);
        std::fill_n(bytes + before + inside, needed - before - inside, border_);
        convert(bytes, index, band_.width);
    }

    void fill_flat(const std::byte* rows, std::int64_t first, std::int64_t count) const {
        const std::int64_t size = count * from_.strides[1];
        std::memcpy(memory_.bytes_of_rows + windows_.padding[2], rows, static_cast<std::size_t>(size));
        convert(memory_.bytes_of_rows, first, count * band_.width);
    }

    // What of the words of flat rows stays, and what is the zero point instead: the same in every row.
    void find_beyond() {
        const std::int64_t stride = windows_.strides[2], rows = quotient_up(ample_period, band_.width),
                           period = rows * band_.width;
        kept_.assign(static_cast<std::size_t>(band_.across * period), ~std::uint32_t{0});
        others_.assign(kept_.size(), 0);
        for (std::int64_t tap = 0; tap < windows_.taps[2]; ++tap) {
            const std::int64_t place = 32 / kernels_.depths * (tap % kernels_.depths);
            for (std::int64_t i = 0; i < period; ++i) {
                const std::int64_t at = i % band_.width * stride + tap * windows_.dilations[2] - windows_.padding[2];
                if (at < 0 || at >= from_.sizes()[2]) {
                    const auto word = static_cast<std::size_t>(tap / kernels_.depths * period + i);
                    kept_[word] &= ~(mask_of(kernels_) << place);
                    others_[word] |= zero_ << place;
                }
            }
        }
        for (std::int64_t across = 0; across < band_.across; ++across) {
            replaced_.push_back({kept_.data() + across * period, others_.data() + across * period, period});
        }
    }

    const WindowPanels& from_;
    const Windows& windows_;
    const WordBand& band_;
    const WordBandMemory memory_;
    const IntegerKernels& kernels_;
    std::uint8_t flip_;
    std::uint32_t zero_;                 // the zero point as a number of a word
    std::byte border_;                   // … and as an integer of the tensor
    bool flat_;                          // whether rows of elements follow one another as rows of windows do
    std::vector<std::uint32_t> kept_;    // bits of words of a row of taps, for some rows
    std::vector<std::uint32_t> others_;  // … and those instead of the other ones
    std::vector<OtherBits> replaced_;    // for each word of a row of taps
};

// Where each word of a filter meets the plane.
void set_word_offsets(const Windows& windows, const WordBand& band, std::int64_t parts, std::int64_t* offsets) {
    for (std::int64_t part = 0; part < parts; ++part) {
        for (std::int64_t y = 0; y < windows.taps[1]; ++y) {
            for (std::int64_t across = 0; across < band.across; ++across) {
                *offsets++ = across * band.plane() + y * windows.dilations[1] * band.width;
            }
        }
    }
}

WordFilters::WordFilters(const Tensor& filters, const Windows& windows, const ZeroPoints& zeros,
                         const IntegerKernels& kernels) {
    const std::int64_t outputs = filters.sizes[0], taps = windows.tap_count();
    const std::int64_t across = quotient_up(windows.taps[2], kernels.depths);
    const int bits = 32 / kernels.depths;
    const std::int32_t greatest = (1 << (bits - 1)) - 1, least = -greatest - 1;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(taps));
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(outputs * taps));
    for (std::int64_t o = 0; o < outputs; ++o) {
        Sizes sizes{}, strides{};
        std::copy_n(filters.sizes.begin() + 1, filters.rank - 1, sizes.begin());
        std::copy_n(filters.strides.begin() + 1, filters.rank - 1, strides.begin());
        gather(reinterpret_cast<std::byte*>(bytes.data()), filters.data + o * filters.strides[0], filters.rank - 1,
               sizes, strides, 0, taps, 1);
        std::int32_t sum = 0, most = 0;
        for (std::int64_t t = 0; t < taps; ++t) {
            const std::uint8_t byte = bytes[static_cast<std::size_t>(t)];
            const std::int32_t number =
                (filters.type == DataType::int8 ? static_cast<std::int8_t>(byte) : byte) - zeros.of(o);
            numbers[static_cast<std::size_t>(o * taps + t)] = number;
            sum += number;
            most = std::max(most, number < 0 ? (number + least + 1) / least : (number + greatest - 1) / greatest);
        }
        sums_.push_back(sum);
        parts_ = std::max<std::int64_t>(parts_, most);
    }
    each_ = parts_ * windows.taps[1] * across;
    words_.resize(static_cast<std::size_t>(outputs * each_));
    for (std::int64_t o = 0; o < outputs; ++o) {
        for (std::int64_t t = 0; t < taps; ++t) {
            const Spatial tap = windows.tap(t);
            std::int32_t left = numbers[static_cast<std::size_t>(o * taps + t)];
            for (std::int64_t part = 0; part < parts_; ++part) {
                const std::int32_t number = std::clamp(left, least, greatest);
                left -= number;
                const std::int64_t at =
                    o * each_ + (part * windows.taps[1] + tap[1]) * across + tap[2] / kernels.depths;
                words_[static_cast<std::size_t>(at)] |= (static_cast<std::uint32_t>(number) & mask_of(kernels))
                                                        << tap[2] % kernels.depths * bits;
            }
        }
    }
}

}  // namespace

std::size_t IntegerDepthwise::scratch_bytes() const {
    const Windows& windows = convolution_.windows();
    return scratch_of<WordBandMemory>(windows, WordBand(windows, convolution_.kernels->integers), convolution_.operands,
                                      *convolution_.epilogue);
}

std::shared_ptr<const Weights> IntegerDepthwise::pack(const RunContext&, const Tensor& filters,
                                                      const ZeroPoints* filter_zeros) const {
    return std::make_shared<const WordFilters>(filters, convolution_.windows(), *filter_zeros,
                                               convolution_.kernels->integers);
}

void IntegerDepthwise::run(RunContext& context, ConvolutionRun& run) const {
    const std::shared_ptr<const Weights> made =
        run.weights == nullptr ? pack(context, run.filters, run.filter_zeros) : nullptr;
    const auto& filters = static_cast<const WordFilters&>(made != nullptr ? *made : *run.weights);
    const WindowPanels from = convolution_.windows_in(run.input);
    const Windows& windows = from.windows();
    const IntegerKernels& kernels = convolution_.kernels->integers;
    const Form form = form_of(from.type(), Lines::columns, kernels);
    const std::int32_t zero = run.input_zeros->of(0) - form.shift;
    const Target& target = run.target;
    const std::int64_t groups = convolution_.groups, outputs = convolution_.outputs;
    const WordBand band(windows, kernels);
    const std::int64_t bands = quotient_up(windows.counts[1], band.rows);
    const std::int64_t taps = filters.parts() * windows.taps[1] * band.across;
    const auto compute = [&](const WordPlane& plane, std::int64_t index) {
        const WordBandMemory& scratch = plane.memory();
        const std::int64_t channel = index / bands;
        const Sizes place{channel / groups, channel % groups};
        const std::int64_t top = index % bands * band.rows, rows = std::min(band.rows, windows.counts[1] - top);
        plane.fill(from.data + place[0] * from.batch[0] + place[1] * from.batch[1], top, rows);
        // Rows that follow one another are one.
        const std::int64_t joined = windows.strides[1] == 1 ? rows : 1;
        for (std::int64_t o = 0; o < outputs; ++o) {
            const std::int64_t output = place[1] * outputs + o;
            const std::uint32_t initial =
                0u - static_cast<std::uint32_t>(zero) * static_cast<std::uint32_t>(filters.sum(output));
            for (std::int64_t r = 0; r < rows; r += joined) {
                kernels.taps({scratch.sums + r * band.width, scratch.plane + r * windows.strides[1] * band.width,
                              scratch.offsets, filters.of(output), taps, joined * band.width,
                              static_cast<std::int32_t>(initial)});
            }
            target.correct_and_store(scratch.sums, place, o, top * band.width, rows * band.width, scratch.line);
        }
    };
    const std::int64_t count = convolution_.batch * groups * bands;
    const double results = static_cast<double>(count * outputs * band.rows * band.width);
    const double work = results * static_cast<double>(windows.tap_count()) / kernels.depths;
    context.each_with(
        count, work + results * sizeof(float),
        [&](Scratch scratch) {
            const WordBandMemory memory(scratch, windows, band, target.operands.size(), *target.epilogue);
            set_word_offsets(windows, band, filters.parts(), memory.offsets);
            return WordPlane(from, form, zero, band, memory, kernels);
        },
        compute);
}

}  // namespace dmlgraph::cpu
