#include "software_adapter/live_objects.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "abi/wide_text.h"
#include "software_adapter/shader_abi.h"

namespace dmlgraph::software {
namespace {

struct List {
    std::mutex mutex;
    std::set<const LiveObject*> objects;
};

// Never destroyed: objects may outlive static storage.
List& list() {
    static auto& all = *new List;
    return all;
}

}  // namespace

LiveObject::LiveObject(std::string_view type) : type_(type) {
    const std::lock_guard lock(list().mutex);
    list().objects.insert(this);
}

LiveObject::~LiveObject() {
    const std::lock_guard lock(list().mutex);
    list().objects.erase(this);
}

void LiveObject::set_name(const wchar_t* name) {
    const std::lock_guard lock(list().mutex);
    name_ = name ? name : L"";
}

std::wstring LiveObject::name() const {
    const std::lock_guard lock(list().mutex);
    return name_;
}

std::string list_live_objects() {
    const std::lock_guard lock(list().mutex);
    std::string text;
    for (const LiveObject* object : list().objects) {
        text.append(object->type_).append("\t").append(abi::narrow(object->name_)).append("\n");
    }
    return text;
}

}  // namespace dmlgraph::software

uint64_t sw_live_objects(char* text, uint64_t size) {
    const std::string all = dmlgraph::software::list_live_objects();
    if (text && size > 0) {
        const auto length = std::min<uint64_t>(size - 1, all.size());
        std::memcpy(text, all.data(), length);
        text[length] = '\0';
    }
    return all.size() + 1;
}
