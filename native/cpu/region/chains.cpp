#include "cpu/region/chains.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "cpu/region/rewriting.h"

namespace dmlgraph::cpu {
namespace {

// Positions in (x ± b) · m ± a, in the order they are computed in; then the bounds.
enum Position : std::size_t { B, M, A, bound };

// A number or the result of something else.
struct Term {
    Reference reference;
    std::optional<float> number;
};

// What a chain computes so far.
struct Chain {
    Reference x;
    std::array<std::optional<Term>, 3> terms{};  // by position; without one: −0, 1, −0, which change nothing
    std::array<bool, 3> minus{};
    bool counts = false;  // whether m is a sequence of the chain's own
    std::vector<double> bounds;  // none; the lower one; or both
    std::vector<std::int32_t> inside;  // instructions that are in it, but for the last one

    bool is_free(Position position) const {  // nothing has been computed there or behind
        bool result = bounds.empty();
        for (std::size_t p = position; p < terms.size(); ++p) {
            result = result && !terms[p];
        }
        return result;
    }

    void put(Position position, Term term, bool negated = false) {
        terms[position] = std::move(term);
        minus[position] = negated;
    }
};

bool is(const RegionInstruction& instruction, Opcode opcode) {
    return instruction.reduction == nullptr && instruction.opcode == opcode && instruction.result == DataType::float32 &&
           instruction.operand == DataType::float32;
}

class Joining {
public:
    Joining(Region& region, const LoadNumber& load_number)
        : region_(region), load_number_(load_number), chains_(region.instructions.size()), uses_(chains_.size(), 0) {
        for (const Reference& operand : region.operands) {
            if (!operand.load) {
                ++uses_[index_of(operand)];
            }
        }
        for (const RegionStore& store : region.stores) {
            if (!store.source.load) {
                uses_[index_of(store.source)] += 2;  // it must stay
            }
        }
    }

    void run() {
        for (std::size_t i = 0; i < chains_.size(); ++i) {
            chains_[i] = chain_of(region_.instructions[i]);
        }
        write();
    }

private:
    bool is_chain(std::size_t instruction) const {
        return chains_[instruction] && !chains_[instruction]->inside.empty();
    }

    // The chain of an operand that nobody else takes, if it can go on at a position; else one that begins with it.
    Chain begin(const RegionInstruction& instruction, int k, Position position) const {
        const Reference& taken = region_.operand(instruction, k);
        Chain chain;
        chain.x = taken;
        if (can_go_on(instruction, k, position)) {
            chain = *chains_[index_of(taken)];
            chain.inside.push_back(taken.index);
        }
        return chain;
    }

    bool can_go_on(const RegionInstruction& instruction, int k, Position position) const {
        const Reference& taken = region_.operand(instruction, k);
        if (taken.load || uses_[index_of(taken)] != 1 || !chains_[index_of(taken)]) {
            return false;
        }
        const Chain& chain = *chains_[index_of(taken)];
        return region_.instructions[index_of(taken)].narrow == instruction.narrow &&
               (position == bound ? chain.bounds.empty() : chain.is_free(position));
    }

    // Whether an operand is a sequence that nobody else takes.
    bool is_own_sequence(const RegionInstruction& instruction, int k) const {
        const Reference& taken = region_.operand(instruction, k);
        if (taken.load || uses_[index_of(taken)] != 1) {
            return false;
        }
        const RegionInstruction& producer = region_.instructions[index_of(taken)];
        return is(producer, Opcode::SEQUENCE) && producer.narrow == instruction.narrow;
    }

    // A sum goes where nothing is computed before it yet: to b if the chain has only begun, else to a.
    static Position sum_position(const Chain& chain) { return chain.is_free(B) ? B : A; }

    // The longest chain that ends with the instruction.
    std::optional<Chain> chain_of(const RegionInstruction& instruction) const {
        if (instruction.reduction != nullptr || instruction.operand != DataType::float32 ||
            instruction.result != DataType::float32) {
            return std::nullopt;
        }
        switch (instruction.opcode) {
            case Opcode::ADD:
            case Opcode::SUBTRACT: return sum(instruction);
            case Opcode::MULTIPLY: return product(instruction);
            case Opcode::SCALE_BIAS: return scaled(instruction);
            case Opcode::NEGATE: {
                Chain chain = begin(instruction, 0, M);
                chain.put(M, {{}, -1.0f});
                return chain;
            }
            case Opcode::RELU: return bounded(instruction, {0.0});
            case Opcode::THRESHOLD: return bounded(instruction, {region_.immediate(instruction, 0)});
            case Opcode::CLIP: return bounded(instruction, {region_.immediate(instruction, 0), region_.immediate(instruction, 1)});
            default: return std::nullopt;
        }
    }

    Chain sum(const RegionInstruction& instruction) const {
        const bool adds = instruction.opcode == Opcode::ADD;
        const int from = adds && !can_go_on(instruction, 0, A) && can_go_on(instruction, 1, A);
        Chain chain = begin(instruction, from, A);
        chain.put(sum_position(chain), {region_.operand(instruction, 1 - from), {}}, !adds);
        return chain;
    }

    Chain product(const RegionInstruction& instruction) const {
        const bool second = can_go_on(instruction, 1, M) || is_own_sequence(instruction, 0);
        const int from = !can_go_on(instruction, 0, M) && second;
        Chain chain = begin(instruction, from, M);
        const Reference& factor = region_.operand(instruction, 1 - from);
        chain.put(M, {factor, {}});
        if (is_own_sequence(instruction, 1 - from)) {
            chain.counts = true;
            chain.inside.push_back(factor.index);
        }
        return chain;
    }

    Chain scaled(const RegionInstruction& instruction) const {
        const auto scale = static_cast<float>(region_.immediate(instruction, 0));
        const auto bias = static_cast<float>(region_.immediate(instruction, 1));
        if (scale == 1.0f) {
            Chain chain = begin(instruction, 0, A);
            chain.put(sum_position(chain), {{}, bias});
            return chain;
        }
        Chain chain = begin(instruction, 0, M);
        chain.put(M, {{}, scale});
        chain.put(A, {{}, bias});
        return chain;
    }

    std::optional<Chain> bounded(const RegionInstruction& instruction, std::vector<double> bounds) const {
        if (std::ranges::any_of(bounds, [](double each) { return each != each; })) {
            return std::nullopt;  // such a bound is ignored
        }
        Chain chain = begin(instruction, 0, bound);
        chain.bounds = std::move(bounds);
        return chain;
    }

    // The instructions again, without those that are in another one's chain.
    void write() {
        std::vector<bool> joined(chains_.size(), false);
        for (std::size_t i = chains_.size(); i-- > 0;) {
            if (is_chain(i) && !joined[i]) {
                for (const std::int32_t each : chains_[i]->inside) {
                    joined[static_cast<std::size_t>(each)] = true;
                }
            }
        }
        rewrite(region_, joined, [&](std::size_t i, RegionInstruction& made) -> std::optional<std::vector<Reference>> {
            return is_chain(i) ? std::optional(become(made, *chains_[i])) : std::nullopt;
        });
    }

    // Makes an instruction the whole chain; its operands.
    std::vector<Reference> become(RegionInstruction& instruction, const Chain& chain) {
        constexpr std::array<float, 3> nothing{-0.0f, 1.0f, -0.0f};
        constexpr std::array plain{Opcode::AFFINE, Opcode::AFFINE_ABOVE, Opcode::AFFINE_BETWEEN};  // by number of bounds
        constexpr std::array counting{Opcode::AFFINE_SEQUENCE, Opcode::AFFINE_SEQUENCE_ABOVE, Opcode::AFFINE_SEQUENCE_BETWEEN};
        std::vector<Immediate>& immediates = region_.immediates;
        const auto first = immediates.size();
        for (const Position position : {B, A}) {
            immediates.push_back({.f = chain.minus[position] ? -1.0 : 1.0});
        }
        for (const double each : chain.bounds) {
            immediates.push_back({.f = each});
        }
        if (chain.counts) {
            const RegionInstruction& sequence = region_.instructions[index_of(chain.terms[M]->reference)];
            for (std::size_t k = 0; k < immediate_count(Opcode::SEQUENCE); ++k) {
                immediates.push_back(Immediate(immediates[static_cast<std::size_t>(sequence.first_immediate) + k]));
            }
        }
        instruction.opcode = (chain.counts ? counting : plain)[chain.bounds.size()];
        instruction.operand = DataType::float32;
        instruction.kernel = find_kernel(instruction.opcode, DataType::float32, DataType::float32);
        instruction.counts = chain.counts;
        instruction.first_immediate = static_cast<std::int32_t>(first);
        std::vector<Reference> taken{chain.x};
        for (std::size_t position = B; position <= A; ++position) {
            if (position == M && chain.counts) {
                continue;
            }
            const Term term = chain.terms[position].value_or(Term{{}, nothing[position]});
            taken.push_back(term.number ? load_number_(*term.number) : term.reference);
        }
        return taken;
    }

    Region& region_;
    const LoadNumber& load_number_;
    std::vector<std::optional<Chain>> chains_;  // by instruction: the longest that ends with it
    std::vector<int> uses_;                   // by instruction: how often its result is taken
};

}  // namespace

void join_chains(Region& region, const LoadNumber& load_number) {
    Joining(region, load_number).run();
}

}  // namespace dmlgraph::cpu
