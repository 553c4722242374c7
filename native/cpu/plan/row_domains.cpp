// Which nodes may run row by row with reductions.
//
// Every reduction has a domain: the sizes that it reads and the dimensions that it reduces. Connected element-wise
// nodes belong to the domain too: wide ones have all the sizes, narrow ones have the kept sizes. Dimensions of size 1
// do not count.
#include <algorithm>
#include <vector>

#include "cpu/plan/planning.h"
#include "cpu/region/schedule.h"

namespace dmlgraph::cpu {
namespace {

// The dimensions that are not of size 1; `reduced` has a bit for each one that is an axis of the node.
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
        if (desc.sizes[d] == 1) {
            continue;
        }
        if (i == domain.rank || desc.sizes[d] != domain.sizes[i]) {
            return false;
        }
        ++i;
    }
    return i == domain.rank;
}

// Whether a wide node reads `narrow` with every element repeated along a row.
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
        while (n < narrow.rank && narrow.sizes[n] == 1)
            ++n;
        if (n == narrow.rank || narrow.sizes[n] != reader.sizes[d] || narrow.strides[n] != reader.strides[d]) {
            return false;
        }
        ++n;
    }
    while (n < narrow.rank && narrow.sizes[n] == 1)
        ++n;
    return n == narrow.rank;
}

// Spreads the domains of reductions over the element-wise nodes that are connected to them.
class Spreading {
public:
    explicit Spreading(Plan& plan) : plan_(plan) {}

    void run() {
        for (std::int32_t n = 0; n < static_cast<std::int32_t>(plan_.nodes.size()); ++n) {
            if (plan_.node(n).spec.kind == NodeKind::reduce) {
                start(n);
            }
        }
        while (!found_.empty()) {
            const std::int32_t n = found_.back();
            found_.pop_back();
            spread_to_sources(plan_.node(n));
            spread_to_readers(plan_.node(n));
        }
    }

private:
    void start(std::int32_t n) {
        Node& reduction = plan_.node(n);
        const RowDomain domain = domain_of(reduction.spec.inputs[0], reduction.spec.axes);
        const auto known = std::ranges::find(plan_.domains, domain);
        reduction.domain = static_cast<std::int32_t>(known - plan_.domains.begin());
        if (known == plan_.domains.end() || domain.reduced == 0) {  // a domain that reduces nothing is not shared
            reduction.domain = static_cast<std::int32_t>(plan_.domains.size());
            plan_.domains.push_back(domain);
        }
        if (domain.reduced != 0) {
            found_.push_back(n);
        }
    }

    void spread_to_sources(const Node& node) {
        const RowDomain& domain = plan_.domain(node);
        const bool is_reduction = node.spec.kind == NodeKind::reduce;
        for (std::size_t port = 0; port < node.spec.sources.size(); ++port) {
            const std::int32_t source = node.spec.sources[port];
            if (source < 0 || plan_.value(source).node < 0) {
                continue;
            }
            const TensorDesc& desc = node.spec.inputs[port];
            const Value& read = plan_.value(source);
            if (!node.is_narrow && repeats(desc, read.desc, domain)) {
                join(read.node, node.domain, true);
            } else if (same_elements(desc, read.desc) && (is_reduction || same_sizes(desc, node.spec.outputs[0]))) {
                join(read.node, node.domain, node.is_narrow);
            }
        }
    }

    void spread_to_readers(const Node& node) {
        const RowDomain& domain = plan_.domain(node);
        const Value& made = plan_.value(node.first_value);
        const bool narrow = node.gives_one_a_row();
        for (const Reader& reader : made.readers) {
            const NodeSpec& consumer = plan_.node(reader.node).spec;
            const TensorDesc& desc = consumer.inputs[static_cast<std::size_t>(reader.port)];
            if (narrow && repeats(desc, made.desc, domain) && has_sizes(consumer.outputs[0], domain)) {
                join(reader.node, node.domain, false);
            } else if (consumer.kind == NodeKind::element_wise && same_elements(desc, made.desc) &&
                       same_sizes(desc, consumer.outputs[0])) {
                join(reader.node, node.domain, narrow);
            }
        }
    }

    void join(std::int32_t n, std::int32_t domain, bool narrow) {
        Node& node = plan_.node(n);
        if (node.spec.kind != NodeKind::element_wise || node.is_virtual || node.domain >= 0) {
            return;
        }
        // A sequence counts its elements in the order of the tensor; rows have this order only if they are its last
        // dimensions.
        const bool counts_along = narrow || plan_.domains[static_cast<std::size_t>(domain)].is_trailing;
        if (!counts_along && std::ranges::any_of(node.spec.sources, [&](std::int32_t id) { return is_sequence(id); })) {
            return;
        }
        node.domain = domain;
        node.is_narrow = narrow;
        found_.push_back(n);
    }

    bool is_sequence(std::int32_t source) const {
        if (source < 0) {
            return false;
        }
        const Value& value = plan_.value(source);
        return value.node >= 0 && value.fill < 0 && plan_.node(value.node).is_virtual;
    }

    Plan& plan_;
    std::vector<std::int32_t> found_;  // nodes of a domain whose neighbours have not been visited
};

}  // namespace

void find_row_domains(Plan& plan) { Spreading(plan).run(); }

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
