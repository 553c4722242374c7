#include "cpu/tensor/layout.h"

#include <algorithm>
#include <numeric>

namespace dmlgraph::cpu {
namespace {

std::int64_t product(const Sizes& sizes, int rank) {
    return std::accumulate(sizes.begin(), sizes.begin() + rank, std::int64_t{1}, std::multiplies<>());
}

bool packed(const Sizes& sizes, const Sizes& strides, int rank, std::int64_t unit) {
    for (int d = rank - 1; d >= 0; --d) {
        if (sizes[d] > 1 && strides[d] != unit) {
            return false;
        }
        unit *= sizes[d];
    }
    return true;
}

// Whether both have the same number of dimensions that are not of size 1, and same(i, j) holds for each pair of them.
template <class Same>
bool each_dimension(const TensorDesc& one, const TensorDesc& other, const Same& same) {
    for (int i = 0, j = 0;; ++i, ++j) {
        while (i < one.rank && one.sizes[i] == 1)
            ++i;
        while (j < other.rank && other.sizes[j] == 1)
            ++j;
        if (i == one.rank || j == other.rank) {
            return i == one.rank && j == other.rank;
        }
        if (!same(i, j)) {
            return false;
        }
    }
}

}  // namespace

Sizes place_in(const Sizes& sizes, int rank, std::int64_t index) {
    Sizes place{};
    for (int d = rank - 1; d >= 0; --d) {
        place[d] = index % sizes[d];
        index /= sizes[d];
    }
    return place;
}

std::int64_t TensorDesc::element_count() const { return product(sizes, rank); }

std::int64_t TensorDesc::span() const {
    std::int64_t last = 0;
    for (int d = 0; d < rank; ++d) {
        last += (sizes[d] - 1) * strides[d];
    }
    return last + 1;
}

std::size_t TensorDesc::total_bytes() const {
    const auto elements = static_cast<std::size_t>(packed ? element_count() : span());
    const std::size_t item = item_size(type);
    const std::size_t bytes = item == 0 ? (elements + 1) / 2 : elements * item;
    return (bytes + 3) & ~std::size_t{3};
}

bool is_packed(const TensorDesc& desc) { return packed(desc.sizes, desc.strides, desc.rank, 1); }

bool same_elements(const TensorDesc& one, const TensorDesc& other) {
    return one.type == other.type && each_dimension(one, other, [&](int i, int j) {
               return one.sizes[i] == other.sizes[j] && one.strides[i] == other.strides[j];
           });
}

bool same_sizes(const TensorDesc& one, const TensorDesc& other) {
    return each_dimension(one, other, [&](int i, int j) { return one.sizes[i] == other.sizes[j]; });
}

std::int64_t View::element_count() const { return product(sizes, rank); }

std::size_t View::bytes() const {
    std::size_t result = item_size(type);
    for (int d = 0; d < rank; ++d) {
        result *= strides[d] == 0 ? 1 : static_cast<std::size_t>(sizes[d]);
    }
    return result;
}

std::int64_t Tensor::element_count() const { return product(sizes, rank); }

std::optional<AffineMap> express(const TensorDesc& reader, const TensorDesc& value) {
    AffineMap map;
    std::array<std::int64_t, max_rank> reach{};
    if (reader.rank == value.rank && reader.sizes == value.sizes && reader.strides == value.strides) {
        for (int d = 0; d < reader.rank; ++d) {
            map.axis[d] = static_cast<std::int8_t>(d);
            map.step[d] = 1;
        }
        return map;
    }
    for (int d = 0; d < reader.rank; ++d) {
        map.axis[d] = -1;
        const std::int64_t stride = reader.strides[d];
        if (stride == 0 || reader.sizes[d] == 1) {
            continue;
        }
        int best =
            -1;  // the dimension with the greatest stride that divides the reader's, and long enough for its steps
        for (int a = 0; a < value.rank; ++a) {
            const std::int64_t unit = value.strides[a];
            const bool fits = value.sizes[a] > 1 && unit > 0 && stride % unit == 0 &&
                              reach[a] + stride / unit * (reader.sizes[d] - 1) < value.sizes[a];
            if (fits && (best < 0 || unit > value.strides[best])) {
                best = a;
            }
        }
        if (best < 0) {
            return std::nullopt;
        }
        map.axis[d] = static_cast<std::int8_t>(best);
        map.step[d] = stride / value.strides[best];
        reach[best] += map.step[d] * (reader.sizes[d] - 1);
    }
    return map;
}

View through(const View& view, const AffineMap& map, int rank, const Sizes& sizes) {
    View result = view;
    result.rank = static_cast<std::uint8_t>(rank);
    result.sizes = sizes;
    for (int a = 0; a < view.rank; ++a) {
        result.offset += map.origin[a] * view.strides[a];
        if (view.mapped && view.map.axis[a] >= 0) {
            result.map.origin[view.map.axis[a]] += map.origin[a] * view.map.step[a];
        }
    }
    for (int d = 0; d < rank; ++d) {
        const int axis = map.axis[d];
        result.strides[d] = axis < 0 ? 0 : map.step[d] * view.strides[axis];
        result.map.axis[d] = axis < 0 ? std::int8_t{-1} : view.map.axis[axis];
        result.map.step[d] = axis < 0 ? 0 : map.step[d] * view.map.step[axis];
    }
    return result;
}

View whole(BufferId buffer, const TensorDesc& desc, bool external) {
    View view;
    view.buffer = buffer;
    view.type = desc.type;
    view.rank = desc.rank;
    view.sizes = desc.sizes;
    view.mapped = external;
    const auto item = static_cast<std::int64_t>(item_size(desc.type));
    std::int64_t unit = item;
    for (int d = desc.rank - 1; d >= 0; --d) {
        view.strides[d] =
            external ? unit : desc.strides[d] * item;  // the standard layout of a caller's array is packed
        unit *= desc.sizes[d];
        view.map.axis[d] = static_cast<std::int8_t>(d);
        view.map.step[d] = 1;
    }
    return view;
}

View broadcast(const View& view, int rank, const Sizes& sizes) {
    AffineMap map;
    for (int d = 0; d < rank; ++d) {
        const int from = d - (rank - view.rank);
        const bool repeats = from < 0 || (view.sizes[from] == 1 && sizes[d] != 1);
        map.axis[d] = repeats ? std::int8_t{-1} : static_cast<std::int8_t>(from);
        map.step[d] = repeats ? 0 : 1;
    }
    return through(view, map, rank, sizes);
}

bool broadcasts_to(const View& view, int rank, const Sizes& sizes) {
    for (int d = 0; d < view.rank; ++d) {
        const int to = d + rank - view.rank;
        if (view.sizes[d] != 1 && (to < 0 || view.sizes[d] != sizes[to])) {
            return false;
        }
    }
    return true;
}

View squeeze(const View& view, int rank, const Sizes& sizes) {
    View wide = view;
    if (view.rank != rank || view.sizes != sizes) {
        wide = broadcast(view, rank, sizes);
    }
    View result = wide;
    result.rank = 0;
    for (int d = 0; d < rank; ++d) {
        if (sizes[d] == 1) {
            continue;
        }
        const int to = result.rank++;
        result.sizes[to] = sizes[d];
        result.strides[to] = wide.strides[d];
        result.map.axis[to] = wide.map.axis[d];
        result.map.step[to] = wide.map.step[d];
    }
    return result;
}

bool same_memory(const View& one, const View& other) {
    bool same = one.buffer == other.buffer && one.offset == other.offset && one.type == other.type &&
                one.mapped == other.mapped;
    for (int d = 0; d < one.rank; ++d) {
        same =
            same && (one.sizes[d] == 1 ||
                     (one.strides[d] == other.strides[d] &&
                      (!one.mapped || (one.map.axis[d] == other.map.axis[d] && one.map.step[d] == other.map.step[d]))));
    }
    return same;
}

}  // namespace dmlgraph::cpu
