#include "cpu/products/panels.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace dmlgraph::cpu {

const std::byte* MatrixPanels::matrix(const Sizes& place) const {
    const std::byte* result = data;
    for (int d = 0; d < max_rank; ++d) {
        result += place[d] * batch[d];
    }
    return result;
}

void MatrixPanels::pack(const PanelPart& part, NumbersTo out, const ProductKernels& kernels) const {
    const std::byte* const first = matrix(part.batch) + part.first * line + part.first_depth * depth;
    const PanelCall call{out, part.width, first, line, depth, part.lines, part.depth};
    is_copied() ? kernels.pack(call) : kernels.pack_half(call);
}

void MatrixPanels::unpack(const PanelPart& part, NumbersAt panel) const {
    std::byte* const first = const_cast<std::byte*>(matrix(part.batch)) + part.first * line + part.first_depth * depth;
    const auto write = [&](std::int64_t l, std::int64_t k) {
        std::memcpy(first + l * line + k * depth, panel + (k * part.width + l), NumbersAt::size);
    };
    const bool along = lies_along();
    const std::int64_t outer = along ? part.lines : part.depth, inner = along ? part.depth : part.lines;
    for (std::int64_t i = 0; i < outer; ++i) {
        for (std::int64_t j = 0; j < inner; ++j) {
            along ? write(i, j) : write(j, i);
        }
    }
}

Division Division::even(std::int64_t lines, std::int64_t most) {
    const std::int64_t panels = (lines + most - 1) / most;
    return {lines, (lines + panels - 1) / panels};
}

Panels::Panels(const PanelSource& from, const Packing& packing) : packing_(packing) {
    const Division& division = packing.division;
    const ProductKernels& kernels = *packing.kernels;
    const int depths = kernels.integers.depths, bits = 32 / depths;
    item_ = packing.as_bytes ? depths : item_;
    const std::int64_t last = division.count() - 1;
    const std::int64_t size = (last * division.width + panel_width(last)) * packing.depth;
    std::int64_t count = 1;
    for (int d = packing.rank - 1; d >= 0; --d) {
        steps_[d] = packing.batch[d] == 1 ? 0 : count * size;
        count *= packing.batch[d];
    }
    memory_ = Memory(static_cast<std::size_t>(count * size * item_));
    if (!packing.as_bytes) {
        const NumbersTo out = NumbersTo::of_bytes(memory_.get());
        each_panel([&](const PanelPart& part, std::int64_t offset) { from.pack(part, out + offset, kernels); });
        return;
    }
    std::vector<std::uint32_t> words(static_cast<std::size_t>(division.width * packing.depth));
    each_panel([&](const PanelPart& part, std::int64_t offset) {
        from.pack(part, words.data(), kernels);
        std::byte* out = memory_.get() + offset * depths;
        for (const std::uint32_t each : words) {
            for (int k = 0; k < depths; ++k) {
                *out++ = static_cast<std::byte>(each >> k * bits);
            }
        }
    });
}

NumbersAt Panels::words_at(const PanelPart& panel, std::int64_t offset, std::vector<std::uint32_t>& words) const {
    const auto depths = static_cast<int>(item_), bits = 32 / depths;
    words.resize(static_cast<std::size_t>(panel.width * panel.depth));
    const std::byte* in = memory_.get() + offset * item_;
    for (std::uint32_t& word : words) {
        word = 0;
        for (int k = 0; k < depths; ++k) {
            word |= static_cast<std::uint32_t>(*in++) << k * bits;
        }
    }
    return words.data();
}

MatrixPanels Panels::lines() const {
    constexpr std::int64_t item = sizeof(float);
    MatrixPanels result(memory_.get(), DataType::float32, steps_, packing_.depth * item, item);
    for (std::int64_t& step : result.batch) {
        step *= item;
    }
    return result;
}

NumbersAt Panels::at(const Sizes& place, std::int64_t panel, std::int64_t depth) const {
    std::int64_t number = panel * packing_.division.width * packing_.depth + depth * panel_width(panel);
    for (int d = 0; d < max_rank; ++d) {
        number += place[d] * steps_[d];
    }
    return NumbersAt::of_bytes(memory_.get() + number * item_);
}

NumbersAt Panels::after(const Sizes& place, std::int64_t panel, std::int64_t first, std::int64_t last,
                        std::int64_t from, std::int64_t depth) const {
    if (panel + 1 < last) {
        return at(place, panel + 1, from);
    }
    return from + depth < packing_.depth ? at(place, first, from + depth) : nullptr;
}

}  // namespace dmlgraph::cpu
