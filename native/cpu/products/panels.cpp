#include "cpu/products/panels.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace dmlgraph::cpu {

const std::byte* MatrixPanels::matrix(const Sizes& place) const {
    const std::byte* result = data;
    for (int d = 0; d < max_rank; ++d) {
        result += place[d] * batch[d];
    }
    return result;
}

void MatrixPanels::pack(const PanelPart& part, float* out, const ProductKernels& kernels) const {
    const std::byte* const first = matrix(part.batch) + part.first * line + part.first_depth * depth;
    const PanelCall call{out, part.width, first, line, depth, part.lines, part.depth};
    if (type == DataType::float16) {
        kernels.pack_half(call);
    } else {
        kernels.pack(call);
    }
}

void MatrixPanels::unpack(const PanelPart& part, const float* panel) const {
    std::byte* const first = const_cast<std::byte*>(matrix(part.batch)) + part.first * line + part.first_depth * depth;
    const auto write = [&](std::int64_t l, std::int64_t k) {
        *reinterpret_cast<float*>(first + l * line + k * depth) = panel[k * part.width + l];
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
        auto* const out = reinterpret_cast<float*>(memory_.get());
        each_panel([&](const PanelPart& part, std::int64_t offset) { from.pack(part, out + offset, kernels); });
        return;
    }
    std::vector<float> words(static_cast<std::size_t>(division.width * packing.depth));
    each_panel([&](const PanelPart& part, std::int64_t offset) {
        from.pack(part, words.data(), kernels);
        std::byte* out = memory_.get() + offset * depths;
        for (const float each : words) {
            for (int k = 0; k < depths; ++k) {
                *out++ = static_cast<std::byte>(std::bit_cast<std::uint32_t>(each) >> k * bits);
            }
        }
    });
}

const float* Panels::words_at(const PanelPart& panel, std::int64_t offset, std::vector<float>& words) const {
    const auto depths = static_cast<int>(item_), bits = 32 / depths;
    words.resize(static_cast<std::size_t>(panel.width * panel.depth));
    const std::byte* in = memory_.get() + offset * item_;
    for (float& each : words) {
        std::uint32_t word = 0;
        for (int k = 0; k < depths; ++k) {
            word |= static_cast<std::uint32_t>(*in++) << k * bits;
        }
        each = std::bit_cast<float>(word);
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

const float* Panels::at(const Sizes& place, std::int64_t panel, std::int64_t depth) const {
    std::int64_t number = panel * packing_.division.width * packing_.depth + depth * panel_width(panel);
    for (int d = 0; d < max_rank; ++d) {
        number += place[d] * steps_[d];
    }
    return reinterpret_cast<const float*>(memory_.get() + number * item_);
}

const float* Panels::after(const Sizes& place, std::int64_t panel, std::int64_t first, std::int64_t last,
                           std::int64_t from, std::int64_t depth) const {
    if (panel + 1 < last) {
        return at(place, panel + 1, from);
    }
    return from + depth < packing_.depth ? at(place, first, from + depth) : nullptr;
}

}  // namespace dmlgraph::cpu
