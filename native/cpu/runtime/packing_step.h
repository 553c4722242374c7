// A step that packs operands whose memory is known: once before all runs, or for several of them.
#pragma once

#include <cstddef>
#include <memory>

#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

class PackingStep : public Step {
public:
    PackingStep* packing() final { return this; }

    // Called once before all runs, with the memory of what is the same in each: of constants, and of inputs that were
    // given before.
    void prepare(const RunContext& fixed) {
        choose(fixed);
        own_ = pack_all(fixed);
    }
    // What it packs of inputs that stay the same for several runs, until others are given: `kept` has their memory,
    // and that of what is the same in all runs. Those runs have it as `RunContext::kept`.
    AllWeights keep(const RunContext& kept) const { return pack_all(kept); }
    // Whether it does not read an input in runs, because `prepare` has packed all it reads there without changing a
    // bit.
    virtual bool keeps(BufferId input) const = 0;
    // Writes what it keeps of an input to where it was; `to` has the memory of that input alone.
    virtual void unpack(BufferId input, const RunContext& to) const = 0;

protected:
    // Chooses how it computes, by what is the same in all runs, before that is packed.
    virtual void choose(const RunContext& fixed) { static_cast<void>(fixed); }
    // How many operands may be packed, or parts of one.
    virtual std::size_t packed_count() const = 0;
    // One of them as products read it, or null.
    virtual std::shared_ptr<const Weights> pack(const RunContext& fixed, std::size_t index) const = 0;

    // What was packed before all runs, or null.
    const Weights* own(std::size_t index) const { return index < own_.size() ? own_[index].get() : nullptr; }
    // … or for this one and others.
    const Weights* weights(const RunContext& context, std::size_t index) const {
        return own(index) != nullptr || context.kept == nullptr ? own(index) : (*context.kept)[index].get();
    }

private:
    AllWeights pack_all(const RunContext& fixed) const {
        AllWeights all(packed_count());
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (own(i) == nullptr) {
                all[i] = pack(fixed, i);
            }
        }
        return all;
    }

    AllWeights own_;
};

}  // namespace dmlgraph::cpu
