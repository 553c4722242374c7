// What the commands of lists do with buffers, and the rules of Direct3D 12 for it: states with promotion and decay,
// and barriers between work that depends on each other. Adapters that are strict about `validation` check them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "software_adapter/live_objects.h"
#include "software_adapter/shader_abi.h"

namespace dmlgraph::software {

// A command uses the bytes `begin` <= address < `end` of a buffer, which must be in a state.
struct Use {
    LiveRef buffer;
    D3D12_RESOURCE_STATES state;
    uint64_t begin;
    uint64_t end;
    uint32_t access;  // SwAccess
};

// A shader uses buffers through views in a descriptor heap.
struct ViewUse {
    const SwView* views;
    uint32_t count;
    D3D12_RESOURCE_STATES state;
    uint32_t access;  // SwAccess
    bool is_static;   // the descriptors do not change once they are recorded
};

// Null where the barrier names no buffer. Transitions and UAV barriers concern `after`.
struct Barrier {
    D3D12_RESOURCE_BARRIER desc;
    LiveRef before;
    LiveRef after;
};

// What one command does.
struct Step {
    const char* method;
    bool by_directml;                // the library recorded it
    std::vector<LiveRef> objects{};  // that must exist while it runs, besides buffers
    std::vector<Use> uses{};
    std::vector<ViewUse> views{};
    std::optional<Barrier> barrier{};
};
using Steps = std::vector<Step>;

// A command breaks a rule. The message names the command, the object, its state and the expected one.
struct Refusal : std::runtime_error {
    using runtime_error::runtime_error;
};

// The states of buffers while lists run one after another.
//
// DirectML itself breaks two rules: it leaves out UAV barriers between its dispatches where it joins tensors in place
// and in bidirectional networks, and its initialisations copy into the persistent buffer, and transition it, in another
// state than it is in. It is not refused for that.
class ResourceStates {
public:
    // When a list is closed, the states at its begin are not known yet, nor are descriptors that may still change.
    // When lists are executed, all buffers are in the state COMMON: they decay to it after each execution.
    enum class Time { closing, executing };
    // The buffer with the number that is in a view; null if it no longer exists.
    using Find = std::function<LiveRef(uint64_t)>;

    ResourceStates(Time time, Find find) : time_(time), find_(std::move(find)) {}

    // Throws Refusal at the first command that breaks a rule.
    void follow(const Steps& steps, D3D12_COMMAND_LIST_TYPE list);

    // All objects that the lists use.
    const std::set<LiveRef>& objects() const { return objects_; }

private:
    struct State {
        std::optional<uint32_t> bits{};      // nothing: not known yet
        bool is_promoted = false;            // the bits come from uses, not from a barrier
        std::optional<uint32_t> split_to{};  // a split barrier to this state has begun
        unsigned last_use = 0;               // the number of a command; 0: none
    };
    struct Access {  // to a UAV
        Use use;
        unsigned command;
        const char* method;
        bool by_directml;
    };
    struct Aliasing {
        LiveRef before;
        LiveRef after;
        unsigned command;
    };

    void use(const Use& use);
    void use(const ViewUse& use);
    void enter_state(const LiveObject& buffer, State& state, uint32_t wanted) const;
    void check_aliasing(const LiveRef& buffer) const;
    void check_hazard(const Use& use);
    void apply(const Barrier& barrier, D3D12_COMMAND_LIST_TYPE list);
    void transition(const Barrier& barrier, D3D12_COMMAND_LIST_TYPE list);
    void require(const LiveRef& object);
    State& state_of(const LiveRef& buffer);
    [[noreturn]] void refuse(const std::string& reason) const;

    const Time time_;
    const Find find_;
    // The present command.
    const char* method_ = nullptr;
    bool by_directml_ = false;
    unsigned command_ = 0;
    std::map<LiveRef, State> states_;
    std::vector<Access> accesses_;  // since the last UAV barrier
    std::vector<Aliasing> aliasings_;
    std::set<LiveRef> objects_;
};

}  // namespace dmlgraph::software
