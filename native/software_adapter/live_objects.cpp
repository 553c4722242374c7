#include "software_adapter/live_objects.h"

#include <algorithm>
#include <cstring>
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

static uint64_t next_number() {
    static std::atomic<uint64_t> last = 0;
    return ++last;
}

LiveObject::LiveObject(std::string_view type) : type_(type), number_(next_number()) {}

void LiveObject::set_name(const wchar_t* name) {
    const std::lock_guard lock(mutex_);
    name_ = name ? name : L"";
}

std::wstring LiveObject::name() const {
    const std::lock_guard lock(mutex_);
    return name_;
}

std::string LiveObject::describe() const { return std::string(type_) + " '" + narrow(name()) + "'"; }

void LiveObject::add_flight(const std::shared_ptr<Flight>& flight) {
    const std::lock_guard lock(mutex_);
    std::erase_if(flights_, [](const auto& each) { return each->has_landed.load(); });
    flights_.push_back(flight);
}

bool LiveObject::is_in_flight() const {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(flights_, [](const auto& each) { return !each->has_landed; });
}

LiveEntry::LiveEntry(std::string_view type) : object_(std::make_shared<LiveObject>(type)) {
    const std::lock_guard lock(list().mutex);
    list().objects.insert(object_.get());
}

LiveEntry::~LiveEntry() {
    object_->exists_ = false;
    const std::lock_guard lock(list().mutex);
    list().objects.erase(object_.get());
}

std::string list_live_objects() {
    const std::lock_guard lock(list().mutex);
    std::string text;
    for (const LiveObject* object : list().objects) {
        text.append(object->type_).append("\t").append(narrow(object->name())).append("\n");
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
