// What the processor can do at the most: the roof over what a step reaches.
#pragma once

namespace dmlgraph::cpu {

struct Roof {
    double operations;          // multiplications and additions a second, of float32
    double integer_operations;  // of 8-bit integers
    double bytes;               // read and written a second, in memory
};

// Measures for about a tenth of a second on so many threads. Throws std::bad_alloc.
Roof measure_roof(int threads);

}  // namespace dmlgraph::cpu
