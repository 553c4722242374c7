#include "cpu/products/words.h"

#include <algorithm>
#include <array>

#include "cpu/runtime/buffer_pool.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t word_bytes = sizeof(std::uint32_t);

// Calls function(i) for 0 ≤ i < count.
template <class Function>
void each(RunContext* context, std::int64_t count, double cost, const Function& function) {
    if (context != nullptr) {
        return context->each(count, cost, function);
    }
    for (std::int64_t i = 0; i < count; ++i) {
        function(i);
    }
}

// The dimensions of a tensor from the outermost in memory to the innermost, and how many of the last are one run.
struct Order {
    std::array<int, max_rank> dimensions{};
    int outer = 0;  // dimensions before those of a line of words
    bool along = false;

    // Lines of words along the dimension if its numbers lie side by side; else along the last ones that have one
    // stride.
    Order(const Tensor& integers, int dimension)
        : along(integers.strides[dimension] == 1 && integers.sizes[dimension] > 1) {
        const int rank = integers.rank;
        int inner = rank;  // the first of the dimensions that are a line
        if (!along && dimension == rank - 1) {
            inner = std::max(dimension - 1, 0);
        } else if (!along) {
            for (inner = rank - 1; inner - 1 > dimension; --inner) {
                if (integers.strides[inner - 1] != integers.strides[inner] * integers.sizes[inner]) {
                    break;
                }
            }
        }
        std::size_t count = 0;
        for (int d = 0; d < (along ? rank : inner); ++d) {
            if (d != dimension) {
                dimensions[count++] = d;
            }
        }
        outer = static_cast<int>(count);
        dimensions[count++] = dimension;
        for (int d = inner; !along && d < rank; ++d) {
            if (d != dimension) {
                dimensions[count++] = d;
            }
        }
    }
};

}  // namespace

PooledMemory::PooledMemory(std::size_t bytes) : bytes_(bytes), memory_(take_memory(bytes)) {}

PooledMemory::~PooledMemory() {
    if (memory_ != nullptr) {
        give_memory(memory_, bytes_);
    }
}

WordTensor::WordTensor(const Tensor& integers, int dimension, Lines side, const IntegerKernels& kernels,
                       RunContext* context)
    : tensor_(integers) {
    const std::int64_t depths = integers.sizes[dimension], words = (depths + kernels.depths - 1) / kernels.depths;
    const Order order(integers, dimension);
    tensor_.type = DataType::uint32;
    tensor_.sizes[dimension] = words;
    std::int64_t bytes = word_bytes, line = 1;
    for (int i = tensor_.rank - 1; i >= 0; --i) {
        const int d = order.dimensions[static_cast<std::size_t>(i)];
        tensor_.strides[d] = bytes;
        bytes *= tensor_.sizes[d];
        line *= i > order.outer ? tensor_.sizes[d] : 1;
    }
    memory_ = PooledMemory(static_cast<std::size_t>(bytes));
    tensor_.data = memory_.get();
    const std::uint8_t flip = form_of(integers.type, side, kernels).flip;
    const bool has_line = !order.along && order.outer + 1 < tensor_.rank;
    const std::int64_t step =
        has_line ? integers.strides[order.dimensions[static_cast<std::size_t>(tensor_.rank - 1)]] : 1;
    const auto convert = [&](std::int64_t index) {
        const std::int64_t word = order.along ? 0 : index % words;
        std::int64_t place = order.along ? index : index / words;
        const std::byte* in = integers.data + word * kernels.depths * integers.strides[dimension];
        std::byte* const to = tensor_.data + word * tensor_.strides[dimension];
        std::int64_t offset = 0;
        for (int i = order.outer - 1; i >= 0; --i) {
            const int d = order.dimensions[static_cast<std::size_t>(i)];
            const std::int64_t at = place % integers.sizes[d];
            place /= integers.sizes[d];
            in += at * integers.strides[d];
            offset += at * tensor_.strides[d];
        }
        auto* const out = reinterpret_cast<std::uint32_t*>(to + offset);
        if (order.along) {
            return kernels.line_of_words({out, in, depths, flip});
        }
        const std::int64_t left = depths - word * kernels.depths;
        WordsCall call{out, {}, static_cast<int>(std::min<std::int64_t>(left, kernels.depths)), step, line, flip};
        for (int k = 0; k < call.depths; ++k) {
            call.in[k] = in + k * integers.strides[dimension];
        }
        kernels.words(call);
    };
    const std::int64_t all = bytes / word_bytes;
    each(context, order.along ? all / words : all / line, static_cast<double>(2 * bytes), convert);
}

void WordTensor::unpack(const Tensor& integers, int dimension, Lines side, const IntegerKernels& kernels) const {
    const std::uint8_t flip = form_of(integers.type, side, kernels).flip;
    const std::int64_t count = tensor_.element_count();
    for (std::int64_t i = 0; i < count; ++i) {
        const Sizes place = place_in(tensor_.sizes, tensor_.rank, i);
        const std::byte* word = tensor_.data;
        std::byte* out = integers.data;
        for (int d = 0; d < tensor_.rank; ++d) {
            word += place[d] * tensor_.strides[d];
            out += place[d] * integers.strides[d] * (d == dimension ? kernels.depths : 1);
        }
        const std::int64_t left = integers.sizes[dimension] - place[dimension] * kernels.depths;
        const unsigned bits = *reinterpret_cast<const std::uint32_t*>(word);
        for (int k = 0; k < std::min<std::int64_t>(left, kernels.depths); ++k) {
            out[k * integers.strides[dimension]] =
                static_cast<std::byte>((bits >> (32 / kernels.depths * k) & 0xff) ^ flip);
        }
    }
}

WordMatrices::WordMatrices(const MatrixPanels& integers, int rank, const Sizes& batch, std::int64_t lines,
                           std::int64_t depths, Lines side, const IntegerKernels& kernels, RunContext* context)
    : rank_(rank), side_(side), kernels_(kernels) {
    Tensor& tensor = integers_;
    tensor.data = const_cast<std::byte*>(integers.data);
    tensor.type = integers.type;
    tensor.rank = static_cast<std::uint8_t>(rank + 2);
    for (int d = 0; d < rank; ++d) {
        tensor.sizes[d] = integers.batch[d] == 0 ? 1 : batch[d];
        tensor.strides[d] = integers.batch[d];
    }
    tensor.sizes[rank] = lines;
    tensor.strides[rank] = integers.line;
    tensor.sizes[rank + 1] = depths;
    tensor.strides[rank + 1] = integers.depth;
    words_ = WordTensor(tensor, rank + 1, side, kernels, context);
    const Tensor& words = words_.tensor();
    panels_ = MatrixPanels(words.data, words.type, {}, words.strides[rank], words.strides[rank + 1]);
    for (int d = 0; d < rank; ++d) {
        panels_.batch[d] = words.sizes[d] == 1 ? 0 : words.strides[d];
    }
}

LineSums WordMatrices::sums() const {
    const WordSums& kernels = side_ == Lines::rows ? kernels_.rows : kernels_.columns;
    const Tensor& words = words_.tensor();
    const std::int64_t lines = words.sizes[rank_], depth = words.sizes[rank_ + 1];
    LineSums result;
    std::int64_t count = 1;
    for (int d = rank_ - 1; d >= 0; --d) {
        result.batch[d] = words.sizes[d] == 1 ? 0 : count * lines;
        count *= words.sizes[d];
    }
    result.numbers.resize(static_cast<std::size_t>(count * lines));
    for (std::int64_t i = 0; i < count; ++i) {
        const Sizes place = place_in(words.sizes, rank_, i);
        const auto* const matrix = reinterpret_cast<const std::uint32_t*>(panels_.matrix(place));
        std::int32_t* const to = result.numbers.data() + i * lines;
        if (panels_.depth == word_bytes) {
            for (std::int64_t line = 0; line < lines; ++line) {
                to[line] = kernels.total(matrix + line * depth, depth);
            }
        } else {
            for (std::int64_t k = 0; k < depth; ++k) {
                kernels.add(to, matrix + k * lines, lines);
            }
        }
    }
    return result;
}

}  // namespace dmlgraph::cpu
