// What follows a product is computed before its numbers are stored: element-wise nodes join the epilogue of its step.
//
// A family begins with the product. Then come, in the graph's order, nodes that read its members' values and other
// tensors of the same sizes, element by element. It ends where only its last value is read from outside, or is an
// output of the graph: so nothing outside lies between two members, and the step can take the place of the last one.
#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "cpu/plan/planning.h"
#include "cpu/products/epilogue.h"
#include "cpu/products/zero_points.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::size_t most_members = 16;
constexpr std::size_t most_instructions = 24;  // each has a line of results

bool is_gathered_slowly(const TensorDesc& desc) {
    for (int d = desc.rank - 1; d >= 0; --d) {
        if (desc.sizes[d] != 1) {
            return desc.strides[d] > 1;
        }
    }
    return false;
}

bool has_sizes_of(const TensorDesc& desc, const TensorDesc& other) {
    return desc.rank == other.rank && desc.sizes == other.sizes;
}

class Absorption {
public:
    explicit Absorption(GraphSpec& graph) : graph_(graph), absorbed_(graph.nodes.size()) {
        producers_.assign(graph.inputs.size(), -1);
        for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
            first_values_.push_back(static_cast<std::int32_t>(producers_.size()));
            producers_.resize(producers_.size() + graph.nodes[n].outputs.size(), static_cast<std::int32_t>(n));
        }
        readers_.resize(producers_.size());
        for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
            for (const std::int32_t source : graph.nodes[n].sources) {
                if (source >= 0) {
                    readers_[static_cast<std::size_t>(source)].push_back(static_cast<std::int32_t>(n));
                }
            }
        }
        is_output_.resize(producers_.size());
        for (const std::int32_t output : graph.outputs) {
            is_output_[static_cast<std::size_t>(output)] = true;
        }
    }

    void run() {
        for (std::int32_t n = 0; n < static_cast<std::int32_t>(graph_.nodes.size()); ++n) {
            if (takes_followers(node(n))) {
                join(family_of(n));
            }
        }
        remove_absorbed();
    }

private:
    using Family = std::vector<std::int32_t>;  // nodes, ascending

    // Products of integers do not: behind their other inputs come zero points.
    static bool takes_followers(const NodeSpec& spec) {
        return spec.kind == NodeKind::step && spec.outputs.size() == 1 && spec.make_step->epilogue() != nullptr &&
               spec.inputs.size() >= first_operand && !is_byte(spec.inputs[0].type);
    }

    NodeSpec& node(std::int32_t n) { return graph_.nodes[static_cast<std::size_t>(n)]; }
    std::int32_t result(std::int32_t n) const { return first_values_[static_cast<std::size_t>(n)]; }
    const std::vector<std::int32_t>& readers(std::int32_t value) const {
        return readers_[static_cast<std::size_t>(value)];
    }

    Family family_of(std::int32_t product) {
        Family members{product};
        std::size_t ends = 1;
        std::set<std::int32_t> next(readers(result(product)).begin(), readers(result(product)).end());
        while (!next.empty() && members.size() < most_members) {
            const std::int32_t n = *next.begin();
            next.erase(next.begin());
            if (may_join(members, n)) {
                members.push_back(n);
                next.insert(readers(result(n)).begin(), readers(result(n)).end());
                ends = only_last_is_read(members) && fits(members) ? members.size() : ends;
            }
        }
        members.resize(ends);
        return members;
    }

    bool may_join(const Family& members, std::int32_t n) {
        const NodeSpec& spec = node(n);
        const TensorDesc& product = node(members.front()).outputs[0];
        if (absorbed_[static_cast<std::size_t>(n)] || spec.kind != NodeKind::element_wise ||
            !has_sizes_of(spec.outputs[0], product)) {
            return false;
        }
        for (std::size_t port = 0; port < spec.sources.size(); ++port) {
            const std::int32_t source = spec.sources[port];
            if (source < 0) {
                continue;
            }
            const TensorDesc& desc = spec.inputs[port];
            const bool inside = is_made_by(members, source);
            if (!has_sizes_of(desc, product) ||
                (inside ? !same_elements(desc, desc_of(source)) : !may_read(source, desc))) {
                return false;
            }
        }
        return std::ranges::all_of(spec.instructions, [](const InstructionSpec& each) {
            return !each.operands.empty() && each.operands.size() <= most_operands;
        });
    }

    // Whether it may be an operand: in memory, and read along its lines.
    bool may_read(std::int32_t source, const TensorDesc& desc) {
        const std::int32_t producer = producers_[static_cast<std::size_t>(source)];
        const bool is_sequence =
            producer >= 0 && node(producer).kind == NodeKind::element_wise && node(producer).sources.empty();
        return !is_sequence && !is_gathered_slowly(desc);
    }

    const TensorDesc& desc_of(std::int32_t value) {
        const std::int32_t producer = producers_[static_cast<std::size_t>(value)];
        return node(producer).outputs[static_cast<std::size_t>(value - result(producer))];
    }

    bool is_made_by(const Family& members, std::int32_t value) const {
        const std::int32_t producer = producers_[static_cast<std::size_t>(value)];
        return std::ranges::find(members, producer) != members.end();
    }

    bool only_last_is_read(const Family& members) const {
        return std::ranges::all_of(members.begin(), members.end() - 1, [&](std::int32_t n) {
            const std::int32_t made = result(n);
            return !is_output_[static_cast<std::size_t>(made)] &&
                   std::ranges::all_of(readers(made), [&](std::int32_t reader) {
                       return std::ranges::find(members, reader) != members.end();
                   });
        });
    }

    bool fits(const Family& members) {
        const std::optional<Joined> joined = write(members);
        return joined && joined->inputs.size() <= first_operand + most_operands &&
               joined->code.size() <= most_instructions;
    }

    // The product with all that follows it.
    struct Joined {
        std::vector<std::int32_t> sources;
        std::vector<TensorDesc> inputs;
        std::vector<InstructionSpec> code;
    };

    // Nothing if the last instruction does not give the last value.
    std::optional<Joined> write(const Family& members) {
        const NodeSpec& product = node(members.front());
        Joined joined{product.sources, product.inputs, *product.make_step->epilogue()};
        while (joined.sources.size() > first_operand && joined.sources.back() < 0) {
            joined.sources.pop_back();
            joined.inputs.pop_back();
        }
        const auto last = [&] {  // the sums, or the last result
            return static_cast<std::int16_t>(joined.code.empty() ? 0
                                                                 : -static_cast<std::ptrdiff_t>(joined.code.size()));
        };
        std::unordered_map<std::int32_t, std::int16_t> operands{{result(members.front()), last()}};  // by value
        for (const std::int32_t n : std::span(members).subspan(1)) {
            const NodeSpec& spec = node(n);
            const auto base = static_cast<std::int16_t>(joined.code.size());
            for (InstructionSpec each : spec.instructions) {
                for (std::int16_t& operand : each.operands) {
                    operand = operand < 0 ? static_cast<std::int16_t>(operand - base)
                                          : operand_of(spec, static_cast<std::size_t>(operand), operands, joined);
                }
                joined.code.push_back(std::move(each));
            }
            operands[result(n)] = spec.instructions.empty() ? operand_of(spec, 0, operands, joined) : last();
        }
        return operands[result(members.back())] == last() ? std::optional(std::move(joined)) : std::nullopt;
    }

    // What a member reads at a port: a member's result, or an input of the step.
    std::int16_t operand_of(const NodeSpec& spec, std::size_t port,
                            const std::unordered_map<std::int32_t, std::int16_t>& known, Joined& joined) {
        const std::int32_t source = spec.sources[port];
        if (const auto found = known.find(source); found != known.end()) {
            return found->second;
        }
        for (std::size_t i = first_operand; i < joined.sources.size(); ++i) {
            if (joined.sources[i] == source && same_elements(joined.inputs[i], spec.inputs[port])) {
                return static_cast<std::int16_t>(i);
            }
        }
        joined.sources.push_back(source);
        joined.inputs.push_back(spec.inputs[port]);
        return static_cast<std::int16_t>(joined.sources.size() - 1);
    }

    // Makes the last member the product.
    void join(const Family& members) {
        if (members.size() == 1) {
            return;
        }
        Joined joined = *write(members);
        for (const std::int32_t n : members) {
            absorbed_[static_cast<std::size_t>(n)] = n != members.back();
        }
        NodeSpec& product = node(members.front());
        NodeSpec& last = node(members.back());
        for (const std::int32_t n : std::span(members).subspan(1)) {
            if (node(n).name !=
                (product.also.empty() ? product.name : product.also.back())) {  // once for parts of an operator
                product.also.push_back(node(n).name);
            }
        }
        *product.make_step->epilogue() = std::move(joined.code);
        product.sources = std::move(joined.sources);
        product.inputs = std::move(joined.inputs);
        product.outputs = std::move(last.outputs);
        last = std::move(product);
    }

    void remove_absorbed() {
        std::vector<std::int32_t> numbers(producers_.size(), -1);  // by value: its new number
        std::vector<NodeSpec> kept;
        std::int32_t count = 0;
        for (std::size_t v = 0; v < producers_.size(); ++v) {
            const std::int32_t producer = producers_[v];
            numbers[v] = producer >= 0 && absorbed_[static_cast<std::size_t>(producer)] ? -1 : count++;
        }
        const auto renumber = [&](std::int32_t& value) {
            value = value < 0 ? value : numbers[static_cast<std::size_t>(value)];
        };
        for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
            if (!absorbed_[n]) {
                std::ranges::for_each(graph_.nodes[n].sources, renumber);
                kept.push_back(std::move(graph_.nodes[n]));
            }
        }
        std::ranges::for_each(graph_.outputs, renumber);
        graph_.nodes = std::move(kept);
    }

    GraphSpec& graph_;
    std::vector<bool> absorbed_;              // by node
    std::vector<std::int32_t> first_values_;  // … its first output
    std::vector<std::int32_t> producers_;     // by value; -1: an input
    std::vector<std::vector<std::int32_t>> readers_;
    std::vector<bool> is_output_;
};

}  // namespace

void absorb_followers(GraphSpec& graph) { Absorption(graph).run(); }

}  // namespace dmlgraph::cpu
