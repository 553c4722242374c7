// Every kernel of every level on the extremes of its types: scalars, counts, offsets and, for exact kernels, levels do
// not change the results; and single kernels compared with loops.
#include "cpu/kernels/kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cpu/kernels/level.h"
#include "cpu/tests/random.h"
#include "cpu/tests/tensors.h"

namespace dmlgraph::cpu::tests {
namespace {

constexpr DataType types[] = {DataType::float32, DataType::float16, DataType::uint32, DataType::uint16,
                              DataType::uint8,   DataType::int32,   DataType::int16,  DataType::int8,
                              DataType::float64, DataType::uint64,  DataType::int64};

// Levels may differ in the last place of these.
constexpr Opcode approximate[] = {
    Opcode::EXP,
    Opcode::LOG,
    Opcode::ERF,
    Opcode::EXP_BELOW,
    Opcode::SIN,
    Opcode::COS,
    Opcode::TAN,
    Opcode::ASIN,
    Opcode::ACOS,
    Opcode::ATAN,
    Opcode::SINH,
    Opcode::COSH,
    Opcode::TANH,
    Opcode::ASINH,
    Opcode::ACOSH,
    Opcode::ATANH,
    Opcode::ATAN_YX,
    Opcode::POW,
    Opcode::ELU,
    Opcode::CONSTANT_POW,
    Opcode::CELU,
    Opcode::SCALED_ELU,
    Opcode::SIGMOID,
    Opcode::SOFTPLUS,
    Opcode::GELU,
    Opcode::SCALED_TANH,
    Opcode::SOFTSIGN,
    Opcode::SWISH,
    Opcode::PARAMETRIC_SOFTPLUS,
};

struct Signature {
    Opcode opcode;
    DataType operand;
    DataType result;

    // Operands whose type is not the operand type: see opcodes.h.
    std::vector<DataType> operands() const {
        switch (opcode) {
            case Opcode::IF: return {DataType::uint8, operand, operand};
            case Opcode::INTEGER_POW: return {operand, DataType::int64};
            case Opcode::SUBTRACT_WIDE: return {result, operand};
            case Opcode::QUANTIZE_FROM: return {operand, operand, result};
            case Opcode::REQUANTIZE: return {operand, DataType::float32, result};
            case Opcode::DEQUANTIZE: return {operand, result};
            case Opcode::DEQUANTIZE_FROM: return {operand, result, operand};
            default: return std::vector<DataType>(operand_count(opcode), operand);
        }
    }

    std::string text() const {
        return std::string(opcode_name(opcode)) + " of " + std::to_string(static_cast<int>(operand)) + " to " +
               std::to_string(static_cast<int>(result));
    }
};

template <class Visit>
void each_kernel(const Visit& visit) {
    for (std::size_t k = 0; k < opcode_count; ++k) {
        for (const DataType operand : types) {
            for (const DataType result : types) {
                const Signature signature{static_cast<Opcode>(k), operand, result};
                if (find_kernel(signature.opcode, operand, result, levels()[0]) != nullptr) {
                    visit(signature);
                }
            }
        }
    }
}

bool is_float(DataType type) {
    return type == DataType::float32 || type == DataType::float16 || type == DataType::float64;
}

using Limits = std::numeric_limits<double>;

constexpr double extreme_numbers[] = {
    0.0,
    -0.0,
    1,
    -1,
    0.5,
    1.5,
    2.5,
    -2.5,
    3,
    127.5,
    -128.5,
    255,
    256,
    65504,
    32767.5,
    -32769,
    65536,
    2147483520,
    2147483647,
    2147483648,
    -2147483648.0,
    -2147483904.0,
    4294967040,
    4294967295,
    4294967296,
    9223371487098961920.0,
    9223372036854775808.0,
    -9223372036854775808.0,
    18446742974197923840.0,
    18446744073709551616.0,
    1e30,
    -1e30,
    1e-5,
    1e-30,
    1e-45,
    -1e-45,
    3.4028234663852886e38,
    -3.4028234663852886e38,
    1e300,
    Limits::infinity(),
    -Limits::infinity(),
    Limits::quiet_NaN(),
    88.8,
    -104,
    1048577,
};

// Bit patterns of an element that test arithmetic.
std::vector<std::uint64_t> extremes_of_floats(DataType type) {
    std::vector<std::uint64_t> bits;
    for (const double number : extreme_numbers) {
        std::uint64_t element = 0;
        if (type == DataType::float32) {
            // Out of range, determined from the bits, because the conversion of such a number is undefined.
            const bool too_large = std::isfinite(number) && std::fabs(number) > 3.5e38;
            element = std::bit_cast<std::uint32_t>(too_large ? std::numeric_limits<float>::infinity()
                                                             : static_cast<float>(number));
        } else {
            store(type, reinterpret_cast<std::byte*>(&element), number);
        }
        bits.push_back(element);
    }
    return bits;
}

std::vector<std::uint64_t> extremes(DataType type) {
    if (is_float(type)) {
        return extremes_of_floats(type);
    }
    std::vector<std::uint64_t> bits;
    const int width = static_cast<int>(item_size(type)) * 8;
    for (const std::uint64_t number :
         {0u, 1u, 2u, 3u, 7u, 8u, 10u, 15u, 16u, 17u, 31u, 32u, 33u, 63u, 64u, 65u, 100u, 127u}) {
        bits.push_back(number);
        bits.push_back(~number);
    }
    for (int top = 7; top < width; top += 8) {
        bits.push_back(std::uint64_t{1} << top);        // the least of signed ones
        bits.push_back((std::uint64_t{1} << top) - 1);  // … and the greatest
        bits.push_back((std::uint64_t{1} << top) + 1);
    }
    return bits;
}

// Memory of exactly `count` elements: all extremes, repeated in a different order for each operand, so that all kinds
// of pairs occur; between them random bits.
class Elements {
public:
    Elements(DataType type, std::size_t count, std::size_t operand)
        : item_(item_size(type)), count_(count), block_(std::max<std::size_t>(1, count * item_)) {
        const std::vector<std::uint64_t> bits = extremes(type);
        Random random(operand + 1);
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t k = operand == 0 ? i : operand == 1 ? i / bits.size() + i : random.bits();
            const std::uint64_t element = operand < 2 && i % 97 == 96 ? random.bits() : bits[k % bits.size()];
            std::memcpy(at(i), &element, item_);  // the low bytes
        }
    }
    explicit Elements(DataType type, std::size_t count) : item_(item_size(type)), count_(count), block_(count * item_) {
        std::memset(block_.get(), 0xcd, count * item_);
    }

    std::byte* at(std::size_t index) { return block_.get() + index * item_; }
    const std::byte* at(std::size_t index) const { return block_.get() + index * item_; }
    std::size_t bytes() const { return count_ * item_; }
    bool operator==(const Elements& other) const { return std::memcmp(at(0), other.at(0), bytes()) == 0; }

private:
    std::size_t item_;
    std::size_t count_;
    Block block_;
};

std::vector<Immediate> immediates_of(const Signature& signature, int variant) {
    constexpr double numbers[][6] = {{0.75, 1.5, 0.5, 2, 1, 3}, {-2, 3, -1, 0, 4, 1}, {0, 0, 0, 0, 0, 0}};
    std::vector<Immediate> result;
    for (std::size_t k = 0; k < immediate_count(signature.opcode); ++k) {
        const double number = numbers[variant][k];
        Immediate immediate{};
        if (signature.opcode == Opcode::IS_INFINITY) {
            immediate.i = variant - 1;
        } else if (is_float(signature.operand) || signature.opcode == Opcode::SCALE_BIAS) {
            immediate.f = number;
        } else {
            immediate.i = static_cast<std::int64_t>(number * 4);
        }
        result.push_back(immediate);
    }
    return result;
}

constexpr std::size_t most = 2309;  // more than the kernels' buffers, and not a multiple of any block

struct Case {
    Signature signature;
    std::vector<Elements> inputs;
    std::vector<Immediate> immediates;

    explicit Case(const Signature& given, int variant) : signature(given), immediates(immediates_of(given, variant)) {
        for (const DataType type : signature.operands()) {
            inputs.emplace_back(type, most, inputs.size());
        }
    }

    // The elements from `from` on; an operand whose bit is set in `scalars` is its first element.
    Elements run(const Level& level, std::size_t from, std::size_t count, unsigned scalars) const {
        Elements out(signature.result, count);
        std::vector<cpu::Operand> in;
        for (std::size_t k = 0; k < inputs.size(); ++k) {
            in.push_back({inputs[k].at(from), (scalars >> k & 1) != 0});
        }
        call(level, out.at(0), in, count, from);
        return out;
    }

    void call(const Level& level, void* out, const std::vector<cpu::Operand>& in, std::size_t count,
              std::size_t first) const {
        find_kernel(signature.opcode, signature.operand, signature.result,
                    level)({out, in.data(), count, immediates.data(), first});
    }
};

}  // namespace

TEST_CASE("kernels of all levels take extremes") {
    each_kernel([](const Signature& signature) {
        for (const int variant : {0, 1, 2}) {
            if (variant > 0 && immediate_count(signature.opcode) == 0) {
                break;
            }
            const Case each(signature, variant);
            const Elements expected = each.run(levels()[0], 0, most, 0);
            for (const Level& level : levels()) {
                INFO(signature.text(), ", ", std::string(level.name));
                CHECK_MESSAGE((find_kernel(signature.opcode, signature.operand, signature.result, level) != nullptr),
                              "there is one");
                const bool exact = std::ranges::find(approximate, signature.opcode) == std::end(approximate);
                CHECK_MESSAGE((!exact || is_float(signature.result) || each.run(level, 0, most, 0) == expected),
                              "levels agree");
            }
        }
    });
}

TEST_CASE("counts and places do not matter to kernels") {
    each_kernel([](const Signature& signature) {
        const Case each(signature, 0);
        const std::size_t item = item_size(signature.result);
        for (const Level& level : levels()) {
            INFO(signature.text(), ", ", std::string(level.name));
            const Elements whole = each.run(level, 0, most, 0);
            for (const std::size_t count : {1, 2, 3, 5, 8, 15, 31, 33, 64, 255, 257}) {
                const std::size_t from = count % 7;
                const Elements part = each.run(level, from, count, 0);
                CHECK_MESSAGE(std::memcmp(part.at(0), whole.at(from), count * item) == 0, "a part is as in the whole");
            }
            const auto operands = signature.operands();
            for (std::size_t k = 0; k < operands.size(); ++k) {
                if (item_size(operands[k]) != item) {
                    continue;
                }
                Elements place(operands[k], most, k);
                std::vector<cpu::Operand> in;
                for (std::size_t other = 0; other < operands.size(); ++other) {
                    in.push_back({other == k ? place.at(0) : each.inputs[other].at(0), false});
                }
                each.call(level, place.at(0), in, most, 0);
                CHECK_MESSAGE(std::memcmp(place.at(0), whole.at(0), most * item) == 0, "in place");
            }
        }
    });
}

TEST_CASE("scalars stand for all elements of a kernel") {
    constexpr std::size_t count = 321;
    each_kernel([](const Signature& signature) {
        const auto operands = signature.operands();
        for (const std::size_t from : {0, 1, 3, 40}) {  // which element is the scalar
            for (unsigned scalars = 1; scalars < 1u << operands.size(); ++scalars) {
                const Case each(signature, 0);
                Case spread(signature, 0);
                for (std::size_t k = 0; k < operands.size(); ++k) {
                    const std::size_t item = item_size(operands[k]);
                    for (std::size_t i = 0; (scalars >> k & 1) != 0 && i < count; ++i) {
                        std::memcpy(spread.inputs[k].at(from + i), each.inputs[k].at(from), item);
                    }
                }
                for (const Level& level : levels()) {
                    INFO(signature.text(), ", ", std::string(level.name));
                    CHECK_MESSAGE(each.run(level, from, count, scalars) == spread.run(level, from, count, 0),
                                  "as if repeated");
                    CHECK_MESSAGE(each.run(level, from, 1, scalars) == spread.run(level, from, 1, 0), "of one element");
                }
            }
        }
    });
}

namespace {

// An exact function of the bits of two elements; signed types are in two's complement.
struct Exact {
    Opcode opcode;
    std::uint64_t (*function)(std::uint64_t a, std::uint64_t b, int width);
};

std::int64_t as_signed(std::uint64_t bits, int width) {
    return static_cast<std::int64_t>(bits << (64 - width)) >> (64 - width);
}

constexpr Exact exact_words[] = {
    {Opcode::ADD, [](std::uint64_t a, std::uint64_t b, int) { return a + b; }},
    {Opcode::SUBTRACT, [](std::uint64_t a, std::uint64_t b, int) { return a - b; }},
    {Opcode::MULTIPLY, [](std::uint64_t a, std::uint64_t b, int) { return a * b; }},
    {Opcode::BIT_AND, [](std::uint64_t a, std::uint64_t b, int) { return a & b; }},
    {Opcode::BIT_OR, [](std::uint64_t a, std::uint64_t b, int) { return a | b; }},
    {Opcode::BIT_XOR, [](std::uint64_t a, std::uint64_t b, int) { return a ^ b; }},
    {Opcode::BIT_NOT, [](std::uint64_t a, std::uint64_t, int) { return ~a; }},
    {Opcode::BIT_COUNT,
     [](std::uint64_t a, std::uint64_t, int) { return static_cast<std::uint64_t>(std::popcount(a)); }},
    {Opcode::EQUAL, [](std::uint64_t a, std::uint64_t b, int) { return std::uint64_t{a == b}; }},
};

constexpr Exact exact_unsigned[] = {
    {Opcode::MAX, [](std::uint64_t a, std::uint64_t b, int) { return std::max(a, b); }},
    {Opcode::LESS, [](std::uint64_t a, std::uint64_t b, int) { return std::uint64_t{a < b}; }},
    // Shifts use the count modulo 32; those of 64 bits a count below 32, else 32 plus the count modulo 32.
    {Opcode::SHIFT_LEFT,
     [](std::uint64_t a, std::uint64_t b, int width) {
         const std::uint64_t low = b & 0xffffffffu;
         return a << (width == 64 && low >= 32 ? 32 + low % 32 : low % 32);
     }},
    {Opcode::SHIFT_RIGHT,
     [](std::uint64_t a, std::uint64_t b, int width) {
         const std::uint64_t low = b & 0xffffffffu;
         return a >> (width == 64 && low >= 32 ? 32 + low % 32 : low % 32);
     }},
    {Opcode::DIVIDE, [](std::uint64_t a, std::uint64_t b, int) { return b == 0 ? ~std::uint64_t{0} : a / b; }},
};

constexpr Exact exact_signed[] = {
    {Opcode::MIN,
     [](std::uint64_t a, std::uint64_t b, int width) { return as_signed(a, width) < as_signed(b, width) ? a : b; }},
    {Opcode::LESS_OR_EQUAL, [](std::uint64_t a, std::uint64_t b,
                               int width) { return std::uint64_t{as_signed(a, width) <= as_signed(b, width)}; }},
};

std::uint64_t bits_at(const Elements& elements, std::size_t index, std::size_t item) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, elements.at(index), item);
    return bits;
}

void check_exact(std::span<const Exact> functions, std::span<const DataType> operand_types) {
    for (const Exact& exact : functions) {
        int kernels = 0;
        for (const DataType operand : operand_types) {
            for (const DataType result : types) {
                if (find_kernel(exact.opcode, operand, result, levels()[0]) == nullptr) {
                    continue;
                }
                ++kernels;
                const Signature signature{exact.opcode, operand, result};
                const Case each(signature, 0);
                const std::size_t item = item_size(operand), result_item = item_size(result);
                const std::uint64_t mask = ~std::uint64_t{0} >> (64 - 8 * result_item);
                for (const Level& level : levels()) {
                    INFO(signature.text(), ", ", std::string(level.name));
                    const Elements got = each.run(level, 0, most, 0);
                    bool right = true;
                    for (std::size_t i = 0; i < most; ++i) {
                        const std::uint64_t a = bits_at(each.inputs[0], i, item);
                        const std::uint64_t b = each.inputs.size() > 1 ? bits_at(each.inputs[1], i, item) : 0;
                        const std::uint64_t expected = exact.function(a, b, static_cast<int>(item) * 8) & mask;
                        right = right && bits_at(got, i, result_item) == expected;
                    }
                    CHECK_MESSAGE(right, "as in a loop");
                }
            }
        }
        CHECK_MESSAGE(kernels > 0, std::string(opcode_name(exact.opcode)));
    }
}

}  // namespace

TEST_CASE("integer kernels are exact") {
    constexpr DataType unsigned_types[] = {DataType::uint8, DataType::uint16, DataType::uint32, DataType::uint64};
    constexpr DataType signed_types[] = {DataType::int8, DataType::int16, DataType::int32, DataType::int64};
    check_exact(exact_words, unsigned_types);
    check_exact(exact_words, signed_types);
    check_exact(exact_unsigned, unsigned_types);
    check_exact(exact_signed, signed_types);
}

TEST_CASE("float kernels are exact") {
    const struct {
        Opcode opcode;
        float (*function)(float a, float b);
    } cases[] = {
        {Opcode::ADD, [](float a, float b) { return a + b; }},
        {Opcode::SUBTRACT, [](float a, float b) { return a - b; }},
        {Opcode::MULTIPLY, [](float a, float b) { return a * b; }},
        {Opcode::DIVIDE, [](float a, float b) { return a / b; }},
        {Opcode::ABS, [](float a, float) { return std::fabs(a); }},
        {Opcode::NEGATE, [](float a, float) { return -a; }},
        {Opcode::FLOOR, [](float a, float) { return std::floor(a); }},
        {Opcode::CEIL, [](float a, float) { return std::ceil(a); }},
        {Opcode::TRUNCATE, [](float a, float) { return std::trunc(a); }},
        {Opcode::ROUND_TO_EVEN, [](float a, float) { return std::nearbyintf(a); }},
        {Opcode::SQRT, [](float a, float) { return std::sqrt(a); }},
    };
    for (const auto& [opcode, function] : cases) {
        const Case each({opcode, DataType::float32, DataType::float32}, 0);
        for (const Level& level : levels()) {
            INFO(each.signature.text(), ", ", std::string(level.name));
            const Elements got = each.run(level, 0, most, 0);
            bool right = true;
            for (std::size_t i = 0; i < most; ++i) {
                const auto number = [&](const Elements& elements) {
                    return std::bit_cast<float>(static_cast<std::uint32_t>(bits_at(elements, i, sizeof(float))));
                };
                const float expected =
                    function(number(each.inputs[0]), each.inputs.size() > 1 ? number(each.inputs[1]) : 0);
                const float result = number(got);
                right = right && (result == expected || (std::isnan(result) && std::isnan(expected)));
            }
            CHECK_MESSAGE(right, "as in a loop");
        }
    }
}

TEST_CASE("names of opcodes") {
    for (std::size_t k = 0; k < opcode_count; ++k) {
        const auto opcode = static_cast<Opcode>(k);
        CHECK_MESSAGE(find_opcode(opcode_name(opcode)) == opcode, std::string(opcode_name(opcode)));
    }
    CHECK_MESSAGE((!find_opcode("NOTHING") && !find_opcode("")), "no other name");
    CHECK_MESSAGE(std::ranges::find(levels(), chosen_level().name, &Level::name) != levels().end(),
                  "the chosen level is one of this processor");
}

}  // namespace dmlgraph::cpu::tests
