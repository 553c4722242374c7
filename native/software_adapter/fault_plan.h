// What DMLGRAPH_SOFTWARE_FAULT asks for: which dispatch computes wrongly, and how.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace dmlgraph::software {

constexpr char fault_variable[] = "DMLGRAPH_SOFTWARE_FAULT";

// How numbers of a data type lie in memory. Integers have neither an exponent nor a NaN.
struct NumberType {
    std::string_view name;
    uint32_t bytes;
    uint64_t exponent;  // the bits of the exponent; of an infinity, too
    uint64_t half;      // the highest bit of the mantissa; 1 for integers
    uint64_t one;
};

enum class FaultKind { nothing, ulp, element, row, nan, random, late, remove, hang };

struct FaultPlan {
    FaultKind kind = FaultKind::nothing;
    uint64_t count = 0;
    const NumberType* type = nullptr;
    uint64_t kernel = 0;    // 0: any
    uint64_t shader = 0;    // 0: any
    uint64_t dispatch = 0;  // its number in a list, among those of the kernel or shader if one is given; 0: any
    bool reused = false;    // only where it writes memory that another dispatch of the list has written
    bool logs = false;
};

// Null for an empty text; throws std::invalid_argument with the reason for the user.
std::shared_ptr<const FaultPlan> parse_fault(std::string_view text);

}  // namespace dmlgraph::software
