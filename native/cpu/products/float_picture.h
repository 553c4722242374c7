// Rows of a picture of float16 as float32.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu/kernels/picture.h"
#include "cpu/kernels/product.h"

namespace dmlgraph::cpu {

// The rows that some rows of windows have, and that are in the picture.
class FloatPicture {
public:
    FloatPicture(const Picture& picture, std::int64_t rows)
        : picture_(picture),
          first_(std::clamp(picture.top, std::int64_t{0}, picture.height)),
          last_(std::clamp(picture.top + (rows - 1) * picture.stride_down + picture.taps, first_, picture.height)) {}

    // Writes their elements, which are `item` bytes apart.
    void write(float* to, std::int64_t item, LineKernel line) const {
        const std::int64_t width = picture_.width,
                           rows = picture_.row_step == width * item ? last_ - first_ : 1;  // at a time
        for (std::int64_t r = first_; r < last_; r += rows, to += rows * width) {
            line(to, picture_.in + r * picture_.row_step, item, rows * width);
        }
    }

    // The picture of what has been written.
    Picture read(const float* from) const {
        Picture result = picture_;
        result.in = reinterpret_cast<const std::byte*>(from);
        result.row_step = result.width * std::int64_t{sizeof(float)};
        result.height = last_ - first_;
        result.top -= first_;
        return result;
    }

private:
    Picture picture_;
    std::int64_t first_;
    std::int64_t last_;
};

}  // namespace dmlgraph::cpu
