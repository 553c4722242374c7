// The existing Direct3D objects by type and name, for tests.
#pragma once

#include <string>
#include <string_view>

namespace dmlgraph::software {

// "ID3D12Resource".
template <class Interface>
std::string_view interface_name() {
    // "... [with Interface = dmlgraph::abi::ID3D12Resource; ..."
    const std::string_view function = __PRETTY_FUNCTION__;
    const auto end = function.find_first_of(";]", function.find("Interface = "));
    const auto begin = function.rfind(':', end) + 1;
    return function.substr(begin, end - begin);
}

// The entry of one object, while it exists.
class LiveObject {
public:
    explicit LiveObject(std::string_view type);
    ~LiveObject();
    LiveObject(const LiveObject&) = delete;
    LiveObject& operator=(const LiveObject&) = delete;

    // Null takes the name away.
    void set_name(const wchar_t* name);
    std::wstring name() const;

private:
    friend std::string list_live_objects();

    std::string_view type_;
    std::wstring name_;  // guarded by the mutex of the list
};

// A line for each object: its type, a tabulator, and its name in UTF-8, which is empty if it has none.
std::string list_live_objects();

}  // namespace dmlgraph::software
