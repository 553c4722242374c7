#include "cpu/steps/integer_gemm.h"

#include <array>
#include <memory>
#include <optional>
#include <tuple>

#include "cpu/kernels/level.h"
#include "cpu/products/small_words.h"
#include "cpu/products/words.h"
#include "cpu/products/zero_points.h"
#include "cpu/runtime/packing_step.h"
#include "cpu/steps/gemm_tensors.h"

namespace dmlgraph::cpu {
namespace {

Lines lines_of(std::size_t side) { return side == 0 ? Lines::rows : Lines::columns; }

class IntegerGemmStep final : public PackingStep {
public:
    IntegerGemmStep(const StepTensors& tensors, const GemmParameters& parameters) : tensors_(tensors, parameters) {}

    bool keeps(BufferId input) const override { return own(tensors_.side_of(input)) != nullptr; }

    void unpack(BufferId input, const RunContext& to) const override {
        const std::size_t side = tensors_.side_of(input);
        const WordMatrices words = words_of(to, side, kernels(), nullptr);  // of any integers
        static_cast<const WordWeights*>(own(side))->words.unpack(words.panels());
        words.unpack();
    }

    void run(RunContext& context) const override {
        if (tensors_.output.buffer == no_buffer) {
            return;
        }
        const std::array<ZeroPoints, GemmTensors::sides> zeros{zeros_of(context, 0), zeros_of(context, 1)};
        std::array<Operand, GemmTensors::sides> operands;
        for (std::size_t side = 0; side < operands.size(); ++side) {
            read(context, side, !zeros[1 - side].all_zero(), operands[side]);
        }
        const Operand &a = operands[0], &b = operands[1];
        const ZeroPointTerms terms({zeros[0], a.sums}, {zeros[1], b.sums}, tensors_.depths, kernels());
        tensors_.multiply(context, {a.panels, &a.matrices, &a.matrices, a.rests},
                          {b.panels, &b.matrices, &b.matrices, b.rests}, !zeros[0].varies(), &terms);
    }

    double cost() const override { return tensors_.cost(); }
    std::size_t scratch_bytes() const override { return tensors_.scratch_bytes(); }
    void visit(const Visitor& visitor) override { tensors_.visit(visitor); }

private:
    // A side in a run.
    struct Operand {
        const Panels* panels = nullptr;  // if they have been packed
        const Rests* rests = nullptr;    // of these, if there are any
        MatrixPanels matrices;           // of integers if they have been packed, else of words
        const LineSums* sums = nullptr;  // if they are needed
        std::optional<WordMatrices> words;
        LineSums sums_of_words;
    };

    void choose(const RunContext& fixed) override {
        const PairKernels* const pairs = useful_pairs(chosen_level());
        if (pairs != nullptr && !try_turned(fixed, *pairs) && !try_pairs(fixed, 1, pairs->small_columns)) {
            try_pairs(fixed, 0, pairs->small_rows);
        }
    }

    std::size_t packed_count() const override { return GemmTensors::sides; }

    // Uses kernels for small words of a side, if it is known and its words may be small.
    bool try_pairs(const RunContext& fixed, std::size_t side, const ProductKernels& pairs) {
        const ProductKernels& others = *tensors_.kernels;
        tensors_.use(pairs);
        small_side_ = side;
        if (pack(fixed, side) != nullptr) {
            return true;
        }
        small_side_.reset();
        tensors_.use(others);
        return false;
    }

    // Columns as rows, whose small words may have rests.
    bool try_turned(const RunContext& fixed, const PairKernels& pairs) {
        if (!tensors_.may_turn()) {
            return false;
        }
        tensors_.turn();
        if (try_pairs(fixed, 0, pairs.small_rows)) {
            return true;
        }
        tensors_.turn();
        return false;
    }

    std::shared_ptr<const Weights> pack(const RunContext& fixed, std::size_t side) const override {
        if (!tensors_.inputs.known(fixed, tensors_.port_of(side))) {
            return nullptr;
        }
        const bool as_small = side == small_side_;
        const MatrixPanels from = tensors_.matrices(fixed, side);
        Packing packing = tensors_.packing(from, side);
        packing.as_bytes = packing.as_bytes && !as_small;
        const auto made =
            fixed.made<WordWeights>(std::tuple(from, lines_of(side), tensors_.depths, as_small, packing), [&] {
                const WordMatrices words = words_of(fixed, side, kernels(), nullptr);
                return WordWeights(words.panels(), packing, as_small, words.sums());
            });
        return made->present() ? made : nullptr;
    }

    // `sums`: whether those of the lines are needed.
    void read(RunContext& context, std::size_t side, bool sums, Operand& operand) const {
        if (const auto* const packed = static_cast<const WordWeights*>(weights(context, side))) {
            operand.panels = &packed->words.panels;
            operand.rests = packed->words.some_rests();
            operand.matrices = tensors_.matrices(context, side);
            operand.sums = sums ? &packed->sums : nullptr;
            return;
        }
        operand.words.emplace(words_of(context, side, kernels(), &context));
        operand.matrices = operand.words->panels();
        if (sums) {
            operand.sums_of_words = operand.words->sums();
            operand.sums = &operand.sums_of_words;
        }
    }

    const IntegerKernels& kernels() const { return tensors_.kernels->integers; }

    ZeroPoints zeros_of(const RunContext& context, std::size_t side) const {
        const std::size_t port = tensors_.port_of(side);
        return tensors_.inputs.zero_points(context, port)
            .less(form_of(tensors_.inputs[port].type, lines_of(side), kernels()).shift);
    }

    WordMatrices words_of(const RunContext& context, std::size_t side, const IntegerKernels& kernels,
                          RunContext* shared) const {
        const ProductSizes& sizes = tensors_.sizes;
        return {tensors_.matrices(context, side),
                sizes.rank,
                sizes.batch,
                side == 0 ? sizes.m : sizes.n,
                tensors_.depths,
                lines_of(side),
                kernels,
                shared};
    }

    GemmTensors tensors_;
    std::optional<std::size_t> small_side_;  // whose words are small
};

}  // namespace

std::unique_ptr<Step> make_integer_step(const StepTensors& tensors, const GemmParameters& parameters) {
    return std::make_unique<IntegerGemmStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
