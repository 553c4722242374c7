// Finds kernels in the families' tables, which are sorted by opcode.
#include <algorithm>
#include <array>
#include <vector>

#include "cpu/kernels/families.h"

namespace dmlgraph::cpu {
namespace {

struct Opinfo {
    std::string_view name;
    std::uint8_t operands;
    std::uint8_t immediates;
};

constexpr std::array<Opinfo, opcode_count> infos{{
#define DMLGRAPH_OPCODE(name, operands, immediates) {#name, operands, immediates},
    DMLGRAPH_OPCODES(DMLGRAPH_OPCODE)
#undef DMLGRAPH_OPCODE
}};

const Opinfo& info(Opcode opcode) { return infos[static_cast<std::size_t>(opcode)]; }

#define DMLGRAPH_FAMILY(name) name##_kernels(),

std::vector<Entries> families(Level level) {
    switch (level) {
#ifdef DMLGRAPH_X86_LEVELS
        case Level::avx512: {
            using namespace avx512;
            return {DMLGRAPH_FAMILIES(DMLGRAPH_FAMILY)};
        }
        case Level::avx2: {
            using namespace avx2;
            return {DMLGRAPH_FAMILIES(DMLGRAPH_FAMILY)};
        }
#endif
        default: {
            using namespace baseline;
            return {DMLGRAPH_FAMILIES(DMLGRAPH_FAMILY)};
        }
    }
}

#undef DMLGRAPH_FAMILY

class Table {
public:
    explicit Table(Level level) {
        for (const Entries entries : families(level)) {
            for (const Entry& entry : entries) {
                by_opcode_[static_cast<std::size_t>(entry.opcode)].push_back(entry);
            }
        }
    }

    Kernel find(Opcode opcode, DataType operand, DataType result) const {
        for (const Entry& entry : by_opcode_[static_cast<std::size_t>(opcode)]) {
            if (entry.operand == operand && entry.result == result) {
                return entry.kernel;
            }
        }
        return nullptr;
    }

private:
    std::array<std::vector<Entry>, opcode_count> by_opcode_;
};

}  // namespace

Kernel find_kernel(Opcode opcode, DataType operand, DataType result, Level level) noexcept {
    static const std::array<Table, level_count> tables{Table(Level::baseline), Table(Level::avx2),
                                                       Table(Level::avx512)};
    return tables[static_cast<std::size_t>(level)].find(opcode, operand, result);
}

Kernel find_kernel(Opcode opcode, DataType operand, DataType result) noexcept {
    return find_kernel(opcode, operand, result, chosen_level());
}

std::optional<Opcode> find_opcode(std::string_view name) {
    const auto found = std::ranges::find(infos, name, &Opinfo::name);
    return found == infos.end() ? std::nullopt : std::optional(static_cast<Opcode>(found - infos.begin()));
}

std::string_view opcode_name(Opcode opcode) { return info(opcode).name; }

std::size_t operand_count(Opcode opcode) { return info(opcode).operands; }

std::size_t immediate_count(Opcode opcode) { return info(opcode).immediates; }

}  // namespace dmlgraph::cpu
