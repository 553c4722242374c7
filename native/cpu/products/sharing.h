// How to divide the work of a step so that its workers end soon.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/quotient.h"

namespace dmlgraph::cpu {

// Calls function(part) for sizes of parts into which `count` things may be divided, from the largest on: each is at
// most `most`, and all but the last are alike. Of many parts not every number is tried.
template <class Function>
void each_division(std::int64_t count, std::int64_t most, int workers, const Function& function) {
    const std::int64_t fewest = quotient_up(count, most);
    const std::int64_t last = workers == 1 ? fewest : std::min(count, fewest + 2 * workers);
    for (std::int64_t parts = fewest; parts <= last; parts += 1 + parts / 16) {
        function(quotient_up(count, parts));
    }
}

// The time that `workers` take for `pieces` that take `each`. A worker does whole pieces; those that come last do not
// end at the same moment.
inline double makespan(std::int64_t pieces, double each, int workers) {
    constexpr double late = 0.02;  // of a piece
    const auto rounds = static_cast<double>(quotient_up(pieces, workers));
    return each * (workers == 1 ? rounds : rounds + late);
}

}  // namespace dmlgraph::cpu
