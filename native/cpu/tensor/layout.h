// Where the elements of tensors are: descriptions as in DirectML, and views of the plan's buffers.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "cpu/tensor/data_type.h"

namespace dmlgraph::cpu {

inline constexpr int max_rank = 8;

using Sizes = std::array<std::int64_t, max_rank>;

// The place with this number among those of `rank` dimensions, in row-major order.
Sizes place_in(const Sizes& sizes, int rank, std::int64_t index);

// A DML_BUFFER_TENSOR_DESC: sizes and strides in elements; rank 0 means that the tensor is absent.
struct TensorDesc {
    DataType type{};
    std::uint8_t rank = 0;
    bool packed = true;  // row-major without gaps (strides of dimensions of size 1 do not count)
    Sizes sizes{};
    Sizes strides{};

    bool present() const { return rank != 0; }
    std::int64_t element_count() const;
    // Elements from the first to the last that the description reaches.
    std::int64_t span() const;
    // DMLCalcBufferTensorSize.
    std::size_t total_bytes() const;
};

bool same_elements(const TensorDesc& one, const TensorDesc& other);  // same sizes, elements at the same offsets
bool same_sizes(const TensorDesc& one, const TensorDesc& other);     // except sizes of 1
bool is_packed(const TensorDesc& desc);

// How the dimensions of one tensor are steps along those of another: coordinate c of it is coordinate
// origin[a] + sum of step[d] · c[d] over the dimensions d with axis[d] == a.
struct AffineMap {
    std::array<std::int8_t, max_rank> axis{};  // -1: the dimension repeats (step 0)
    Sizes step{};
    Sizes origin{};
};

using BufferId = std::int32_t;
inline constexpr BufferId no_buffer = -1;

// A tensor in a buffer of the plan. Offsets and strides are in bytes, and valid for the buffer's standard layout; an
// array of the caller may have other strides, which apply through the map.
struct View {
    BufferId buffer = no_buffer;
    DataType type{};
    std::uint8_t rank = 0;
    bool mapped = false;  // whether `map`, onto the dimensions of the caller's array, is known
    std::int64_t offset = 0;
    Sizes sizes{};
    Sizes strides{};
    AffineMap map{};

    std::int64_t element_count() const;
    // The bytes of its elements; repeated elements count once.
    std::size_t bytes() const;
};

// The elements that a description reads of a value with the description `value`, as steps along the value's dimensions;
// none if they are not such steps (a packed [6] that reads a value with gaps).
std::optional<AffineMap> express(const TensorDesc& reader, const TensorDesc& value);

// The view of a view through the affine map `map` with these sizes.
View through(const View& view, const AffineMap& map, int rank, const Sizes& sizes);

// A whole buffer with the layout of `desc`; for a caller's array its map is the identity.
View whole(BufferId buffer, const TensorDesc& desc, bool external);

// A view broadcast to `sizes`: missing leading dimensions, and dimensions of size 1, repeat.
View broadcast(const View& view, int rank, const Sizes& sizes);

// Whether each size of the view is that of `sizes`, aligned at the last one, or 1.
bool broadcasts_to(const View& view, int rank, const Sizes& sizes);

// The view, broadcast to `sizes`, without the dimensions where `sizes` is 1.
View squeeze(const View& view, int rank, const Sizes& sizes);

// Whether two views of the same sizes are the same elements.
bool same_memory(const View& one, const View& other);

// A tensor in memory; strides in bytes.
struct Tensor {
    std::byte* data = nullptr;
    DataType type{};
    std::uint8_t rank = 0;
    Sizes sizes{};
    Sizes strides{};

    std::int64_t element_count() const;
    template <class Function>
    void each_address(const Function& function) {
        function(data);
    }
    auto operator<=>(const Tensor&) const = default;
};

}  // namespace dmlgraph::cpu
