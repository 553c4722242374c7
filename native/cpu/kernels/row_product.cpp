// A few rows times vectors of columns.
#include "cpu/kernels/row_product.h"
#include "cpu/kernels/level.h"
#include "cpu/kernels/vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace row_product {
namespace {

// What fewer there are of stays in registers, beside the sums.
template <int rows, int vectors>
void multiply(const FewRowsCall& call) noexcept {
    Vector sums[rows][vectors];
    set_all(sums, repeated(0.0f));
    const float* const a = call.a;
    const float* b = call.b;
    const std::int64_t depth = call.depth, a_step = call.a_step, b_step = call.b_step;
    for (std::int64_t k = 0; k < depth; ++k, b += lanes) {
        if constexpr (rows < vectors) {
            Vector row[rows];
            DMLGRAPH_UNROLL
            for (int i = 0; i < rows; ++i) {
                row[i] = repeated(a[i * a_step + k]);
            }
            DMLGRAPH_UNROLL
            for (int j = 0; j < vectors; ++j) {
                const Vector column = load(b + j * b_step);
                DMLGRAPH_UNROLL
                for (int i = 0; i < rows; ++i) {
                    sums[i][j] = product_sum(row[i], column, sums[i][j]);
                }
            }
        } else {
            Vector column[vectors];
            DMLGRAPH_UNROLL
            for (int j = 0; j < vectors; ++j) {
                column[j] = load(b + j * b_step);
            }
            DMLGRAPH_UNROLL
            for (int i = 0; i < rows; ++i) {
                const Vector row = repeated(a[i * a_step + k]);
                DMLGRAPH_UNROLL
                for (int j = 0; j < vectors; ++j) {
                    sums[i][j] = product_sum(row, column[j], sums[i][j]);
                }
            }
        }
    }
    const float* const added = call.added;
    float* const out = call.out;
    const VectorPlace* const places = call.places;
    DMLGRAPH_UNROLL
    for (int i = 0; i < rows; ++i) {
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            store(out + i * call.out_step + places[j].out,
                  sum(load(added + i * call.added_step + places[j].added), sums[i][j]));
        }
    }
}

#define ONE(rows) multiply<rows, 1>
#define TWO(rows) ONE(rows), multiply<rows, 2>
#define THREE(rows) TWO(rows), multiply<rows, 3>
#define FOUR(rows) THREE(rows), multiply<rows, 4>
#define FIVE(rows) FOUR(rows), multiply<rows, 5>
#define SIX(rows) FIVE(rows), multiply<rows, 6>
#define SEVEN(rows) SIX(rows), multiply<rows, 7>
#define EIGHT(rows) SEVEN(rows), multiply<rows, 8>
// As many sums as fit into 32 or 16 registers.
#if defined(__AVX512F__) || !defined(DMLGRAPH_X86)
constexpr FewRowsKernels kernels{
    lanes,
    8,
    {8, 8, 7, 6, 5, 4, 3, 3},
    {{EIGHT(1)}, {EIGHT(2)}, {SEVEN(3)}, {SIX(4)}, {FIVE(5)}, {FOUR(6)}, {THREE(7)}, {THREE(8)}}};
#else
constexpr FewRowsKernels kernels{
    lanes, 6, {8, 6, 4, 3, 2, 2}, {{EIGHT(1)}, {SIX(2)}, {FOUR(3)}, {THREE(4)}, {TWO(5)}, {TWO(6)}}};
#endif
#undef ONE
#undef TWO
#undef THREE
#undef FOUR
#undef FIVE
#undef SIX
#undef SEVEN
#undef EIGHT

}  // namespace
}  // namespace row_product

constexpr FewRowsKernels few_rows_kernels = row_product::kernels;

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
