// What steps make of constants before runs, such as packed weights. Steps that make the same share it.
#pragma once

#include <map>
#include <memory>
#include <typeindex>

namespace dmlgraph::cpu {

class Packings {
public:
    // What an earlier call with this key has made, or else make(). The key has all that this depends on; addresses are
    // those of constants, which all have memory when the first one is packed: no other gets the memory of one that is
    // freed.
    template <class Made, class Key, class Make>
    std::shared_ptr<const Made> find_or_make(const Key& key, const Make& make) {
        using Table = std::map<Key, std::shared_ptr<const Made>>;
        std::shared_ptr<void>& table = tables_[typeid(Table)];
        if (table == nullptr) {
            table = std::make_shared<Table>();
        }
        std::shared_ptr<const Made>& found = (*static_cast<Table*>(table.get()))[key];
        if (found == nullptr) {
            found = std::make_shared<const Made>(make());
        }
        return found;
    }

private:
    std::map<std::type_index, std::shared_ptr<void>> tables_;
};

}  // namespace dmlgraph::cpu
