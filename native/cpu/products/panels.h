// The operands of products as panels (see kernels/product.h): packed block by block during a run, or once before all
// runs if the operand stays the same.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "cpu/kernels/numbers.h"
#include "cpu/kernels/product.h"
#include "cpu/quotient.h"
#include "cpu/runtime/memory.h"
#include "cpu/runtime/step.h"
#include "cpu/tensor/layout.h"

namespace dmlgraph::cpu {

inline constexpr std::int64_t widest_panel = 64;  // lines

// Some numbers of a panel: those of `lines` lines, from `first` on, at the depths first_depth … first_depth + depth − 1
// of the product with these places in the batch.
struct PanelPart {
    const Sizes& batch;
    std::int64_t first;
    std::int64_t lines;
    std::int64_t first_depth;
    std::int64_t depth;
    std::int64_t width;  // of the panel: lines that do not exist are zero
};

// Where the numbers of an operand come from.
class PanelSource {
public:
    virtual ~PanelSource() = default;
    virtual void pack(const PanelPart& part, NumbersTo out, const ProductKernels& kernels) const = 0;
    auto operator<=>(const PanelSource&) const = default;
};

// A source whose lines can be made, too, one behind the other.
class LineSource : public PanelSource {
public:
    // Each has the depths of the part.
    virtual void lines(const PanelPart& part, float* out) const = 0;
};

// Matrices in memory, with steps in bytes from matrix to matrix, from line to line and along a line.
class MatrixPanels final : public PanelSource {
public:
    MatrixPanels() = default;
    MatrixPanels(const std::byte* data, DataType type, const Sizes& batch, std::int64_t line, std::int64_t depth)
        : data(data), type(type), batch(batch), line(line), depth(depth) {}

    void pack(const PanelPart& part, NumbersTo out, const ProductKernels& kernels) const override;
    // The opposite of `pack`: writes the numbers of a panel to where they come from, if they are as wide there.
    void unpack(const PanelPart& part, NumbersAt panel) const;
    const std::byte* matrix(const Sizes& place) const;
    // Whether numbers are packed as they are.
    bool is_copied() const { return item_size(type) == NumbersAt::size; }
    // Whether the numbers of a line lie side by side.
    bool lies_along() const { return depth == static_cast<std::int64_t>(item_size(type)); }
    template <class Function>
    void each_address(const Function& function) {
        function(data);
    }
    auto operator<=>(const MatrixPanels&) const = default;

    const std::byte* data = nullptr;
    DataType type{};
    Sizes batch{};
    std::int64_t line = 0;
    std::int64_t depth = 0;
};

// How lines are divided into panels: all of the same width, except that the last one has the lines that are left.
struct Division {
    std::int64_t lines = 0;
    std::int64_t width = 1;

    // Panels of about the same width, at most `most`.
    static Division even(std::int64_t lines, std::int64_t most);

    std::int64_t count() const { return quotient_up(lines, width); }
    std::int64_t first(std::int64_t panel) const { return panel * width; }
    std::int64_t in(std::int64_t panel) const { return lines - first(panel) < width ? lines - first(panel) : width; }
    template <class Function>
    void each_address(const Function&) {}
    auto operator<=>(const Division&) const = default;
};

// How all panels of an operand are packed. In memory a panel is as wide as its lines are many, or always
// `division.width` if it is padded.
struct Packing {
    int rank = 0;   // of the batch
    Sizes batch{};  // its sizes; 1 along dimensions where matrices repeat
    std::int64_t depth = 0;
    Division division;
    bool padded = false;
    const ProductKernels* kernels = nullptr;
    bool as_bytes = false;  // words, padded, as `IntegerKernels::tiles_of_bytes` read them

    template <class Function>
    void each_address(const Function&) {}  // kernels are what the process has once
    auto operator<=>(const Packing&) const = default;
};

// All panels of an operand.
class Panels final : public Weights {
public:
    Panels() = default;
    Panels(const PanelSource& from, const Packing& packing);

    bool present() const { return memory_.get() != nullptr; }
    // Writes the numbers to where they come from: `to` has an `unpack`, as MatrixPanels has.
    template <class Source>
    void unpack(const Source& to) const {
        std::vector<std::uint32_t> words;
        each_panel([&](const PanelPart& part, std::int64_t offset) {
            to.unpack(part, are_bytes() ? words_at(part, offset, words) : NumbersAt::of_bytes(memory_.get()) + offset);
        });
    }
    // Of panels of one line: the lines.
    MatrixPanels lines() const;
    bool are_bytes() const { return packing_.as_bytes; }
    std::size_t bytes() const { return memory_.bytes(); }
    // Of padded panels: from depth to depth.
    std::int64_t step() const { return packing_.division.width * item_ / NumbersAt::size; }
    // The numbers of a panel from a depth on.
    NumbersAt at(const Sizes& place, std::int64_t panel, std::int64_t depth) const;
    // Those that follow the depths from … from + depth − 1 of a panel, if the panels first … last − 1 meet something
    // depth by depth; null after the last.
    NumbersAt after(const Sizes& place, std::int64_t panel, std::int64_t first, std::int64_t last, std::int64_t from,
                    std::int64_t depth) const;

private:
    // Calls function(part, offset) for all panels, with their places in memory in numbers.
    template <class Function>
    void each_panel(const Function& function) const {
        const Division& division = packing_.division;
        std::int64_t count = 1, offset = 0;
        for (int d = 0; d < packing_.rank; ++d) {
            count *= packing_.batch[d];
        }
        for (std::int64_t i = 0; i < count; ++i) {
            const Sizes place = place_in(packing_.batch, packing_.rank, i);
            for (std::int64_t p = 0; p < division.count(); ++p) {
                function(PanelPart{place, division.first(p), division.in(p), 0, packing_.depth, panel_width(p)},
                         offset);
                offset += panel_width(p) * packing_.depth;
            }
        }
    }
    std::int64_t panel_width(std::int64_t panel) const {
        return packing_.padded ? packing_.division.width : packing_.division.in(panel);
    }
    // The words of a panel of bytes, which are put into `words`.
    NumbersAt words_at(const PanelPart& panel, std::int64_t offset, std::vector<std::uint32_t>& words) const;

    Packing packing_;
    Memory memory_;
    std::int64_t item_ = NumbersAt::size;  // bytes of a number
    Sizes steps_{};                        // numbers from matrix to matrix
};

// Panels of constants, which steps share.
template <class Source>
std::shared_ptr<const Panels> shared_panels(const RunContext& fixed, const Source& from, const Packing& packing) {
    return fixed.made<Panels>(std::tuple(from, packing), [&] { return Panels(from, packing); });
}

// Numbers that are read soon. Weights lie in memory: while tiles compute, they fetch what comes next into the caches.
// Each tile fetches a part, so that memory has the time of all of them.
class Ahead {
public:
    Ahead() = default;
    // `width` numbers at each depth from `first` on, or none if that is null, while `tiles` meet as many depths.
    Ahead(NumbersAt first, std::int64_t width, std::int64_t depth, std::int64_t tiles)
        : first_(first), step_(quotient_up(width, tiles)), depth_(depth), end_(width * depth) {}

    // Of a TileCall or WindowTileCall.
    template <class Call>
    void set(Call& call, std::int64_t tile) const {
        const std::int64_t from = tile * step_ * depth_;
        if (first_ != nullptr && from < end_) {
            call.next = first_ + from, call.next_step = step_;
        }
    }

private:
    NumbersAt first_;
    std::int64_t step_ = 0;
    std::int64_t depth_ = 0;
    std::int64_t end_ = 0;
};

}  // namespace dmlgraph::cpu
