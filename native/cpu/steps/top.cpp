#include "cpu/steps/top.h"

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "cpu/products/panels.h"
#include "cpu/runtime/cache_line.h"

namespace dmlgraph::cpu {
namespace {

// A float16 as in memory.
struct Half {
    std::uint16_t bits;
};

template <class Bits>
constexpr Bits sign_of = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));

// The bits of a float as an unsigned number in the order of floats: both zeros are equal, and every NaN is the
// greatest.
template <class Bits>
Bits rank_of_float(Bits bits, Bits infinity) {
    const auto magnitude = static_cast<Bits>(bits & ~sign_of<Bits>);
    if (magnitude > infinity) {
        return static_cast<Bits>(~Bits{0});
    }
    return static_cast<Bits>(magnitude != bits ? sign_of<Bits> - magnitude : sign_of<Bits> + magnitude);
}

std::uint32_t rank_of(float x) { return rank_of_float(std::bit_cast<std::uint32_t>(x), 0x7f800000u); }
std::uint16_t rank_of(Half x) { return rank_of_float<std::uint16_t>(x.bits, 0x7c00u); }
template <class T>
    requires std::is_integral_v<T>
auto rank_of(T x) {
    using Bits = std::make_unsigned_t<T>;
    return static_cast<Bits>(static_cast<Bits>(x) ^ (std::is_signed_v<T> ? sign_of<Bits> : 0));
}

// An element's rank in the wanted order, then its index: in one number where both fit.
struct WideKey {
    std::uint64_t rank;
    std::int64_t index;

    bool operator<(const WideKey& other) const { return rank != other.rank ? rank < other.rank : index < other.index; }
};
template <class T>
using Key = std::conditional_t<sizeof(T) <= 4, std::uint64_t, WideKey>;

template <bool descending, class T>
Key<T> key_of(T x, std::int64_t index) {
    const auto rank = rank_of(x);
    const auto wanted = static_cast<decltype(rank)>(descending ? ~rank : rank);
    if constexpr (sizeof(T) <= 4) {
        return static_cast<std::uint64_t>(wanted) << 32 | static_cast<std::uint64_t>(index);
    } else {
        return {wanted, index};
    }
}

std::int64_t index_of(std::uint64_t key) { return static_cast<std::int64_t>(key & 0xffffffff); }
std::int64_t index_of(const WideKey& entry) { return entry.index; }

// Whether an element may come before an earlier one; a NaN may always.
template <bool descending, class T>
bool may_precede(T x, T earlier) {
    if constexpr (std::is_same_v<T, Half>) {
        return descending ? rank_of(x) > rank_of(earlier) : rank_of(x) < rank_of(earlier);
    } else {
        return descending ? !(x <= earlier) : !(x >= earlier);
    }
}

constexpr std::int64_t block = 64;  // elements that are compared with the last of the first ones at once

template <bool descending, class T>
bool any_may_precede(const T* x, T earlier) {
    int found = 0;
    for (std::int64_t i = 0; i < block; ++i) {
        found |= may_precede<descending>(x[i], earlier) ? 1 : 0;
    }
    return found != 0;
}

// Calls take(key) for those elements from the index `from` on that come before the last of the first ones, which `last`
// gives.
template <bool descending, class T, class Last, class Take>
void each_preceding(const T* x, std::int64_t from, std::int64_t size, const Last& last, const Take& take) {
    for (std::int64_t i = from; i < size;) {
        const bool whole = size - i >= block;
        const std::int64_t end = whole ? i + block : size;
        if (whole && !any_may_precede<descending>(x + i, x[index_of(last())])) {
            i = end;
        }
        for (; i < end; ++i) {
            const Key<T> key = key_of<descending>(x[i], i);
            if (key < last()) {
                take(key);
            }
        }
    }
}

constexpr std::int64_t few = 16;   // first elements that are kept in order while others are looked at
constexpr std::int64_t fewer = 4;  // … of short lines, which are in any order: a branch would be mispredicted

// Keys while the first `count` of `size` elements are searched.
std::int64_t room_for(std::int64_t count, std::int64_t size) {
    return count <= few ? count : std::min(size, 2 * count + block);
}

// The keys of the first `count` elements, in order.
template <bool descending, class T>
void select(const T* x, std::int64_t size, std::int64_t count, Key<T>* keys) {
    if (count <= fewer && size < block) {
        for (std::int64_t i = 0; i < size; ++i) {
            Key<T> key = key_of<descending>(x[i], i);
            const std::int64_t held = std::min(i, count);
            for (std::int64_t at = 0; at < held; ++at) {
                const Key<T> other = keys[at];
                const bool is_less = key < other;
                keys[at] = is_less ? key : other;
                key = is_less ? other : key;
            }
            if (held < count) {
                keys[held] = key;
            }
        }
        return;
    }
    const std::int64_t room = room_for(count, size);
    for (std::int64_t i = 0; i < room; ++i) {
        keys[i] = key_of<descending>(x[i], i);
    }
    if (count <= few) {
        std::sort(keys, keys + count);
        each_preceding<descending>(
            x, count, size, [&] { return keys[count - 1]; },
            [&](const Key<T>& key) {
                std::int64_t at = count - 1;
                for (; at > 0 && key < keys[at - 1]; --at) {
                    keys[at] = keys[at - 1];
                }
                keys[at] = key;
            });
        return;
    }
    std::int64_t held = room;
    const auto shrink = [&] {
        if (held > count) {
            std::nth_element(keys, keys + count - 1, keys + held);
            held = count;
        }
    };
    shrink();
    each_preceding<descending>(
        x, room, size, [&] { return keys[count - 1]; },
        [&](const Key<T>& key) {
            keys[held++] = key;
            if (held == room) {
                shrink();
            }
        });
    shrink();
    std::sort(keys, keys + count);
}

template <class T>
class TopStep final : public Step {
public:
    TopStep(const StepTensors& tensors, const TopParameters& parameters)
        : input_(tensors.inputs.at(0)),
          values_(tensors.outputs.at(0)),
          indices_(tensors.outputs.at(1)),
          parameters_(parameters) {
        if (parameters.axis < 0 || parameters.axis >= input_.rank) {
            throw std::invalid_argument("the axis is not a dimension");
        }
        axis_ = static_cast<std::size_t>(parameters.axis);
        lines_ = input_.sizes;
        size_ = std::exchange(lines_[axis_], 1);
        if (parameters.count < 1 || parameters.count > size_) {
            throw std::invalid_argument("there are not so many elements along the axis");
        }
        if (indices_.buffer != no_buffer && indices_.type != DataType::uint32 && indices_.type != DataType::uint64) {
            throw std::invalid_argument("indices are uint32 or uint64");
        }
    }

    void run(RunContext& context) const override {
        const bool wide = indices_.type == DataType::uint64;
        if (parameters_.descending) {
            wide ? run<true, std::uint64_t>(context) : run<true, std::uint32_t>(context);
        } else {
            wide ? run<false, std::uint64_t>(context) : run<false, std::uint32_t>(context);
        }
    }

    double cost() const override { return static_cast<double>(count() * size_) * 8; }
    std::size_t scratch_bytes() const override {
        return line_at() + align_to_line(static_cast<std::size_t>(size_) * sizeof(T));
    }
    void visit(const Visitor& visitor) override {
        visitor(input_, false);
        visitor(values_, true);
        visitor(indices_, true);
    }

private:
    // The lines of a tensor along the axis, whose elements are some bytes apart; `data` is null if the tensor is
    // absent.
    struct Lines {
        std::byte* data = nullptr;
        Sizes strides{};
        std::int64_t step = 0;

        // To the first element of a line.
        void move_to(const Sizes& place) {
            for (int d = 0; data != nullptr && d < max_rank; ++d) {
                data += place[static_cast<std::size_t>(d)] * strides[static_cast<std::size_t>(d)];
            }
        }
        void move(std::size_t d, std::int64_t by) { data += data == nullptr ? 0 : by * strides[d]; }
    };

    Lines lines_of(const RunContext& context, const View& view) const {
        if (view.buffer == no_buffer) {
            return {};
        }
        const Tensor tensor = context.tensor(view);
        return {tensor.data, tensor.strides, tensor.strides[axis_]};
    }

    std::int64_t count() const {
        std::int64_t result = 1;
        for (int d = 0; d < input_.rank; ++d) {
            result *= lines_[static_cast<std::size_t>(d)];
        }
        return result;
    }

    // Where a packed copy of a line begins in the scratch memory, after the keys.
    std::size_t line_at() const {
        return align_to_line(static_cast<std::size_t>(room_for(parameters_.count, size_)) * sizeof(Key<T>));
    }

    template <bool descending, class Index>
    void run(RunContext& context) const {
        const std::array<Lines, 3> all{lines_of(context, input_), lines_of(context, values_),
                                       lines_of(context, indices_)};
        context.parallel(count(), cost(), [&](int worker, Chunks& chunks) {
            auto* const keys = reinterpret_cast<Key<T>*>(context.scratch(worker));
            T* const copy = reinterpret_cast<T*>(context.scratch(worker) + line_at());
            for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
                Sizes place = place_in(lines_, input_.rank, first);
                std::array<Lines, 3> here = all;
                auto& [in, values, indices] = here;
                for (Lines& each : here) {
                    each.move_to(place);
                }
                for (std::int64_t i = first; i < last; ++i, go_on(place, here)) {
                    const T* line = reinterpret_cast<const T*>(in.data);
                    if (in.step != static_cast<std::int64_t>(sizeof(T))) {
                        for (std::int64_t k = 0; k < size_; ++k) {
                            copy[k] =
                                *reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(line) + k * in.step);
                        }
                        line = copy;
                    }
                    select<descending>(line, size_, parameters_.count, keys);
                    write<T>(values.data, values.step, keys, [&](std::int64_t index) { return line[index]; });
                    write<Index>(indices.data, indices.step, keys,
                                 [](std::int64_t index) { return static_cast<Index>(index); });
                }
            }
        });
    }

    // To the next line.
    void go_on(Sizes& place, std::array<Lines, 3>& lines) const {
        for (auto d = static_cast<std::size_t>(input_.rank); d-- > 0;) {
            if (lines_[d] == 1) {
                continue;
            }
            const bool ends = ++place[d] == lines_[d];
            place[d] = ends ? 0 : place[d];
            for (Lines& each : lines) {
                each.move(d, ends ? 1 - lines_[d] : 1);
            }
            if (!ends) {
                return;
            }
        }
    }

    template <class Result, class Function>
    void write(std::byte* to, std::int64_t step, const Key<T>* keys, const Function& function) const {
        if (to == nullptr) {
            return;
        }
        for (std::int64_t i = 0; i < parameters_.count; ++i) {
            *reinterpret_cast<Result*>(to + i * step) = function(index_of(keys[i]));
        }
    }

    View input_;
    View values_;
    View indices_;
    TopParameters parameters_;
    std::size_t axis_ = 0;
    Sizes lines_{};          // the sizes, with 1 along the axis
    std::int64_t size_ = 1;  // along the axis
};

template <class T>
std::unique_ptr<Step> made(const StepTensors& tensors, const TopParameters& parameters) {
    return std::make_unique<TopStep<T>>(tensors, parameters);
}

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const TopParameters& parameters) {
    switch (tensors.inputs.at(0).type) {
        case DataType::float32: return made<float>(tensors, parameters);
        case DataType::float16: return made<Half>(tensors, parameters);
        case DataType::int8: return made<std::int8_t>(tensors, parameters);
        case DataType::int16: return made<std::int16_t>(tensors, parameters);
        case DataType::int32: return made<std::int32_t>(tensors, parameters);
        case DataType::int64: return made<std::int64_t>(tensors, parameters);
        case DataType::uint8: return made<std::uint8_t>(tensors, parameters);
        case DataType::uint16: return made<std::uint16_t>(tensors, parameters);
        case DataType::uint32: return made<std::uint32_t>(tensors, parameters);
        case DataType::uint64: return made<std::uint64_t>(tensors, parameters);
        default: throw std::invalid_argument("elements of this data type have no order");
    }
}

}  // namespace dmlgraph::cpu
