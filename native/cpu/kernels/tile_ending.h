// The ending of a tile of sums: in registers, or of float16 while they are in the first cache.
#pragma once

#include "cpu/compiler.h"
#include "cpu/kernels/byte_vector.h"
#include "cpu/kernels/half_vector.h"
#include "cpu/kernels/math.h"
#include "cpu/kernels/part_vector.h"
#include "cpu/kernels/sum_ending.h"
#include "cpu/kernels/vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

struct Same {
    DMLGRAPH_INLINE Vector operator()(Vector x) const { return x; }
};

// Calls next(result) with the function as one of vectors, so that it is looked at once for many. −0 stays if it is
// equal to a lower bound of two, as in CLIP.
template <class Next>
DMLGRAPH_INLINE void apply(const SumFunction& function, const Next& next) {
    const Vector first = repeated(function.first), second = repeated(function.second);
    switch (function.kind) {
        case SumFunction::Kind::threshold: return next([=](Vector x) { return greater(x, first); });
        case SumFunction::Kind::clip: return next([=](Vector x) { return greater(first, lesser(x, second)); });
        default: return next(Same{});
    }
}

DMLGRAPH_INLINE Vector applied(Vector x, const SumFunction& function) {
    apply(function, [&](const auto& result) { x = result(x); });
    return x;
}

// Rows of a tile, of whole vectors, from a column on.
template <int rows, int vectors>
DMLGRAPH_INLINE void end(Vector (&sums)[rows][vectors], const SumEnding& ending, std::int64_t column) {
    DMLGRAPH_UNROLL
    for (int i = 0; i < rows; ++i) {
        const Vector number = repeated(ending.numbers.as<float>()[i]);
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            sums[i][j] = sum(sums[i][j], number);
        }
    }
    if (ending.lines != nullptr) {
        DMLGRAPH_UNROLL
        for (int i = 0; i < rows; ++i) {
            DMLGRAPH_UNROLL
            for (int j = 0; j < vectors; ++j) {
                sums[i][j] = sum(sums[i][j], load(ending.lines + column + i * ending.step + j * lanes));
            }
        }
    }
    apply(ending.function, [&](const auto& result) {
        DMLGRAPH_UNROLL
        for (int i = 0; i < rows; ++i) {
            DMLGRAPH_UNROLL
            for (int j = 0; j < vectors; ++j) {
                sums[i][j] = result(sums[i][j]);
            }
        }
    });
}

// Rows of sums in memory, as `count` results of float16 from a column on; `after` follows the rounding.
template <bool adds, class Before, class After>
void rows_in_half(const float* sums, std::int64_t step, int rows, std::int64_t count, const SumEnding& ending,
                  std::int64_t column, const Before& before, const After& after) {
    const float* const numbers = ending.numbers.as<float>();
    const std::int64_t out_step = ending.half.step, line_step = ending.half.lines_step;
    const bool adds_before = adds && ending.half.adds_before, adds_after = adds && !adds_before;
    const auto result = [&](Vector x, Vector number, Vector element) {
        x = sum(x, number);
        x = before(adds_before ? sum(x, element) : x);
        x = adds_after ? sum(rounded(x), element) : x;
        if constexpr (is_same<After, Same>) {
            return x;
        } else {
            return after(rounded(x));
        }
    };
    auto* out = reinterpret_cast<Half*>(ending.half.out) + column;
    const Half* line = reinterpret_cast<const Half*>(ending.half.lines) + (adds ? column : 0);
    const Vector zeros = repeated(0.0f);
    for (int r = 0; r < rows; ++r, sums += step, out += out_step, line += line_step) {
        const Vector number = repeated(numbers[r]);
        std::int64_t i = 0;
        for (; i + lanes <= count; i += lanes) {
            store_halves(out + i, result(load(sums + i), number, adds ? load_halves(line + i) : zeros));
        }
        if (i < count) {
            const int some = static_cast<int>(count - i);
            const Vector element = adds ? load_halves(line + i, some) : zeros;
            store_halves(out + i, result(load_part(sums + i, part(0, some)), number, element), some);
        }
    }
}

// Stores the results of float16 of rows of `width` sums, which begin at a column.
[[maybe_unused]] DMLGRAPH_ONCE void end_in_half(const float* sums, std::int64_t step, int rows, std::int64_t width,
                                                const SumEnding& ending, std::int64_t column) {
    const std::int64_t rest = ending.half.count - column, count = width < rest ? width : rest;
    apply(ending.function, [&](const auto& before) {
        apply(ending.half.function, [&](const auto& after) {
            ending.half.lines != nullptr ? rows_in_half<true>(sums, step, rows, count, ending, column, before, after)
                                         : rows_in_half<false>(sums, step, rows, count, ending, column, before, after);
        });
    });
}

// Where a call's sums go.
template <class Numbers, class Call>
DMLGRAPH_INLINE typename Numbers::Number* sums_of(const Call& call) {
    return NumbersTo(call.sums).as<typename Numbers::Number>();
}

// What there is of a vector, and what of that is stored. (GCC 12 misaligns vectors beside arrays on the stack that
// AddressSanitizer keeps for returns.)
template <class Numbers>
DMLGRAPH_INLINE typename Numbers::V load_some(NumbersAt from, int count) {
    const Vector some = load_part(from.as<float>(), part(0, count));
    if constexpr (Numbers::are_floats) {
        return some;
    } else {
        return as_words(some);
    }
}
DMLGRAPH_INLINE void store_some(NumbersTo to, Vector x, int count) { store_first(to.as<float>(), x, count); }
DMLGRAPH_INLINE void store_some(NumbersTo to, Words x, int count) { store_first(to.as<float>(), as_floats(x), count); }

// Stores the sums of a tile whose vectors reach beyond its columns. What is added to them is read in part, too.
template <class Numbers, bool ends, class Call>
DMLGRAPH_ONCE void end_and_store_columns(const typename Numbers::Number* sums, int rows, int vectors,
                                         const Call& call) {
    using Number = typename Numbers::Number;
    const SumEnding* const ending = call.ending;
    for (int i = 0; i < rows; ++i) {
        Number* const to = sums_of<Numbers>(call) + i * call.step;
        for (int j = 0; j < vectors; ++j, sums += lanes) {
            const std::int64_t first = j * lanes, left = call.columns - first;
            const int count = static_cast<int>(left < lanes ? left : lanes);
            auto x = Numbers::load(sums);
            if (call.adds) {
                x = sum(load_some<Numbers>(to + first, count), x);
            }
            if (ending != nullptr) {
                x = sum(x, Numbers::repeated(ending->numbers.as<Number>()[i]));
            }
            if constexpr (ends) {
                if (ending != nullptr && ending->lines != nullptr) {
                    x = sum(x, load_part(ending->lines + call.column + i * ending->step + first, part(0, count)));
                }
                x = ending != nullptr ? applied(x, ending->function) : x;
            }
            if (count < lanes) {
                store_some(to + first, x, count);
            } else {
                store(to + first, x);
            }
        }
    }
}

// The same; most often nothing is added, and they go from registers to where they stay.
template <class Numbers, int rows, int vectors, bool ends, class Call>
DMLGRAPH_INLINE void store_columns(const typename Numbers::V (&sums)[rows][vectors], const Call& call) {
    constexpr int whole = vectors - 1;
    const int rest = static_cast<int>(call.columns) - whole * lanes;
    const bool as_they_are = !call.adds && call.ending == nullptr;
    typename Numbers::Number tile[rows * vectors * lanes];
    auto* const to = as_they_are ? sums_of<Numbers>(call) : tile;
    const std::int64_t step = as_they_are ? call.step : vectors * lanes;
    DMLGRAPH_UNROLL
    for (int i = 0; i < rows; ++i) {
        DMLGRAPH_UNROLL
        for (int j = 0; j < whole; ++j) {
            store(to + i * step + j * lanes, sums[i][j]);
        }
    }
    if (as_they_are) {
        DMLGRAPH_UNROLL
        for (int i = 0; i < rows; ++i) {
            store_some(to + i * step + whole * lanes, sums[i][whole], rest);
        }
        return;
    }
    DMLGRAPH_UNROLL
    for (int i = 0; i < rows; ++i) {
        store(to + i * step + whole * lanes, sums[i][whole]);
    }
    end_and_store_columns<Numbers, ends>(tile, rows, vectors, call);
}

template <class T>
DMLGRAPH_INLINE void rows_in_bytes(const std::uint32_t* sums, std::int64_t step, int rows, std::int64_t count,
                                   const ByteEnding& ending, std::int64_t column) {
    const std::int64_t out_step = ending.step;
    const float* const factors = ending.factors;
    const VectorToBytes<T> bytes(static_cast<T>(ending.zero_point));
    auto* out = reinterpret_cast<T*>(ending.out) + column;
    for (int r = 0; r < rows; ++r, sums += step, out += out_step) {
        const float factor = factors[r];
        std::int64_t i = 0;
        for (; i + lanes <= count; i += lanes) {
            bytes.store(out + i, sums + i, factor);
        }
        if (i < count) {
            T last[lanes];
            bytes.store(last, sums + i, factor);
            for (std::int64_t j = 0; i + j < count; ++j) {
                out[i + j] = last[j];
            }
        }
    }
}

// Stores the results of 8-bit integers of rows of `width` sums, which begin at a column.
[[maybe_unused]] DMLGRAPH_ONCE void end_in_bytes(const std::uint32_t* sums, std::int64_t step, int rows,
                                                 std::int64_t width, const ByteEnding& ending, std::int64_t column) {
    const std::int64_t rest = ending.count - column, count = width < rest ? width : rest;
    if (ending.is_signed) {
        rows_in_bytes<i8>(sums, step, rows, count, ending, column);
    } else {
        rows_in_bytes<u8>(sums, step, rows, count, ending, column);
    }
}

// The places of a tile's results, and what its ending adds, come into the caches while the tile is computed: rows are
// lines of the cache of their own, which the processor does not foresee.
template <int rows, int vectors, class Call>
DMLGRAPH_INLINE void fetch_results(const Call& call) {
    constexpr int last = vectors * lanes - 1;
    NumbersTo to = call.sums;
    DMLGRAPH_UNROLL
    for (int i = 0; i < rows; ++i, to += call.step) {
        prefetch_to_write(to);
        prefetch_to_write(to + last);
    }
    if (call.ending == nullptr || call.ending->lines == nullptr) {
        return;
    }
    const float* line = call.ending->lines + call.column;
    DMLGRAPH_UNROLL
    for (int i = 0; i < rows; ++i, line += call.ending->step) {
        prefetch(line);
        prefetch(line + last);
    }
}

// Stores the sums of a tile, which are added to what is there if it `adds`. Numbers: Singles or Integers.
template <class Numbers, int rows, int vectors, bool ends = Numbers::are_floats, class Call>
DMLGRAPH_INLINE void store_tile(typename Numbers::V (&sums)[rows][vectors], const Call& call) {
    auto* const to = sums_of<Numbers>(call);
    const std::int64_t step = call.step;
    if (call.columns < vectors * lanes) {
        return store_columns<Numbers, rows, vectors, ends>(sums, call);
    }
    if (call.adds) {
        DMLGRAPH_UNROLL
        for (int i = 0; i < rows; ++i) {
            DMLGRAPH_UNROLL
            for (int j = 0; j < vectors; ++j) {
                sums[i][j] = sum(Numbers::load(to + i * step + j * lanes), sums[i][j]);
            }
        }
    }
    if constexpr (ends) {
        if (call.ending != nullptr && !call.ending->rounds()) {
            end<rows, vectors>(sums, *call.ending, call.column);
        }
    }
    if constexpr (!Numbers::are_floats) {
        if (call.ending != nullptr && call.ending->numbers != nullptr) {
            DMLGRAPH_UNROLL
            for (int i = 0; i < rows; ++i) {
                const auto number = Numbers::repeated(NumbersAt(call.ending->numbers).as<std::uint32_t>()[i]);
                DMLGRAPH_UNROLL
                for (int j = 0; j < vectors; ++j) {
                    sums[i][j] = sum(sums[i][j], number);
                }
            }
        }
    }
    DMLGRAPH_UNROLL
    for (int i = 0; i < rows; ++i) {
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            store(to + i * step + j * lanes, sums[i][j]);
        }
    }
    if constexpr (ends) {
        if (call.ending != nullptr && call.ending->rounds()) {
            end_in_half(to, step, rows, vectors * lanes, *call.ending, call.column);
        }
    }
    if constexpr (!Numbers::are_floats) {
        if (call.ending != nullptr && call.ending->bytes.out != nullptr) {
            end_in_bytes(to, step, rows, vectors * lanes, call.ending->bytes, call.column);
        }
    }
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
