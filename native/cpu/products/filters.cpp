#include "cpu/products/filters.h"

#include <algorithm>
#include <array>

#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t at_a_time = 256;  // numbers of a row

}  // namespace

void RowPanels::pack(const PanelPart& part, NumbersTo to, const ProductKernels& kernels) const {
    if (rows_.rank == 1) {
        return matrix().pack(part, to, kernels);
    }
    auto* const out = to.as<std::uint32_t>();
    const auto item = static_cast<std::int64_t>(item_size(rows_.type));
    const LineKernel line = kernels.line_of(rows_.type);
    for (std::int64_t i = 0; i < part.width; ++i) {
        if (i >= part.lines) {
            for (std::int64_t k = 0; k < part.depth; ++k) {
                out[k * part.width + i] = 0;
            }
            continue;
        }
        const std::byte* const row = rows_.row_at(part.batch, part.first + i);
        for (std::int64_t done = 0; done < part.depth; done += at_a_time) {
            alignas(std::uint32_t) std::array<std::byte, at_a_time * NumbersAt::size> gathered;
            std::array<std::uint32_t, at_a_time> numbers;
            const std::int64_t count = std::min(at_a_time, part.depth - done);
            gather(gathered.data(), row, rows_.rank, rows_.sizes, rows_.strides, part.first_depth + done, count,
                   static_cast<int>(item));
            line(numbers.data(), gathered.data(), item, count);
            for (std::int64_t k = 0; k < count; ++k) {
                out[(done + k) * part.width + i] = numbers[static_cast<std::size_t>(k)];
            }
        }
    }
}

void RowPanels::unpack(const PanelPart& part, NumbersAt panel) const {
    if (rows_.rank == 1) {
        return matrix().unpack(part, panel);
    }
    for (std::int64_t i = 0; i < part.lines; ++i) {
        std::byte* const row = rows_.row_at(part.batch, part.first + i);
        for (std::int64_t done = 0; done < part.depth; done += at_a_time) {
            std::array<std::uint32_t, at_a_time> numbers;
            const std::int64_t count = std::min(at_a_time, part.depth - done);
            for (std::int64_t k = 0; k < count; ++k) {
                numbers[static_cast<std::size_t>(k)] = panel.as<std::uint32_t>()[(done + k) * part.width + i];
            }
            scatter(row, rows_.rank, rows_.sizes, rows_.strides, reinterpret_cast<const std::byte*>(numbers.data()),
                    part.first_depth + done, count, NumbersAt::size);
        }
    }
}

MatrixPanels RowPanels::matrix() const {
    return rows_.rank == 1 ? MatrixPanels(rows_.data, rows_.type, rows_.batch, rows_.row, rows_.strides[0])
                           : MatrixPanels();
}

RowPanels filter_panels(const Tensor& filters, std::int64_t groups, bool backward, const Phase& phase) {
    const int outputs = backward ? 1 : 0, channels = 1 - outputs;
    MatrixTensor rows;
    rows.data = filters.data;
    rows.type = filters.type;
    rows.batch = {0, filters.strides[0] * (filters.sizes[0] / groups)};
    rows.row = filters.strides[outputs];
    rows.rank = filters.rank - 1;
    rows.sizes[0] = backward ? filters.sizes[0] / groups : filters.sizes[1];
    rows.strides[0] = filters.strides[channels];
    for (int d = 1; d < rows.rank; ++d) {
        const auto along = static_cast<std::size_t>(most_spatial - rows.rank + d);
        rows.data += phase.first_tap[along] * filters.strides[d + 1];
        rows.sizes[d] = phase.windows.taps[along];
        rows.strides[d] = phase.tap_step[along] * filters.strides[d + 1];
    }
    return RowPanels(rows);
}

}  // namespace dmlgraph::cpu
