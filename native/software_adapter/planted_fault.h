// A dispatch that computes wrongly on request, so that tests have something to find.
//
// The environment variable DMLGRAPH_SOFTWARE_FAULT holds words separated by commas, such as
// "kernel=1f0c22e07d5a9b34,row=8,float16". docs/devices.md explains them; the tables in fault_plan.cpp list them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

namespace dmlgraph::software {

struct DispatchCommand;
struct FaultPlan;

// What is wrong with the environment variable, empty if nothing is. Then no device can be made.
const std::string& fault_error();

// The dispatches of one command list while a fault is planted, or while they are logged.
class FaultyList {
public:
    // Null without a plan.
    static std::unique_ptr<FaultyList> begin();
    ~FaultyList();

    void run(const DispatchCommand& dispatch);
    // Called before a command that is not a dispatch.
    void settle();

private:
    // Memory that a dispatch may write.
    struct Block {
        char* begin;
        std::vector<char> bytes;
    };
    using Blocks = std::vector<Block>;

    explicit FaultyList(std::shared_ptr<const FaultPlan> plan) : plan_(std::move(plan)) {}

    bool is_meant(uint64_t kernel, uint64_t shader);
    void run_wrongly(const DispatchCommand& dispatch);
    static Blocks writable(const DispatchCommand& dispatch);
    static Blocks contents(const Blocks& blocks);
    // Takes back what was written, until the next dispatch.
    void delay(const Blocks& before, const Blocks& after);
    // Runs it, and returns the elements that it writes; if the plan says so, only those in memory that was written
    // before.
    std::vector<char*> run_for_elements(const DispatchCommand& dispatch);
    std::vector<char*> written_elements(const DispatchCommand& dispatch, const Blocks& before,
                                        const Blocks& after) const;

    const std::shared_ptr<const FaultPlan> plan_;
    uint64_t dispatches_ = 0;
    uint64_t uses_ = 0;                        // of them, those of the kernel or shader that the plan names
    Blocks late_;                              // what a late write will leave
    std::unordered_set<const char*> written_;  // elements that dispatches wrote, if the plan asks for memory used twice
    std::string lines_;
};

}  // namespace dmlgraph::software
