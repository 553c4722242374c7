#include "cpu/steps/integer_gemm.h"

#include <array>
#include <memory>
#include <optional>
#include <tuple>

#include "cpu/products/words.h"
#include "cpu/products/zero_points.h"
#include "cpu/steps/gemm_tensors.h"

namespace dmlgraph::cpu {
namespace {

Lines lines_of(std::size_t side) { return side == 0 ? Lines::rows : Lines::columns; }

class IntegerGemmStep final : public Step {
public:
    IntegerGemmStep(const StepTensors& tensors, const GemmParameters& parameters)
        : tensors_(tensors, parameters) {}

    void prepare(const RunContext& fixed) override {
        const PairKernels* const pairs = pair_kernels();
        if (pairs != nullptr && !try_turned(fixed, *pairs) && !try_pairs(fixed, 1, pairs->small_columns)) {
            try_pairs(fixed, 0, pairs->small_rows);
        }
        for (std::size_t side = 0; side < packed_.size(); ++side) {
            pack(fixed, side, false, packed_);
        }
    }

    std::unique_ptr<const State> keep(const RunContext& kept) const override {
        auto result = std::make_unique<PackedSides>();
        for (std::size_t side = 0; side < packed_.size(); ++side) {
            pack(kept, side, false, result->sides);
        }
        return result;
    }

    bool keeps(BufferId input) const override {
        const std::size_t side = tensors_.side_of(input);
        return side < packed_.size() && packed_[side] != nullptr;
    }

    void unpack(BufferId input, const RunContext& to) const override {
        const std::size_t side = tensors_.side_of(input);
        const WordMatrices words = words_of(to, side, kernels(), nullptr);  // of any integers
        packed_[side]->words.unpack(words.panels());
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
        tensors_.multiply(context, {a.panels, &a.matrices, &a.matrices, a.rests}, {b.panels, &b.matrices, &b.matrices, b.rests}, !zeros[0].varies(), &terms);
    }

    Kind kind() const override { return Kind::native; }
    double cost() const override { return tensors_.cost(); }
    std::size_t scratch_bytes() const override { return tensors_.scratch_bytes(); }
    void visit(const Visitor& visitor) override { tensors_.visit(visitor); }

private:
    struct PackedSide {
        WordPanels words;
        LineSums sums;
    };
    using Packed = std::array<std::shared_ptr<const PackedSide>, GemmTensors::sides>;

    // Those that stay the same for several runs.
    struct PackedSides final : State {
        Packed sides;
    };

    // A side in a run.
    struct Operand {
        const Panels* panels = nullptr;  // if they have been packed
        const Rests* rests = nullptr;    // of these, if there are any
        MatrixPanels matrices;           // of integers if they have been packed, else of words
        const LineSums* sums = nullptr;  // if they are needed
        std::optional<WordMatrices> words;
        LineSums sums_of_words;
    };

    // Uses kernels for small words, and packs a side as such, if it is known and its words may be small.
    bool try_pairs(const RunContext& fixed, std::size_t side, const ProductKernels& pairs) {
        const ProductKernels& others = *tensors_.kernels;
        tensors_.use(pairs);
        pack(fixed, side, true, packed_);
        if (packed_[side] == nullptr) {
            tensors_.use(others);
        }
        return packed_[side] != nullptr;
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

    // Packs a side if its memory is known, and its zero points', unless that was done before all runs.
    void pack(const RunContext& fixed, std::size_t side, bool as_small, Packed& packed) const {
        if (packed_[side] != nullptr || !tensors_.inputs.known(fixed, tensors_.port_of(side))) {
            return;
        }
        const MatrixPanels from = tensors_.matrices(fixed, side);
        Packing packing = tensors_.packing(from, side);
        packing.as_bytes = packing.as_bytes && !as_small;
        const auto made = fixed.made<PackedSide>(std::tuple(from, lines_of(side), tensors_.depths, as_small, packing), [&] {
            const WordMatrices words = words_of(fixed, side, kernels(), nullptr);
            return PackedSide{as_small ? pack_small(words.panels(), packing) : WordPanels{Panels(words.panels(), packing), {}}, words.sums()};
        });
        packed[side] = made->words.present() ? made : nullptr;
    }

    // `sums`: whether those of the lines are needed.
    void read(RunContext& context, std::size_t side, bool sums, Operand& operand) const {
        const auto* const kept = static_cast<const PackedSides*>(context.state);
        const PackedSide* const packed = (packed_[side] != nullptr || kept == nullptr ? packed_ : kept->sides)[side].get();
        if (packed != nullptr) {
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
        return tensors_.inputs.zero_points(context, port, form_of(tensors_.inputs[port].type, lines_of(side), kernels()).shift);
    }

    WordMatrices words_of(const RunContext& context, std::size_t side, const IntegerKernels& kernels, RunContext* shared) const {
        const ProductSizes& sizes = tensors_.sizes;
        return {tensors_.matrices(context, side), sizes.rank, sizes.batch, side == 0 ? sizes.m : sizes.n, tensors_.depths, lines_of(side), kernels, shared};
    }

    GemmTensors tensors_;
    Packed packed_;  // the sides that are the same in all runs
};

}  // namespace

std::unique_ptr<Step> make_integer_step(const StepTensors& tensors, const GemmParameters& parameters) {
    return std::make_unique<IntegerGemmStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
