#include "software_adapter/resource_states.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace dmlgraph::software {
namespace {

constexpr uint32_t write_bits = D3D12_RESOURCE_STATE_UNORDERED_ACCESS | D3D12_RESOURCE_STATE_COPY_DEST;
// What lists that compute may ask for.
constexpr uint32_t compute_bits = write_bits | D3D12_RESOURCE_STATE_VERTEX_AND_CONSTANT_BUFFER |
                                  D3D12_RESOURCE_STATE_NON_PIXEL_SHADER_RESOURCE |
                                  D3D12_RESOURCE_STATE_INDIRECT_ARGUMENT | D3D12_RESOURCE_STATE_COPY_SOURCE;
constexpr uint32_t copy_bits = D3D12_RESOURCE_STATE_COPY_DEST | D3D12_RESOURCE_STATE_COPY_SOURCE;

constexpr std::pair<uint32_t, const char*> state_names[] = {
    {D3D12_RESOURCE_STATE_VERTEX_AND_CONSTANT_BUFFER, "VERTEX_AND_CONSTANT_BUFFER"},
    {D3D12_RESOURCE_STATE_UNORDERED_ACCESS, "UNORDERED_ACCESS"},
    {D3D12_RESOURCE_STATE_NON_PIXEL_SHADER_RESOURCE, "NON_PIXEL_SHADER_RESOURCE"},
    {D3D12_RESOURCE_STATE_INDIRECT_ARGUMENT, "INDIRECT_ARGUMENT"},
    {D3D12_RESOURCE_STATE_COPY_DEST, "COPY_DEST"},
    {D3D12_RESOURCE_STATE_COPY_SOURCE, "COPY_SOURCE"},
};

bool is_read_only(uint32_t bits) { return bits != D3D12_RESOURCE_STATE_COMMON && (bits & write_bits) == 0; }

std::string state_name(uint32_t bits) {
    if (bits == D3D12_RESOURCE_STATE_COMMON || bits == D3D12_RESOURCE_STATE_GENERIC_READ) {
        return bits ? "GENERIC_READ" : "COMMON";
    }
    std::string text;
    for (const auto& [bit, name] : state_names) {
        if (bits & bit) {
            text.append(text.empty() ? "" : " | ").append(name);
            bits &= ~bit;
        }
    }
    if (bits) {
        text.append(text.empty() ? "" : " | ").append("state " + std::to_string(bits));
    }
    return text;
}

}  // namespace

void ResourceStates::refuse(const std::string& reason) const {
    throw Refusal("command " + std::to_string(command_) + ", " + method_ + ": " + reason);
}

void ResourceStates::follow(const Steps& steps, D3D12_COMMAND_LIST_TYPE list) {
    for (const Step& step : steps) {
        method_ = step.method;
        by_directml_ = step.by_directml;
        ++command_;
        for (const LiveRef& object : step.objects) {
            require(object);
        }
        for (const Use& each : step.uses) {
            use(each);
        }
        for (const ViewUse& each : step.views) {
            use(each);
        }
        if (step.barrier) {
            apply(*step.barrier, list);
        }
    }
}

void ResourceStates::require(const LiveRef& object) {
    if (!object->exists()) {
        refuse(object->describe() + " no longer exists");
    }
    objects_.insert(object);
}

ResourceStates::State& ResourceStates::state_of(const LiveRef& buffer) {
    const auto [entry, added] = states_.try_emplace(buffer);
    if (added && buffer->buffer.fixed_state) {
        entry->second.bits = buffer->buffer.fixed_state;
    } else if (added && time_ == Time::executing) {
        entry->second.bits = D3D12_RESOURCE_STATE_COMMON;
    }
    return entry->second;
}

void ResourceStates::use(const ViewUse& use_of_views) {
    if (time_ == Time::closing && !use_of_views.is_static) {
        return;
    }
    for (uint32_t i = 0; i < use_of_views.count; ++i) {
        const SwView& view = use_of_views.views[i];
        if (view.stride == 0 && use_of_views.count == 1) {
            refuse("a descriptor that the shader uses was never written");
        }
        if (view.resource == 0) {  // a null descriptor
            continue;
        }
        const LiveRef buffer = find_(view.resource);
        if (!buffer) {
            refuse("a descriptor refers to a buffer that no longer exists");
        }
        const auto begin = reinterpret_cast<uint64_t>(view.data);
        use(Use{buffer, use_of_views.state, begin, begin + view.size, use_of_views.access});
    }
}

void ResourceStates::use(const Use& use) {
    require(use.buffer);
    State& state = state_of(use.buffer);
    enter_state(*use.buffer, state, use.state);
    check_aliasing(use.buffer);
    if (use.state == D3D12_RESOURCE_STATE_UNORDERED_ACCESS) {
        check_hazard(use);
    }
    state.last_use = command_;
}

// A buffer in the state COMMON is promoted to the state that it is used in, and from a state that only reads to
// several such states. All else takes a barrier.
void ResourceStates::enter_state(const LiveObject& buffer, State& state, uint32_t wanted) const {
    if (state.split_to) {
        refuse(buffer.describe() + " is used between the begin and the end of a split barrier to " +
               state_name(*state.split_to));
    }
    if (!state.bits || *state.bits == D3D12_RESOURCE_STATE_COMMON) {
        state.bits = wanted;
        state.is_promoted = true;
    } else if ((*state.bits & wanted) == wanted) {
        return;
    } else if (state.is_promoted && is_read_only(*state.bits) && is_read_only(wanted)) {
        state.bits = *state.bits | wanted;
    } else if (by_directml_ && !buffer.buffer.fixed_state) {
        state.bits = wanted;
    } else {
        refuse(buffer.describe() + " is in the state " + state_name(*state.bits) + ", but must be in " +
               state_name(wanted) +
               (buffer.buffer.fixed_state ? ", which its heap does not allow" : "; a transition barrier is missing"));
    }
}

void ResourceStates::check_aliasing(const LiveRef& buffer) const {
    if (!buffer->buffer.is_placed) {
        return;
    }
    for (const auto& [other, state] : states_) {
        if (other == buffer || state.last_use == 0 || !other->buffer.overlaps(buffer->buffer)) {
            continue;
        }
        const bool parted = std::ranges::any_of(aliasings_, [&](const Aliasing& barrier) {
            return barrier.command > state.last_use && (!barrier.before || barrier.before == other) &&
                   (!barrier.after || barrier.after == buffer);
        });
        if (!parted) {
            refuse(buffer->describe() + " lies in the memory of " + other->describe() +
                   ", which was used before; an aliasing barrier is missing");
        }
    }
}

void ResourceStates::check_hazard(const Use& use) {
    const auto names = [](uint32_t access) -> std::string {
        return access == SW_READS ? "reads " : access == SW_WRITES ? "writes " : "reads and writes ";
    };
    for (const auto& [earlier, command, method, by_directml] : accesses_) {
        const bool overlap = earlier.buffer == use.buffer && use.begin < earlier.end && earlier.begin < use.end;
        const bool depend = ((use.access | earlier.access) & SW_WRITES) != 0;
        if (overlap && depend && command != command_ && !(by_directml && by_directml_)) {
            refuse(names(use.access) + use.buffer->describe() + ", which command " + std::to_string(command) + ", " +
                   method + ", " + names(earlier.access) + "before; a UAV barrier between them is missing");
        }
    }
    accesses_.push_back({use, command_, method_, by_directml_});
}

void ResourceStates::apply(const Barrier& barrier, D3D12_COMMAND_LIST_TYPE list) {
    for (const LiveRef& buffer : {barrier.before, barrier.after}) {
        if (buffer) {
            require(buffer);
        }
    }
    switch (barrier.desc.Type) {
        case D3D12_RESOURCE_BARRIER_TYPE_TRANSITION: transition(barrier, list); break;
        case D3D12_RESOURCE_BARRIER_TYPE_ALIASING:
            aliasings_.push_back({barrier.before, barrier.after, command_});
            break;
        case D3D12_RESOURCE_BARRIER_TYPE_UAV: break;
        default: refuse("a barrier of unknown type " + std::to_string(barrier.desc.Type));
    }
    // Each of them separates the accesses before it from those after it.
    std::erase_if(accesses_, [&](const Access& access) {
        return (!barrier.before && !barrier.after) || access.use.buffer == barrier.before ||
               access.use.buffer == barrier.after;
    });
}

void ResourceStates::transition(const Barrier& barrier, D3D12_COMMAND_LIST_TYPE list) {
    const uint32_t before = barrier.desc.Transition.StateBefore;
    const uint32_t after = barrier.desc.Transition.StateAfter;
    if (!barrier.after) {
        refuse("a transition without a buffer");
    }
    const LiveObject& buffer = *barrier.after;
    const std::string what =
        "the transition of " + buffer.describe() + " from " + state_name(before) + " to " + state_name(after);
    const uint32_t allowed = list == D3D12_COMMAND_LIST_TYPE_COPY      ? copy_bits
                             : list == D3D12_COMMAND_LIST_TYPE_COMPUTE ? compute_bits
                                                                       : UINT32_MAX;
    if (buffer.buffer.fixed_state) {
        refuse(what + ": its heap does not allow any other state than " + state_name(buffer.buffer.fixed_state));
    }
    if (const uint32_t part = barrier.desc.Transition.Subresource; part != 0 && part != all_subresources) {
        refuse(what + ": a buffer has no part " + std::to_string(part));
    }
    if (before == after) {
        refuse(what + " changes nothing");
    }
    for (const uint32_t bits : {before, after}) {
        if ((bits & write_bits) && std::popcount(bits) > 1) {
            refuse(what + ": " + state_name(bits) + " combines a state that writes with another");
        }
        if (bits & ~allowed) {
            refuse(what + " has a state that lists of this type do not have");
        }
        if ((bits & D3D12_RESOURCE_STATE_UNORDERED_ACCESS) &&
            !(buffer.buffer.flags & D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS)) {
            refuse(what + ": the buffer does not allow unordered access");
        }
    }
    State& state = state_of(barrier.after);
    const bool begins = barrier.desc.Flags == D3D12_RESOURCE_BARRIER_FLAG_BEGIN_ONLY;
    const bool ends = barrier.desc.Flags == D3D12_RESOURCE_BARRIER_FLAG_END_ONLY;
    if (ends != state.split_to.has_value() || (ends && *state.split_to != after)) {
        refuse(what +
               (ends ? " ends a split barrier that did not begin" : ": a split barrier has begun and must end first"));
    }
    // From COMMON, a buffer may be in any state that it can be promoted to. DirectML's initialisations take that.
    const bool may_be_before = state.bits.value_or(D3D12_RESOURCE_STATE_COMMON) == D3D12_RESOURCE_STATE_COMMON;
    if (!may_be_before && *state.bits != before && !by_directml_) {
        refuse(what + ": the buffer is in the state " + state_name(*state.bits));
    }
    state.bits = begins ? before : after;
    state.is_promoted = false;
    state.split_to = begins ? std::optional(after) : std::nullopt;
}

}  // namespace dmlgraph::software
