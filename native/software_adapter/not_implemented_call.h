// The body of methods that are not implemented.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace dmlgraph::software {

// A method's name as a template argument.
template <std::size_t N>
struct MethodName {
    char text[N];
    consteval MethodName(const char (&name)[N]) { std::copy_n(name, N, text); }
};

// Counts the call, and logs the name if this is the `first` call.
void count_not_implemented(const char* name, bool first);

template <MethodName name>
void not_implemented() {
    static std::atomic_flag logged;
    count_not_implemented(name.text, !logged.test_and_set());
}

}  // namespace dmlgraph::software
