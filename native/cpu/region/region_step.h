// The step that runs a region.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "cpu/region/copying.h"
#include "cpu/region/schedule.h"

namespace dmlgraph::cpu {

class RegionStep final : public Step {
public:
    explicit RegionStep(Region region);

    void run(RunContext& context) const override;
    // A reduction by itself is a step as others.
    Kind kind() const override { return !region_.has_rows() || nodes.size() > 1 ? Kind::region : Kind::native; }
    double cost() const override {
        return std::visit([](const auto& way) { return way.cost; }, way_);
    }
    std::size_t scratch_bytes() const override;
    bool may_overwrite(BufferId read, BufferId written) const override;
    void visit(const Visitor& visitor) override;
    void follow(const GrowingTensor& tensor) override;
    std::optional<GrowingTensor> made_by_row() const override;
    void make_written_rows() override;
    // Memory that the planner gives to the step; none is needed if it is 0.
    std::size_t state_bytes() const {
        return std::visit([](const auto& way) { return way.shared_state_bytes(); }, way_);
    }
    void give_states(const View& view) { states_ = view; }

private:
    // How it runs on memory of certain strides.
    using Way = std::variant<Schedule, Copying>;

    // For arrays of the caller that have strides of their own.
    struct Custom {
        std::vector<Sizes> strides;
        Way way;
    };
    // For the first rows of all that it makes.
    struct Shorter {
        Region region;
        Way way;
    };

    static Way way_of(const Region& region, const std::vector<Sizes>& strides);
    void run_custom(RunContext& context) const;
    std::shared_ptr<const Custom> custom_for(std::vector<Sizes> strides) const;
    bool may_overwrite(std::size_t load, std::size_t store) const;
    const Shorter* shorter_for(const RunContext& context) const;

    Region region_;
    Way way_;  // for standard layouts
    View states_;
    std::vector<std::optional<int>> growing_;  // by load: the dimension along which it grows
    std::vector<BufferId> growing_inputs_;     // whose rows these have
    std::vector<Shorter> shorter_;             // by rows, in units
    std::int64_t unit_ = 0;
    mutable std::mutex mutex_;  // guards what follows
    mutable std::vector<std::shared_ptr<const Custom>>
        customs_;  // the last ones made: a next run is mostly like another
};

}  // namespace dmlgraph::cpu
