// The existing Direct3D objects: their types and names, and what the GPU may still do with them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "abi/d3d12.h"

namespace dmlgraph::software {

using namespace abi;

// "ID3D12Resource", without the interface's version.
template <class Interface>
std::string_view interface_name() {
    // "... [with Interface = dmlgraph::abi::ID3D12Resource; ..."
    const std::string_view function = __PRETTY_FUNCTION__;
    const auto end = function.find_first_of(";]", function.find("Interface = "));
    const auto begin = function.rfind(':', end) + 1;
    const auto name = function.substr(begin, end - begin);
    return name.substr(0, name.find_last_not_of("0123456789") + 1);
}

// Submitted work, and whether the program knows that it has ended: a fence told so.
struct Flight {
    std::atomic<bool> has_landed = false;
};
using Flights = std::vector<std::shared_ptr<Flight>>;

// Where a buffer lies, and what it may be used for.
struct BufferInfo {
    uint64_t begin = 0;  // addresses
    uint64_t end = 0;
    D3D12_RESOURCE_FLAGS flags{};
    D3D12_RESOURCE_STATES fixed_state{};  // of upload and readback heaps; COMMON: any state
    bool is_placed = false;

    bool overlaps(const BufferInfo& other) const { return begin < other.end && other.begin < end; }
};

// What is known of an object. Whoever checks its use may keep this longer than the object exists.
class LiveObject {
public:
    explicit LiveObject(std::string_view type);

    // Different for all objects of a process; not 0.
    uint64_t number() const { return number_; }

    // Null takes the name away.
    void set_name(const wchar_t* name);
    std::wstring name() const;
    // "ID3D12Resource 'weights'".
    std::string describe() const;

    bool exists() const { return exists_; }
    void add_flight(const std::shared_ptr<Flight>& flight);
    bool is_in_flight() const;

    BufferInfo buffer;  // of an ID3D12Resource

private:
    friend class LiveEntry;
    friend std::string list_live_objects();

    const std::string_view type_;
    const uint64_t number_;
    std::atomic<bool> exists_ = true;
    mutable std::mutex mutex_;
    std::wstring name_;  // this and the next are guarded by the mutex
    Flights flights_;
};

using LiveRef = std::shared_ptr<LiveObject>;

// The entry of one object in the list of all, while it exists.
class LiveEntry {
public:
    explicit LiveEntry(std::string_view type);
    ~LiveEntry();
    LiveEntry(const LiveEntry&) = delete;
    LiveEntry& operator=(const LiveEntry&) = delete;

    const LiveRef& object() const { return object_; }

private:
    const LiveRef object_;
};

// A line for each object: its type, a tabulator, and its name in UTF-8, which is empty if it has none.
std::string list_live_objects();

}  // namespace dmlgraph::software
