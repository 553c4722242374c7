// Where the extremes of rows and of columns are.
#pragma once

#include <string.h>

#include "cpu/kernels/reduce_rows.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace reduce {
namespace {

// Positions of extremes. If a NaN comes first, the state stays NaN, because no element is greater.
template <class In>
struct Found {
    i64 place;  // -1: none yet
    In value;
};

template <class Function, class In, bool last>
DMLGRAPH_INLINE void offer(Found<In>& best, In value, i64 place) {
    const bool better = Function::beats(value, best.value) || (last && value == best.value);
    if (better || (best.place < 0 && (value == value || place == 0))) {
        best = {place, value};
    }
}

template <class In>
void start_places(void* states, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        static_cast<Found<In>*>(states)[i] = {-1, In{0}};
    }
}

constexpr std::size_t short_row = 32;  // elements that are compared one by one faster than vectors are searched

// The place in each of some whole rows.
template <class Function, bool last, class Value>
DMLGRAPH_INLINE void short_row_places(Found<Value>* best, const Value* x, std::size_t count, std::size_t length) {
    for (std::size_t r = 0; r < count; ++r, x += length) {
        Value value = x[0];
        i64 place = 0;
        for (std::size_t i = 1; i < length; ++i) {
            const bool better = last ? Function::beats(x[i], value) | (x[i] == value) : Function::beats(x[i], value);
            place = better ? static_cast<i64>(i) : place;
            value = better ? x[i] : value;
        }
        best[r] = {place, value};
    }
}

template <class Function, class In, class Value, bool last>
void row_places(void* states, const void* in, std::size_t count, std::size_t length, std::uint64_t first) noexcept {
    const auto* all = static_cast<const In*>(in);
    Elements<In> elements;
    if (length <= short_row && first == 0) {
        for (std::size_t done = 0; done < count;) {
            const std::size_t some = lesser(count - done, Elements<In>::most / length);
            const Value* x = elements.take(all + done * length, some * length);
            short_row_places<Function, last>(static_cast<Found<Value>*>(states) + done, x, some, length);
            done += some;
        }
        return;
    }
    for (std::size_t r = 0; r < count; ++r, all += length) {
        Found<Value>& best = static_cast<Found<Value>*>(states)[r];
        for (std::size_t done = 0; done < length;) {
            const std::size_t part = lesser(length - done, 4 * chunk < Elements<In>::most ? 4 * chunk : chunk);
            const Value* x = elements.take(all + done, part);
            const auto place = static_cast<i64>(first + done);
            if (best.place < 0) {
                offer<Function, Value, last>(best, x[0], place);
            }
            // The position is searched only if the chunk has a better element.
            const Value extreme = row<Function>(x, part);
            if (Function::beats(extreme, best.value) || (last && extreme == best.value) || best.place < 0) {
                constexpr std::size_t step = 32;
                std::size_t k = 0;
                for (; k + step <= part; k += step) {
                    const Value* const some = x + (last ? part - k - step : k);
                    int equal = 0;
                    for (std::size_t j = 0; j < step; ++j) {
                        equal |= some[j] == extreme ? 1 : 0;
                    }
                    if (equal != 0) {
                        break;
                    }
                }
                for (; k < part; ++k) {
                    const std::size_t i = last ? part - 1 - k : k;
                    if (x[i] == extreme) {
                        offer<Function, Value, last>(best, x[i], place + static_cast<i64>(i));
                        break;
                    }
                }
            }
            done += part;
        }
    }
}

// An integer as wide as an element, if it can count lines.
template <class Value>
struct Counter {
    using Type = i32;
};
template <>
struct Counter<i64> {
    using Type = i64;
};
template <>
struct Counter<u64> {
    using Type = i64;
};

template <class Function, class In, class Value, bool last>
void column_places(void* states, const void* in, std::ptrdiff_t stride, std::size_t count, std::size_t length,
                   std::uint64_t first) noexcept {
    using Line = typename Counter<Value>::Type;
    constexpr std::size_t most = 128;
    auto* best = static_cast<Found<Value>*>(states);
    Elements<In> elements;
    Value value[most];
    Line found[most];  // the line of the value; -1: none of these
    for (std::size_t done = 0; done < count;) {
        const std::size_t part = lesser(count - done, most);
        const auto* line = static_cast<const char*>(in) + done * sizeof(In);
        // The first line of all is taken with its NaN. Later parts leave out NaN until each column has an element.
        std::size_t i = 0;
        if (first == 0) {
            const Value* x = elements.take(reinterpret_cast<const In*>(line), part);
            for (std::size_t c = 0; c < part; ++c) {
                value[c] = x[c];
                found[c] = 0;
            }
            ++i, line += stride;
        } else {
            for (bool is_new = true; i < length; ++i, line += stride) {
                is_new = false;
                for (std::size_t c = 0; c < part; ++c) {
                    is_new |= best[done + c].place < 0;
                }
                if (!is_new) {
                    break;
                }
                const Value* x = elements.take(reinterpret_cast<const In*>(line), part);
                for (std::size_t c = 0; c < part; ++c) {
                    offer<Function, Value, last>(best[done + c], x[c], static_cast<i64>(first + i));
                }
            }
            for (std::size_t c = 0; c < part; ++c) {
                value[c] = best[done + c].value;
                found[c] = -1;
            }
        }
        for (; i < length; ++i, line += stride) {
            const Value* x = elements.take(reinterpret_cast<const In*>(line), part);
            const auto here = static_cast<Line>(i);
            DMLGRAPH_LOOP
            for (std::size_t c = 0; c < part; ++c) {
                const bool better =
                    last ? Function::beats(x[c], value[c]) | (x[c] == value[c]) : Function::beats(x[c], value[c]);
                value[c] = better ? x[c] : value[c];
                found[c] = better ? here : found[c];
            }
        }
        for (std::size_t c = 0; c < part; ++c) {
            if (found[c] >= 0) {
                best[done + c] = {static_cast<i64>(first) + static_cast<i64>(found[c]), value[c]};
            }
        }
        done += part;
    }
}

template <class Function, class In, bool last>
void merge_places(void* states, const void* later, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        const auto& other = static_cast<const Found<In>*>(later)[i];
        if (other.place >= 0) {
            offer<Function, In, last>(static_cast<Found<In>*>(states)[i], other.value, other.place);
        }
    }
}

// The positions only, for any type of the values beside them.
template <class Out>
void finish_places(const void* states, void* out, std::size_t count, std::uint64_t) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        i64 place;
        memcpy(&place, static_cast<const char*>(states) + i * sizeof(Found<i64>), sizeof(place));
        static_cast<Out*>(out)[i] = static_cast<Out>(place < 0 ? 0 : place);
    }
}

}  // namespace
}  // namespace reduce
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
