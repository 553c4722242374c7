// Names in Direct3D are wide text; ours are UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dmlgraph::abi {
namespace utf {

// U+FFFD stands for what is no text.
inline constexpr char32_t replacement = 0xfffd;
inline constexpr char32_t first_surrogate = 0xd800;
inline constexpr char32_t first_low_surrogate = 0xdc00;
inline constexpr char32_t last_surrogate = 0xdfff;
inline constexpr char32_t first_of_two_units = 0x10000;
inline constexpr char32_t last_code_point = 0x10ffff;

inline bool is_code_point(char32_t code) {
    return code <= last_code_point && (code < first_surrogate || code > last_surrogate);
}

// Reads one code point, and removes it from the text.
inline char32_t take(std::string_view& text) {
    constexpr char32_t least[] = {0, 0x80, 0x800, 0x10000};  // of each number of further bytes
    const auto first = static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    if (first < 0x80) {
        return first;
    }
    const unsigned more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc0 || first >= 0xf8 || text.size() < more) {
        return replacement;
    }
    char32_t code = first & (0x3fu >> more);
    for (unsigned i = 0; i < more; ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        if ((byte & 0xc0) != 0x80) {
            return replacement;
        }
        code = code << 6 | (byte & 0x3fu);
    }
    text.remove_prefix(more);
    return is_code_point(code) && code >= least[more] ? code : replacement;
}

inline void append(std::string& text, char32_t code) {
    if (code < 0x80) {
        text += static_cast<char>(code);
        return;
    }
    const int more = code < 0x800 ? 1 : code < first_of_two_units ? 2 : 3;
    text += static_cast<char>((0xff00u >> (more + 1) & 0xff) | code >> (6 * more));
    for (int i = more - 1; i >= 0; --i) {
        text += static_cast<char>(0x80u | (code >> (6 * i) & 0x3f));
    }
}

}  // namespace utf

// UTF-8 text in the system's wide characters: UTF-16 where they have two bytes, else UTF-32.
inline std::wstring wide(std::string_view text) {
    std::wstring result;
    while (!text.empty()) {
        const char32_t code = utf::take(text);
        if (sizeof(wchar_t) == 2 && code >= utf::first_of_two_units) {
            const char32_t rest = code - utf::first_of_two_units;
            result += static_cast<wchar_t>(utf::first_surrogate + (rest >> 10));
            result += static_cast<wchar_t>(utf::first_low_surrogate + (rest & 0x3ff));
        } else {
            result += static_cast<wchar_t>(code);
        }
    }
    return result;
}

// The reverse.
inline std::string narrow(std::wstring_view text) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        auto code = static_cast<char32_t>(text[i]);
        if (sizeof(wchar_t) == 2) {
            code &= 0xffff;
            const bool high = code >= utf::first_surrogate && code < utf::first_low_surrogate;
            const auto next = high && i + 1 < text.size() ? static_cast<char32_t>(text[i + 1]) & 0xffff : 0;
            if (next >= utf::first_low_surrogate && next <= utf::last_surrogate) {
                code =
                    utf::first_of_two_units + ((code - utf::first_surrogate) << 10) + (next - utf::first_low_surrogate);
                ++i;
            }
        }
        utf::append(result, utf::is_code_point(code) ? code : utf::replacement);
    }
    return result;
}

}  // namespace dmlgraph::abi
