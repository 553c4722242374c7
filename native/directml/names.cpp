#include "directml/names.h"

#include <cstdint>

namespace dmlgraph {
namespace {

constexpr char32_t replacement = 0xfffd;
constexpr char32_t first_surrogate = 0xd800;
constexpr char32_t first_low_surrogate = 0xdc00;
constexpr char32_t last_surrogate = 0xdfff;
constexpr char32_t first_of_two_units = 0x10000;
constexpr char32_t last_code_point = 0x10ffff;

bool is_code_point(char32_t code) {
    return code <= last_code_point && (code < first_surrogate || code > last_surrogate);
}

// Reads one code point, and removes it from the text.
char32_t take(std::string_view& text) {
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

void append(std::string& text, char32_t code) {
    if (code < 0x80) {
        text += static_cast<char>(code);
        return;
    }
    const int more = code < 0x800 ? 1 : code < first_of_two_units ? 2 : 3;
    text += static_cast<char>((0xf00u >> more & 0xff) | code >> (6 * more));
    for (int i = more - 1; i >= 0; --i) {
        text += static_cast<char>(0x80u | (code >> (6 * i) & 0x3f));
    }
}

}  // namespace

std::wstring wide(std::string_view text) {
    std::wstring result;
    while (!text.empty()) {
        const char32_t code = take(text);
        if (sizeof(wchar_t) == 2 && code >= first_of_two_units) {
            const char32_t rest = code - first_of_two_units;
            result += static_cast<wchar_t>(first_surrogate + (rest >> 10));
            result += static_cast<wchar_t>(first_low_surrogate + (rest & 0x3ff));
        } else {
            result += static_cast<wchar_t>(code);
        }
    }
    return result;
}

std::string narrow(std::wstring_view text) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        auto code = static_cast<char32_t>(text[i]);
        if (sizeof(wchar_t) == 2) {
            code &= 0xffff;
            const bool high = code >= first_surrogate && code < first_low_surrogate;
            const auto next = high && i + 1 < text.size() ? static_cast<char32_t>(text[i + 1]) & 0xffff : 0;
            if (next >= first_low_surrogate && next <= last_surrogate) {
                code = first_of_two_units + ((code - first_surrogate) << 10) + (next - first_low_surrogate);
                ++i;
            }
        }
        append(result, is_code_point(code) ? code : replacement);
    }
    return result;
}

}  // namespace dmlgraph
