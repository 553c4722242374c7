// A step that packs operands whose memory is known: once before all runs, or for several of them.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "cpu/products/panels.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

class PackingStep : public Step {
public:
    void prepare(const RunContext& fixed) override { pack_all(fixed, own_); }
    std::unique_ptr<const State> keep(const RunContext& kept) const final {
        auto result = std::make_unique<Packed>();
        pack_all(kept, result->weights);
        return result;
    }
    Kind kind() const final { return Kind::native; }

protected:
    using AllWeights = std::vector<std::shared_ptr<const Weights>>;

    // How many operands may be packed, or parts of one.
    virtual std::size_t packed_count() const = 0;
    // One of them as products read it, or null.
    virtual std::shared_ptr<const Weights> pack(const RunContext& fixed, std::size_t index) const = 0;

    // What was packed before all runs, or null.
    const Weights* own(std::size_t index) const { return index < own_.size() ? own_[index].get() : nullptr; }
    // … or for this one and others.
    const Weights* weights(const RunContext& context, std::size_t index) const {
        const auto* const kept = static_cast<const Packed*>(context.state);
        return own(index) != nullptr || kept == nullptr ? own(index) : kept->weights[index].get();
    }

private:
    struct Packed final : State {
        AllWeights weights;
    };

    void pack_all(const RunContext& fixed, AllWeights& all) const {
        all.resize(packed_count());
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (own(i) == nullptr) {
                all[i] = pack(fixed, i);
            }
        }
    }

    AllWeights own_;
};

}  // namespace dmlgraph::cpu
