#include "cpu/region/schedule.h"

#include <algorithm>

#include "cpu/region/element_schedule.h"
#include "cpu/region/row_schedule.h"

namespace dmlgraph::cpu {

std::unique_ptr<RegionSchedule> make_schedule(const Region& region, const std::vector<Sizes>& strides) {
    if (region.has_rows()) {
        return std::make_unique<RowSchedule>(region, strides);
    }
    return std::make_unique<ElementSchedule>(region, strides);
}

Domain collapse(const Region& region, const std::vector<Sizes>& strides) {
    Domain domain;
    domain.strides.resize(strides.size());
    const auto add = [&](int from, int to) {
        const int first = domain.rank;
        for (int d = from; d < to; ++d) {
            const std::int64_t size = region.sizes[d];
            if (size == 1) {
                continue;
            }
            bool joins = domain.rank > first;
            for (std::size_t s = 0; joins && s < strides.size(); ++s) {
                joins = domain.strides[s][domain.rank - 1] == strides[s][d] * size;
            }
            const int at = joins ? domain.rank - 1 : domain.rank++;
            domain.sizes[at] = joins ? domain.sizes[at] * size : size;
            for (std::size_t s = 0; s < strides.size(); ++s) {
                domain.strides[s][at] = strides[s][d];
            }
        }
        if (domain.rank == first) {
            domain.sizes[domain.rank++] = 1;
        }
    };
    add(0, region.has_rows() ? region.kept : region.rank);
    domain.kept = domain.rank;
    if (region.has_rows()) {
        add(region.kept, region.rank);
    }
    return domain;
}

bool all_zero(const Sizes& strides, int from, int to) {
    return std::all_of(strides.begin() + from, strides.begin() + to, [](std::int64_t stride) { return stride == 0; });
}

}  // namespace dmlgraph::cpu
