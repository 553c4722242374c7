// What steps make of constants before runs, such as packed weights. Steps of all executables of the process that make
// the same of equal constants share it, as long as one of them has it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "cpu/runtime/digest.h"

namespace dmlgraph::cpu {

// What a step makes of an operand that stays the same, in the order in which kernels read it.
class Weights {
public:
    virtual ~Weights() = default;
};
using AllWeights = std::vector<std::shared_ptr<const Weights>>;  // of a step; null: of an operand that is not packed

// Calls function(address) for each address of memory that a part of a key has. Such parts have a function for it.
// Pointers to objects are those of tables that the process has once.
template <class Part, class Function>
void each_address(Part& part, const Function& function) {
    if constexpr (requires { part.each_address(function); }) {
        part.each_address(function);
    } else {
        using Pointed = std::remove_pointer_t<Part>;
        static_assert(
            std::is_arithmetic_v<Part> || std::is_enum_v<Part> || (std::is_pointer_v<Part> && std::is_class_v<Pointed>),
            "a part of a key must say which addresses it has");
    }
}

template <class... Parts, class Function>
void each_address(std::tuple<Parts...>& key, const Function& function) {
    std::apply([&](Parts&... parts) { (each_address(parts, function), ...); }, key);
}

// The bytes of all that was made in this process and is still there.
std::size_t packed_bytes();
void count_packed(std::size_t more, std::size_t less);

// What was made, which counts as long as it is there.
template <class Made>
std::shared_ptr<const Made> counted(std::unique_ptr<const Made> made) {
    const std::size_t bytes = made->bytes();
    count_packed(bytes, 0);
    return std::shared_ptr<const Made>(made.release(),
                                       [bytes](const Made* each) {  // also if there is no memory for the count
                                           delete each;
                                           count_packed(0, bytes);
                                       });
}

// What has the key `Key`, in the whole process; several threads may use it.
template <class Made, class Key>
class PackingTable {
public:
    static PackingTable& of_process() {
        static PackingTable table;
        return table;
    }

    template <class Make>
    std::shared_ptr<const Made> find_or_make(const Key& key, const Make& make) {
        const std::shared_ptr<Entry> entry = entry_of(key);
        const std::lock_guard lock(entry->making);
        std::shared_ptr<const Made> result = entry->made.lock();
        if (result == nullptr) {
            entry->made = result = make();
        }
        return result;
    }

private:
    struct Entry {
        std::mutex making;
        std::weak_ptr<const Made> made;
    };

    std::shared_ptr<Entry> entry_of(const Key& key) {
        const std::lock_guard lock(mutex_);
        if (entries_.size() >= most_) {
            // An entry that nobody else has at this moment is not being made.
            std::erase_if(entries_,
                          [](const auto& each) { return each.second.use_count() == 1 && each.second->made.expired(); });
            most_ = std::max(most_, 2 * entries_.size());
        }
        std::shared_ptr<Entry>& found = entries_[key];
        if (found == nullptr) {
            found = std::make_shared<Entry>();
        }
        return found;
    }

    std::mutex mutex_;
    std::map<Key, std::shared_ptr<Entry>> entries_;
    std::size_t most_ = 64;  // entries, before those that are not there any more are looked for
};

// Of one executable while it prepares, with what it made and found.
class Packings {
public:
    struct Constant {
        const std::byte* first;
        std::size_t bytes;
        std::optional<Digest> digest{};
    };
    struct Use {
        std::weak_ptr<const void> made;
        std::size_t bytes;
    };

    // `constants`: those whose elements lie side by side. They have memory when something is first made of them.
    explicit Packings(std::vector<Constant> constants = {}) : constants_(std::move(constants)) {}

    // What an earlier call with this key has made, or else make(). The key has all that this depends on. Its addresses
    // count as what the constants there hold; one that is not in a constant counts as an address of this executable's.
    template <class Made, class Key, class Make>
    std::shared_ptr<const Made> find_or_make(const Key& key, const Make& make) {
        Key rest = key;
        std::vector<Place> places;
        bool known = true;
        each_address(rest, [&](auto*& address) {
            const std::optional<Place> place =
                known ? place_of(reinterpret_cast<const std::byte*>(address)) : std::nullopt;
            known = place.has_value();
            places.push_back(place.value_or(Place{}));
            address = nullptr;
        });
        const auto made = [&] { return counted(std::make_unique<const Made>(make())); };
        std::shared_ptr<const Made> result;
        if (known) {
            using Table = PackingTable<Made, std::pair<std::vector<Place>, Key>>;
            result = Table::of_process().find_or_make({std::move(places), std::move(rest)}, made);
        } else {
            using Table = PackingTable<Made, Key>;
            std::shared_ptr<void>& table = own_[typeid(Table)];
            if (table == nullptr) {
                table = std::make_shared<Table>();
            }
            result = static_cast<Table*>(table.get())->find_or_make(key, made);
        }
        if (std::ranges::find(made_, std::shared_ptr<const void>(result), &Held::made) == made_.end()) {
            made_.push_back({result, result->bytes()});
        }
        return result;
    }

    // What was made or found, each once.
    std::vector<Use> uses() const;

private:
    // A place in a constant, by what it holds.
    struct Place {
        Digest constant;
        std::size_t offset = 0;
        auto operator<=>(const Place&) const = default;
    };

    struct Held {
        std::shared_ptr<const void> made;
        std::size_t bytes;
        operator Use() const { return {made, bytes}; }
    };

    // That of no memory if the address is null.
    std::optional<Place> place_of(const std::byte* address);

    std::vector<Constant> constants_;
    std::map<std::type_index, std::shared_ptr<void>> own_;  // tables
    std::vector<Held> made_;                                // stays until all steps are prepared
};

}  // namespace dmlgraph::cpu
