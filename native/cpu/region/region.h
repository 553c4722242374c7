// A region: connected nodes of one iteration domain, run as one pass over the data. It is what is computed; schedule.h
// says how.
//
// The dimensions of a region of rows are those that its reductions keep, then those that they reduce, which are a row.
// Results are wide (an element for each of a row) or narrow (one for each row); a wide instruction that takes a narrow
// operand sees it repeated. Views have all the dimensions; those of narrow values step 0 along the row's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/reduce.h"
#include "cpu/tensor/layout.h"

namespace dmlgraph::cpu {

// What an instruction or a store takes: an element of `loads`, or the result of an instruction.
struct Reference {
    bool load = false;
    std::int32_t index = 0;
};

inline std::size_t index_of(const Reference& reference) { return static_cast<std::size_t>(reference.index); }

struct RegionInstruction {
    Opcode opcode{};
    DataType operand{};
    Kernel kernel = nullptr;               // of the opcode and the types, or that of formulas
    const Reduction* reduction = nullptr;  // instead of opcode and kernel, in regions of rows
    bool narrow = false;                   // whether the result is one element of a row
    bool counts = false;                   // whether the result depends on where an element stands: sequences
    DataType result{};
    std::int32_t first_operand = 0;  // in Region::operands
    std::int32_t operand_count = 0;
    std::int32_t first_immediate = 0;  // in Region::immediates
    std::int32_t members = 1;          // instructions that it computes: of a formula several
};

struct RegionStore {
    View view;
    Reference source;
    bool narrow = false;
};

struct Region {
    int rank = 0;
    Sizes sizes{};
    int kept = -1;            // of a region of rows: dimensions before those of a row; else -1
    bool is_product = false;  // whether what it stores, a single result, is a product of the loads, converted
    bool columns = false;     // whether the elements of neighbouring rows, not those of a row, lie side by side
    std::vector<View> loads;  // at the region's sizes
    std::vector<Reference> operands;
    std::vector<Immediate> immediates;
    std::vector<RegionInstruction> instructions;
    std::vector<RegionStore> stores;

    bool has_rows() const { return kept >= 0; }
    const Reference& operand(const RegionInstruction& instruction, int k) const {
        return operands[static_cast<std::size_t>(instruction.first_operand + k)];
    }
    double immediate(const RegionInstruction& instruction, int k) const {
        return immediates[static_cast<std::size_t>(instruction.first_immediate + k)].f;
    }
    // The loads, then the stores.
    std::size_t stream_count() const { return loads.size() + stores.size(); }
    const View& stream(std::size_t s) const { return s < loads.size() ? loads[s] : stores[s - loads.size()].view; }
    DataType type(const Reference& reference) const {
        const std::size_t index = index_of(reference);
        return reference.load ? loads[index].type : instructions[index].result;
    }
};

// Where a run finds a region's tensors, and memory that it may use.
struct RegionMemory {
    std::byte* const* bases;  // the first elements of the loads, then of the stores
    std::byte* scratch;       // aligned to cache lines
    std::size_t scratch_stride;
    std::byte* states;  // of reductions, shared by workers

    std::byte* scratch_of(int worker) const { return scratch + scratch_stride * static_cast<std::size_t>(worker); }
};

}  // namespace dmlgraph::cpu
