#include "cpu/tests/tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace dmlgraph::cpu::tests {
namespace {

constexpr std::byte soil_byte{0xa5};
constexpr std::size_t spare_elements = 64;  // for arrays that overlap another

// The bits of whole numbers that float16 can hold, and of infinities.
std::uint16_t half_bits(double value) {
    const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) {
        return 0x7e00;
    }
    if (value == 0) {
        return sign;
    }
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(value), &exponent);  // in [1/2, 1)
    if (std::isinf(value) || exponent > 16) {
        return static_cast<std::uint16_t>(sign | 0x7c00);
    }
    const auto mantissa = static_cast<int>(std::nearbyint((fraction * 2 - 1) * 1024));
    return static_cast<std::uint16_t>(sign | ((exponent + 14) * 1024 + mantissa));
}

double half_value(std::uint16_t bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const double magnitude = exponent == 31  ? (mantissa == 0 ? INFINITY : NAN)
                             : exponent == 0 ? std::ldexp(mantissa, -24)
                                             : std::ldexp(1024 + mantissa, exponent - 25);
    return bits >> 15 != 0 ? -magnitude : magnitude;
}

template <class T>
double load_as(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return static_cast<double>(value);
}

template <class T>
void store_as(std::byte* to, T value) {
    std::memcpy(to, &value, sizeof value);
}

TensorDesc desc_of(DataType type, const Shape& sizes) {
    TensorDesc desc;
    desc.type = type;
    desc.rank = static_cast<std::uint8_t>(sizes.size());
    std::ranges::copy(sizes, desc.sizes.begin());
    return desc;
}

}  // namespace

TensorDesc packed(DataType type, const Shape& sizes) {
    TensorDesc desc = desc_of(type, sizes);
    std::int64_t unit = 1;
    for (int d = desc.rank - 1; d >= 0; --d) {
        desc.strides[d] = unit;
        unit *= desc.sizes[d];
    }
    return desc;
}

TensorDesc strided(DataType type, const Shape& sizes, const Shape& strides) {
    TensorDesc desc = desc_of(type, sizes);
    std::ranges::copy(strides, desc.strides.begin());
    desc.packed = is_packed(desc);
    return desc;
}

Shape sizes_of(const TensorDesc& desc) { return {desc.sizes.begin(), desc.sizes.begin() + desc.rank}; }

Shape strides_of(const TensorDesc& desc) { return {desc.strides.begin(), desc.strides.begin() + desc.rank}; }

double load(DataType type, const std::byte* from) {
    switch (type) {
        case DataType::float32: return load_as<float>(from);
        case DataType::float64: return load_as<double>(from);
        case DataType::float16: {
            std::uint16_t bits;
            std::memcpy(&bits, from, sizeof bits);
            return half_value(bits);
        }
        case DataType::uint8: return load_as<std::uint8_t>(from);
        case DataType::int8: return load_as<std::int8_t>(from);
        case DataType::uint16: return load_as<std::uint16_t>(from);
        case DataType::int16: return load_as<std::int16_t>(from);
        case DataType::uint32: return load_as<std::uint32_t>(from);
        case DataType::int32: return load_as<std::int32_t>(from);
        case DataType::uint64: return load_as<std::uint64_t>(from);
        default: return load_as<std::int64_t>(from);
    }
}

void store(DataType type, std::byte* to, double value) {
    if (type == DataType::float32) {
        return store_as(to, static_cast<float>(value));
    }
    if (type == DataType::float64) {
        return store_as(to, value);
    }
    if (type == DataType::float16) {
        return store_as(to, half_bits(value));
    }
    const auto whole = static_cast<std::int64_t>(value);
    switch (item_size(type)) {
        case 1: return store_as(to, static_cast<std::uint8_t>(whole));
        case 2: return store_as(to, static_cast<std::uint16_t>(whole));
        case 4: return store_as(to, static_cast<std::uint32_t>(whole));
        default: return store_as(to, whole);
    }
}

double rounded(DataType type, double value) {
    std::byte bytes[8];
    store(type, bytes, value);
    return load(type, bytes);
}

void each_coordinate(const TensorDesc& desc, const std::function<void(const Sizes&)>& visit) {
    Sizes at{};
    for (std::int64_t left = desc.element_count(); left > 0; --left) {
        visit(at);
        for (int d = desc.rank - 1; d >= 0 && ++at[d] == desc.sizes[d]; --d) {
            at[d] = 0;
        }
    }
}

std::int64_t place(const TensorDesc& desc, const Sizes& coordinate) {
    return std::inner_product(desc.strides.begin(), desc.strides.begin() + desc.rank, coordinate.begin(),
                              std::int64_t{0});
}

TestArray::TestArray(const TensorDesc& desc, Lie lie) : desc_(packed(desc.type, sizes_of(desc))) {
    const auto item = static_cast<std::int64_t>(item_size(desc.type));
    std::int64_t unit = lie == Lie::gapped ? 3 * item : item, before = 0;
    for (int k = 0; k < desc.rank; ++k) {
        const int d = lie == Lie::transposed ? k : desc.rank - 1 - k;
        array_.strides[d] = lie == Lie::reversed ? -unit : unit;
        before -= lie == Lie::reversed ? (desc.sizes[d] - 1) * unit : 0;
        unit *= desc.sizes[d];
    }
    array_.packed = lie == Lie::packed;
    const std::int64_t reach = lie == Lie::gapped ? unit - 2 * item : unit;
    bytes_ = static_cast<std::size_t>(reach + item);
    block_ = std::make_shared<Block>(bytes_);
    array_.data = block_->get() + item - before;
    soil();
}

TestArray::TestArray(const TensorDesc& desc, TestArray& other, std::int64_t shift)
    : desc_(packed(desc.type, sizes_of(desc))) {
    const std::size_t item = item_size(desc.type);
    bytes_ = std::max(other.bytes_, static_cast<std::size_t>(desc.element_count()) * item) + spare_elements * item;
    block_ = std::make_shared<Block>(bytes_);
    other.block_ = block_;
    other.bytes_ = bytes_;
    other.array_.data = block_->get() + spare_elements / 2 * item;
    array_.data = other.array_.data + shift * static_cast<std::int64_t>(item);
    soil();
}

std::byte* TestArray::element(const Sizes& coordinate) const {
    if (array_.packed) {
        return array_.data + place(desc_, coordinate) * static_cast<std::int64_t>(item_size(desc_.type));
    }
    return array_.data + std::inner_product(coordinate.begin(), coordinate.begin() + desc_.rank, array_.strides.begin(),
                                            std::int64_t{0});
}

void TestArray::set(const std::vector<double>& numbers) {
    std::size_t next = 0;
    each_coordinate(desc_, [&](const Sizes& at) { store(desc_.type, element(at), numbers.at(next++)); });
}

std::vector<double> TestArray::numbers() const {
    std::vector<double> result;
    each_coordinate(desc_, [&](const Sizes& at) { result.push_back(load(desc_.type, element(at))); });
    return result;
}

void TestArray::soil() { std::fill_n(block_->get(), bytes_, soil_byte); }

bool TestArray::gaps_are_untouched() const {
    std::vector<bool> covered(bytes_);
    each_coordinate(desc_, [&](const Sizes& at) {
        std::fill_n(covered.begin() + (element(at) - block_->get()), item_size(desc_.type), true);
    });
    for (std::size_t b = 0; b < bytes_; ++b) {
        if (!covered[b] && block_->get()[b] != soil_byte) {
            return false;
        }
    }
    return true;
}

}  // namespace dmlgraph::cpu::tests
