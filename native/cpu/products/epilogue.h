// What follows a product before its numbers are stored: instructions on a line of sums while it is in the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cpu/kernels/sum_ending.h"
#include "cpu/plan/plan.h"
#include "cpu/region/region.h"

namespace dmlgraph::cpu {

inline constexpr std::size_t widest_item = 8;    // bytes of an element
inline constexpr std::size_t first_operand = 2;  // of an epilogue, among the inputs of a product
inline constexpr std::size_t most_operands = 8;  // of an epilogue, and of an instruction

// A line of a tensor's elements, some bytes apart.
struct Line {
    const std::byte* data;
    std::int64_t step;
    DataType type;
};

class Epilogue {
public:
    // An operand that is added: its index, from 0 on, and what makes it float32 before; null: it is that.
    struct Summand {
        std::size_t operand;
        Kernel to_single;
    };
    // Operands that are added, the first one first, then a function, all in float32. Another function of one number may
    // follow, which tiles do not know. Or the result is then rounded to float16; an operand of float16 may be added and
    // the sum rounded; then follows THRESHOLD or CLIP.
    struct Sums {
        std::vector<Summand> summands;
        SumFunction function;
        std::optional<InstructionSpec> last;
        bool rounds = false;
        std::optional<std::size_t> rounded_summand;  // its index
        SumFunction rounded_function;
    };

    // Sums of int32, to which one may be added, that become 8-bit integers: the operands' indices.
    struct Requantized {
        std::size_t factor;
        std::size_t zero_point;
        std::optional<std::size_t> summand;
    };

    Epilogue() = default;
    // Operand 0 is the sums; operands from 2 on are the inputs of the step that come after the product's two. The last
    // instruction gives the result; without instructions that is the sums, of the type `sums`. Throws
    // std::invalid_argument for other code.
    Epilogue(const std::vector<InstructionSpec>& code, DataType result, std::size_t inputs,
             DataType sums = DataType::float32);

    bool empty() const { return region_.instructions.empty(); }
    // Nothing if it is more than sums, then such a function.
    const std::optional<Sums>& sums() const { return sums_; }
    // Nothing if it is anything else.
    const std::optional<Requantized>& requantized() const { return requantized_; }
    // Of memory for lines of up to `count` elements.
    std::size_t scratch_bytes(std::int64_t count) const;
    // Computes `count` results from as many sums, in `out`, which may be where the sums are. `operands`: a line of
    // every input after the product's two.
    void run(const void* sums, std::span<const Line> operands, std::byte* out, std::int64_t count,
             std::byte* scratch) const;

private:
    Region region_;  // of a line
    std::optional<Sums> sums_;
    std::optional<Requantized> requantized_;
    std::size_t operands_ = 0;  // inputs after the product's two
};

}  // namespace dmlgraph::cpu
