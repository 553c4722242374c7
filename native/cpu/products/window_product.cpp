#include "cpu/products/window_product.h"

#include <algorithm>
#include <utility>

namespace dmlgraph::cpu {
namespace {

ProductSizes sizes_of_few(const Convolution& convolution) {
    ProductSizes result = convolution.product();
    std::swap(result.m, result.n);
    if (convolution.windows().is_whole(convolution.sizes)) {
        std::swap(result.m, result.batch[0]);
    }
    return result;
}

}  // namespace

void multiply_windows(RunContext& context, const Convolution& convolution, const ProductSizes& sizes,
                      const Side& filters, const WindowPanels& windows, Target to) {
    const MatrixPanels elements = windows.elements();
    Side columns{nullptr, &windows, nullptr};
    if (elements.data != nullptr && !elements.lies_along()) {
        columns.source = columns.matrix = &elements;
    }
    run_product(context, {sizes, filters, columns, std::move(to), convolution.kernels, convolution.sums});
}

WindowProduct::WindowProduct(const Convolution& convolution)
    : FilterMethod(convolution, rows_of(convolution.product(), *convolution.kernels), false) {}

std::size_t WindowProduct::scratch_bytes() const {
    return product_scratch(sizes_, convolution_.operands, *convolution_.epilogue, *convolution_.kernels);
}

void WindowProduct::compute(RunContext& context, const Operands& operands) const {
    const Side filters{operands.panels, &operands.filters, nullptr};
    multiply_windows(context, convolution_, sizes_, filters, operands.windows, std::move(operands.target));
}

bool FewWindows::fits(const Convolution& convolution) {
    const Windows& windows = convolution.windows();
    const ProductSizes sizes = convolution.product();
    const bool has_few = windows.is_element(convolution.sizes) && windows.count() <= most_streamed_rows;
    return !convolution.backward && sizes.k > 0 && sizes.n > 0 && (windows.is_whole(convolution.sizes) || has_few);
}

FewWindows::FewWindows(const Convolution& convolution)
    : FilterMethod(convolution, sizes_of_few(convolution), {}, false) {
    packing_.division = streams() ? Division{convolution_.outputs, 1} : columns_of(sizes_, *convolution_.kernels);
    packing_.padded = !streams();
}

std::size_t FewWindows::scratch_bytes() const {
    const auto bytes = [&](const ProductSizes& sizes) {
        return product_scratch(sizes, convolution_.operands, *convolution_.epilogue, *convolution_.kernels);
    };
    return std::max(bytes(sizes_), bytes(convolution_.product()));  // as the output's layout allows
}

void FewWindows::compute(RunContext& context, const Operands& operands) const {
    const WindowPanels& from = operands.windows;
    const bool whole = is_whole();
    const auto turn = [&](MatrixTensor& tensor) {
        if (tensor.rank > 1) {
            return false;
        }
        const std::int64_t outputs_step = tensor.row;
        tensor.row = whole ? tensor.batch[0] : tensor.strides[0];
        tensor.sizes[0] = convolution_.outputs;
        tensor.strides[0] = outputs_step;
        return true;
    };
    Target turned = operands.target;
    if (!turn(turned.out) || !std::ranges::all_of(turned.operands, turn)) {
        const Side filters{nullptr, &operands.filters, nullptr};
        return multiply_windows(context, convolution_, convolution_.product(), filters, from,
                                std::move(operands.target));
    }
    MatrixPanels lines = operands.filters.matrix();
    Side columns{operands.panels, &operands.filters, nullptr};
    Panels packed;
    if (streams()) {
        const Panels* panels = operands.panels;
        if (panels == nullptr && (lines.data == nullptr || !lines.lies_along())) {
            packed = Panels(operands.filters, packing_);
            panels = &packed;
        }
        if (panels != nullptr) {
            lines = panels->lines();  // which begin where a line of the cache does
        }
        columns = {nullptr, &lines, &lines};
    }
    const RowPanels images = images_of(from);
    const MatrixPanels elements = from.elements();
    Side windows{nullptr, &images, nullptr};
    if (!whole) {
        windows.source = elements.data == nullptr ? static_cast<const PanelSource*>(&from) : &elements;
    }
    run_product(context, {sizes_, windows, columns, std::move(turned), convolution_.kernels, convolution_.sums});
}

// Images as lines, group by group.
RowPanels FewWindows::images_of(const WindowPanels& from) const {
    MatrixTensor images;
    images.data = const_cast<std::byte*>(from.data);
    images.type = from.type();
    images.batch = {0, from.batch[1]};
    images.row = from.batch[0];
    images.rank = 1 + most_spatial;
    images.sizes[0] = convolution_.channels;
    images.strides[0] = from.channel;
    std::ranges::copy(from.sizes(), images.sizes.begin() + 1);
    std::ranges::copy(from.strides, images.strides.begin() + 1);
    return RowPanels(images);
}

}  // namespace dmlgraph::cpu
