#include "software_adapter/planted_fault.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>

#include "software_adapter/commands.h"
#include "software_adapter/fault_plan.h"
#include "software_adapter/log.h"
#include "software_adapter/pipeline.h"
#include "software_adapter/shader_abi.h"
#include "software_adapter/submission.h"

namespace dmlgraph::software {
namespace {

struct Planted {
    std::mutex mutex;
    std::shared_ptr<const FaultPlan> plan;
    std::string error;        // of the environment variable
    std::string later_error;  // of sw_plant_fault
    std::string last_list;    // the log of the last list that had dispatches
    std::atomic<bool> any{false};

    Planted() {
        const char* const text = std::getenv(fault_variable);
        try {
            plan = parse_fault(text ? text : "");
        } catch (const std::invalid_argument& fault) {
            error = fault.what();
        }
        any = plan != nullptr;
    }
};

// Never destroyed: objects may outlive static storage.
Planted& planted() {
    static auto* const all = new Planted;
    return *all;
}

// FNV-1a of bytes behind others.
uint64_t hashed(const void* data, std::size_t size, uint64_t hash = 0xCBF29CE484222325) {
    for (const unsigned char each : std::span(static_cast<const unsigned char*>(data), size)) {
        hash = (hash ^ each) * 0x100000001B3;
    }
    return hash;
}

// What is computed, without the addresses: the shader, the formats of its views, the root constants and the grid.
uint64_t identity(const DispatchCommand& dispatch, uint64_t shader) {
    uint64_t hash = shader;
    for (const SwView* view : dispatch.views) {
        hash = hashed(&view->format, sizeof view->format, hash);
    }
    hash = hashed(dispatch.constants.data(), dispatch.constants.size() * sizeof(uint32_t), hash);
    return hashed(dispatch.grid, sizeof dispatch.grid, hash);
}

// The number in place of another one; `turn` counts the wrong runs.
uint64_t wrong(const FaultPlan& plan, uint64_t bits, uint64_t turn) {
    const NumberType& type = *plan.type;
    const uint64_t exponent = bits & type.exponent;
    const bool is_special = type.exponent && (exponent == 0 || exponent == type.exponent);
    const uint64_t other = is_special ? type.one : bits ^ type.half;
    switch (plan.kind) {
        case FaultKind::ulp: {
            const uint64_t moved = bits + plan.count;  // away from zero
            return type.exponent && (moved & type.exponent) == type.exponent ? bits - plan.count
                                                                             : moved;  // no infinity
        }
        case FaultKind::nan: return type.exponent | type.half;
        case FaultKind::random: return other ^ (type.exponent ? turn % 64 : turn % 3 * 2);
        default: return other;
    }
}

void replace(char* element, const FaultPlan& plan, uint64_t turn) {
    uint64_t bits = 0;  // little-endian
    std::memcpy(&bits, element, plan.type->bytes);
    bits = wrong(plan, bits, turn);
    std::memcpy(element, &bits, plan.type->bytes);
}

}  // namespace

const std::string& fault_error() { return planted().error; }

std::unique_ptr<FaultyList> FaultyList::begin() {
    Planted& all = planted();
    if (!all.any.load(std::memory_order_relaxed)) {
        return nullptr;
    }
    const std::lock_guard lock(all.mutex);
    return all.plan ? std::unique_ptr<FaultyList>(new FaultyList(all.plan)) : nullptr;
}

FaultyList::~FaultyList() {
    settle();
    if (dispatches_ > 0) {
        const std::lock_guard lock(planted().mutex);
        planted().last_list = std::move(lines_);
    }
}

void FaultyList::run(const DispatchCommand& dispatch) {
    ++dispatches_;
    const auto code = dispatch.pipeline->dxbc();
    const uint64_t shader = hashed(code.data(), code.size()), kernel = identity(dispatch, shader);
    char line[64];
    std::snprintf(line, sizeof line, "kernel=%016llx shader=%016llx", static_cast<unsigned long long>(kernel),
                  static_cast<unsigned long long>(shader));
    lines_.append(line) += '\n';
    if (plan_->logs) {
        log("dispatch " + std::to_string(dispatches_) + ": " + line);
    }
    const Blocks late = std::move(late_);
    late_.clear();
    if (is_meant(kernel, shader)) {
        run_wrongly(dispatch);
    } else if (plan_->reused) {
        run_for_elements(dispatch);
    } else {
        dispatch.run();
    }
    for (const Block& each : late) {
        std::memcpy(each.begin, each.bytes.data(), each.bytes.size());
    }
}

bool FaultyList::is_meant(uint64_t kernel, uint64_t shader) {
    const uint64_t named = plan_->kernel ? plan_->kernel : plan_->shader;
    const bool is_here = !named || named == (plan_->kernel ? kernel : shader);
    if (plan_->kind == FaultKind::nothing || !is_here) {
        return false;
    }
    ++uses_;
    return !plan_->dispatch || plan_->dispatch == uses_;
}

void FaultyList::settle() {
    for (const Block& each : late_) {
        std::memcpy(each.begin, each.bytes.data(), each.bytes.size());
    }
    late_.clear();
}

FaultyList::Blocks FaultyList::writable(const DispatchCommand& dispatch) {
    std::vector<std::pair<char*, char*>> parts;
    const auto ranges = dispatch.pipeline->ranges();
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        const uint32_t count = ranges[i].count == UINT32_MAX ? 1 : ranges[i].count;
        for (const SwView& view : std::span(dispatch.views[i], ranges[i].access & SW_WRITES ? count : 0)) {
            if (view.data && view.size > 0) {
                parts.emplace_back(view.data, view.data + view.size);
            }
        }
    }
    std::ranges::sort(parts);
    Blocks blocks;
    for (std::size_t i = 0; i < parts.size();) {  // views may overlap
        auto [begin, end] = parts[i];
        for (++i; i < parts.size() && parts[i].first <= end; ++i) {
            end = std::max(end, parts[i].second);
        }
        blocks.push_back({begin, std::vector<char>(begin, end)});
    }
    return blocks;
}

// What is in some memory now.
FaultyList::Blocks FaultyList::contents(const Blocks& blocks) {
    Blocks now;
    for (const Block& each : blocks) {
        now.push_back({each.begin, std::vector<char>(each.begin, each.begin + each.bytes.size())});
    }
    return now;
}

// The elements that a dispatch writes, also where it writes what was there: those that change when the memory before is
// another one. Leaves what it wrote in the memory.
std::vector<char*> FaultyList::written_elements(const DispatchCommand& dispatch, const Blocks& before,
                                                const Blocks& after) const {
    for (const Block& each : before) {
        std::ranges::transform(each.bytes, each.begin, [](char byte) { return static_cast<char>(~byte); });
    }
    dispatch.run();
    std::vector<char*> elements;
    const uint32_t step = plan_->type->bytes;
    for (std::size_t i = 0; i < before.size(); ++i) {
        char* const begin = before[i].begin;
        const auto& old = before[i].bytes;
        const std::size_t first = (step - reinterpret_cast<uintptr_t>(begin) % step) % step;
        for (std::size_t at = first; at + step <= old.size(); at += step) {
            for (std::size_t byte = at; byte < at + step; ++byte) {
                if (after[i].bytes[byte] != old[byte] || begin[byte] != static_cast<char>(~old[byte])) {
                    elements.push_back(begin + at);
                    break;
                }
            }
        }
        std::ranges::copy(after[i].bytes, begin);
    }
    return elements;
}

void FaultyList::delay(const Blocks& before, const Blocks& after) {
    for (std::size_t i = 0; i < before.size(); ++i) {
        const auto &old = before[i].bytes, &written = after[i].bytes;
        for (std::size_t at = 0; at < old.size();) {
            std::size_t end = at;
            while (end < old.size() && old[end] != written[end]) {
                ++end;
            }
            if (end > at) {
                late_.push_back({before[i].begin + at, {written.data() + at, written.data() + end}});
            }
            at = std::max(end, at + 1);
        }
        std::ranges::copy(old, before[i].begin);
    }
}

std::vector<char*> FaultyList::run_for_elements(const DispatchCommand& dispatch) {
    const Blocks before = writable(dispatch);
    dispatch.run();
    auto elements = written_elements(dispatch, before, contents(before));
    if (plan_->reused) {
        const auto again = [this](char* element) { return !written_.insert(element).second; };
        std::erase_if(elements, std::not_fn(again));
    }
    return elements;
}

void FaultyList::run_wrongly(const DispatchCommand& dispatch) {
    static std::atomic<uint64_t> turns{0};
    if (plan_->kind == FaultKind::remove) {
        dispatch.pipeline->device_state().remove(abi::DXGI_ERROR_DEVICE_HUNG,
                                                 std::string(fault_variable) + " asks for it");
        return;
    }
    if (plan_->kind == FaultKind::hang) {
        while (!Submission::current().given_up()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return;
    }
    if (plan_->kind == FaultKind::late) {
        const Blocks before = writable(dispatch);
        dispatch.run();
        delay(before, contents(before));
        return;
    }
    const auto elements = run_for_elements(dispatch);
    const std::size_t wanted = plan_->kind == FaultKind::ulp ? elements.size() : std::max<uint64_t>(plan_->count, 1);
    const std::size_t count = std::min(wanted, elements.size());
    const std::size_t first = (elements.size() - count) / 2;
    const uint64_t turn = turns++;
    for (char* const element : std::span(elements).subspan(first, count)) {
        replace(element, *plan_, turn);
    }
}

}  // namespace dmlgraph::software

using namespace dmlgraph::software;

const char* sw_fault_error() { return fault_error().empty() ? nullptr : fault_error().c_str(); }

const char* sw_plant_fault(const char* text) {
    Planted& all = planted();
    const std::lock_guard lock(all.mutex);
    try {
        all.plan = parse_fault(text);
    } catch (const std::invalid_argument& fault) {
        all.later_error = fault.what();
        return all.later_error.c_str();
    }
    all.any = all.plan != nullptr;
    all.last_list.clear();
    return nullptr;
}

uint64_t sw_dispatched(char* text, uint64_t size) {
    const std::lock_guard lock(planted().mutex);
    const std::string& lines = planted().last_list;
    if (size > 0) {
        const std::size_t copied = lines.copy(text, size - 1);
        text[copied] = '\0';
    }
    return lines.size() + 1;
}
