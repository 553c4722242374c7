// Which nodes may run row by row with reductions.
//
// Every reduction has a domain: the sizes it reads and the dimensions it reduces. Element-wise nodes that it is connected
// to belong to the domain, too: wide ones, of all the sizes, and narrow ones, of those that are kept. Dimensions of
// size 1 do not count.
#include <vector>

#include "cpu/plan/planning.h"
#include "cpu/region/row_schedule.h"

namespace dmlgraph::cpu {
namespace {

// The dimensions that are not of size 1; a bit of `reduced` for each that is among the node's axes.
RowDomain domain_of(const TensorDesc& desc, std::uint32_t axes) {
    RowDomain domain;
    std::int64_t length = 1;
    for (int d = 0; d < desc.rank; ++d) {
        if (desc.sizes[d] == 1) {
            continue;
        }
        if ((axes >> d & 1) != 0) {
            domain.reduced |= 1u << domain.rank;
            length *= desc.sizes[d];
        }
        domain.sizes[domain.rank++] = desc.sizes[d];
    }
    domain.is_trailing = true;
    for (int d = 1; d < domain.rank; ++d) {
        domain.is_trailing = domain.is_trailing && (domain.reduces(d) || !domain.reduces(d - 1));
    }
    domain.is_columns = domain.reduced != 0 && !domain.reduces(domain.rank - 1);
    domain.is_long = is_long_row(length, domain.is_columns);
    return domain;
}

bool has_sizes(const TensorDesc& desc, const RowDomain& domain) {
    int i = 0;
    for (int d = 0; d < desc.rank; ++d) {
        if (desc.sizes[d] != 1 && (i == domain.rank || desc.sizes[d] != domain.sizes[i++])) {
            return false;
        }
    }
    return i == domain.rank;
}

// Whether a wide node reads `narrow` so that every element is repeated along a row.
bool repeats(const TensorDesc& reader, const TensorDesc& narrow, const RowDomain& domain) {
    if (reader.type != narrow.type || !has_sizes(reader, domain)) {
        return false;
    }
    int i = 0, n = 0;
    for (int d = 0; d < reader.rank; ++d) {
        if (reader.sizes[d] == 1) {
            continue;
        }
        if (domain.reduces(i++)) {
            if (reader.strides[d] != 0) {
                return false;
            }
            continue;
        }
        while (n < narrow.rank && narrow.sizes[n] == 1) ++n;
        if (n == narrow.rank || narrow.sizes[n] != reader.sizes[d] || narrow.strides[n] != reader.strides[d]) {
            return false;
        }
        ++n;
    }
    while (n < narrow.rank && narrow.sizes[n] == 1) ++n;
    return n == narrow.rank;
}

}  // namespace

void find_row_domains(Plan& plan) {
    std::vector<std::int32_t> found;
    const auto join = [&](std::int32_t n, std::int32_t domain, bool narrow) {
        Node& each = plan.node(n);
        if (each.spec.kind != NodeKind::element_wise || each.is_virtual || each.domain >= 0) {
            return;
        }
        // The elements of a sequence are counted in the order of the tensor, which rows go along only if they are its last
        // dimensions.
        for (const std::int32_t source : each.spec.sources) {
            const Value* const read = source < 0 ? nullptr : &plan.value(source);
            const bool sequence = read != nullptr && read->node >= 0 && read->fill < 0 && plan.node(read->node).is_virtual;
            if (sequence && !narrow && !plan.domains[static_cast<std::size_t>(domain)].is_trailing) {
                return;
            }
        }
        each.domain = domain;
        each.is_narrow = narrow;
        found.push_back(n);
    };
    for (std::int32_t n = 0; n < static_cast<std::int32_t>(plan.nodes.size()); ++n) {
        Node& reduction = plan.node(n);
        if (reduction.spec.kind != NodeKind::reduce) {
            continue;
        }
        const RowDomain domain = domain_of(reduction.spec.inputs[0], reduction.spec.axes);
        const auto known = std::ranges::find(plan.domains, domain);
        reduction.domain = static_cast<std::int32_t>(known - plan.domains.begin());
        if (known == plan.domains.end() || domain.reduced == 0) {  // with nothing to reduce it keeps to itself
            reduction.domain = static_cast<std::int32_t>(plan.domains.size());
            plan.domains.push_back(domain);
        }
        if (domain.reduced != 0) {
            found.push_back(n);
        }
    }
    while (!found.empty()) {
        const std::int32_t n = found.back();
        found.pop_back();
        const Node& each = plan.node(n);
        const RowDomain domain = plan.domains[static_cast<std::size_t>(each.domain)];
        const bool is_reduction = each.spec.kind == NodeKind::reduce;
        for (std::size_t port = 0; port < each.spec.sources.size(); ++port) {
            const std::int32_t source = each.spec.sources[port];
            if (source < 0 || plan.value(source).node < 0) {
                continue;
            }
            const TensorDesc& desc = each.spec.inputs[port];
            const Value& read = plan.value(source);
            if (!each.is_narrow && repeats(desc, read.desc, domain)) {
                join(read.node, each.domain, true);
            } else if (same_elements(desc, read.desc) && (is_reduction || same_sizes(desc, each.spec.outputs[0]))) {
                join(read.node, each.domain, each.is_narrow);
            }
        }
        for (const Reader& reader : plan.value(each.first_value).readers) {
            const TensorDesc& desc = plan.node(reader.node).spec.inputs[reader.port];
            const TensorDesc& made = plan.value(each.first_value).desc;
            const bool narrow = is_reduction || each.is_narrow;
            if (narrow && repeats(desc, made, domain) && has_sizes(plan.node(reader.node).spec.outputs[0], domain)) {
                join(reader.node, each.domain, false);
            } else if (plan.node(reader.node).spec.kind == NodeKind::element_wise && same_elements(desc, made) &&
                       same_sizes(desc, plan.node(reader.node).spec.outputs[0])) {
                join(reader.node, each.domain, narrow);
            }
        }
    }
}

bool in_row(const Plan& plan, const Node& producer, const Value& made, const Node& consumer, const TensorDesc& desc) {
    const bool is_narrow = producer.gives_one_a_row();
    if (producer.domain < 0 || producer.domain != consumer.domain || !is_narrow || consumer.is_narrow ||
        consumer.spec.kind != NodeKind::element_wise) {
        return false;
    }
    const RowDomain& domain = plan.domain(producer);
    return !domain.is_long && repeats(desc, made.desc, domain);
}

}  // namespace dmlgraph::cpu
