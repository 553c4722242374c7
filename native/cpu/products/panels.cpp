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

Division Division::even(std::int64_t lines, std::int64_t most) {
    const std::int64_t panels = (lines + most - 1) / most;
    return {lines, (lines + panels - 1) / panels};
}

template <class Store>
void Panels::each(int rank, const Sizes& batch, const Store& store) {
    const std::int64_t last = division_.count() - 1;
    const std::int64_t size = (last * division_.width + panel_width(last)) * depth_;
    std::int64_t count = 1;
    for (int d = rank - 1; d >= 0; --d) {
        steps_[d] = batch[d] == 1 ? 0 : count * size;
        count *= batch[d];
    }
    memory_ = Memory(static_cast<std::size_t>(count * size * item_));
    std::byte* out = memory_.get();
    for (std::int64_t i = 0; i < count; ++i) {
        const Sizes place = place_in(batch, rank, i);
        for (std::int64_t p = 0; p <= last; ++p) {
            store(PanelPart{place, division_.first(p), division_.in(p), 0, depth_, panel_width(p)}, out);
            out += panel_width(p) * depth_ * item_;
        }
    }
}

Panels::Panels(const PanelSource& from, int rank, const Sizes& batch, std::int64_t depth, Division division,
               bool padded, const ProductKernels& kernels)
    : Panels(depth, division, padded, sizeof(float), false) {
    each(rank, batch, [&](const PanelPart& part, std::byte* out) { from.pack(part, reinterpret_cast<float*>(out), kernels); });
}

Panels Panels::of_bytes(const PanelSource& from, int rank, const Sizes& batch, std::int64_t depth, Division division,
                        const ProductKernels& kernels) {
    const int depths = kernels.integers.depths, bits = 32 / depths;
    Panels result(depth, division, true, depths, true);
    std::vector<float> words(static_cast<std::size_t>(division.width * depth));
    result.each(rank, batch, [&](const PanelPart& part, std::byte* out) {
        from.pack(part, words.data(), kernels);
        for (const float each : words) {
            for (int k = 0; k < depths; ++k) {
                *out++ = static_cast<std::byte>(std::bit_cast<std::uint32_t>(each) >> k * bits);
            }
        }
    });
    return result;
}

MatrixPanels Panels::lines() const {
    constexpr std::int64_t item = sizeof(float);
    MatrixPanels result(memory_.get(), DataType::float32, steps_, depth_ * item, item);
    for (std::int64_t& step : result.batch) {
        step *= item;
    }
    return result;
}

const float* Panels::at(const Sizes& place, std::int64_t panel, std::int64_t depth) const {
    std::int64_t number = panel * division_.width * depth_ + depth * panel_width(panel);
    for (int d = 0; d < max_rank; ++d) {
        number += place[d] * steps_[d];
    }
    return reinterpret_cast<const float*>(memory_.get() + number * item_);
}

const float* Panels::after(const Sizes& place, std::int64_t panel, std::int64_t first, std::int64_t last, std::int64_t from,
                           std::int64_t depth) const {
    if (panel + 1 < last) {
        return at(place, panel + 1, from);
    }
    return from + depth < depth_ ? at(place, first, from + depth) : nullptr;
}

}  // namespace dmlgraph::cpu
