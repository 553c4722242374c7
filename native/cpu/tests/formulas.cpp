// Which instructions become one formula; their results are compared in tests/devices/cpu/test_formulas.py.
#include <initializer_list>
#include <vector>

#include <doctest/doctest.h>

#include "cpu/kernels/formula.h"
#include "cpu/kernels/level.h"
#include "cpu/region/formulas.h"

namespace dmlgraph::cpu::tests {
namespace {

constexpr std::int64_t rows = 8, length = 1000;

// A region of `rows` by `length` elements of float32.
class Written {
public:
    explicit Written(int kept = -1) {
        region.rank = 2;
        region.sizes = {rows, length};
        region.kept = kept;
    }

    Reference load(std::int64_t row_stride, std::int64_t stride, DataType type = DataType::float32) {
        View view;
        view.type = type;
        view.strides = {row_stride, stride};
        region.loads.push_back(view);
        return {true, static_cast<std::int32_t>(region.loads.size()) - 1};
    }

    Reference whole(DataType type = DataType::float32) { return load(length, 1, type); }

    Reference add(Opcode opcode, std::initializer_list<Reference> operands, DataType result = DataType::float32) {
        RegionInstruction made;
        made.opcode = opcode;
        made.operand = region.type(*(operands.end() - 1));  // of IF its numbers, not its condition
        made.result = result;
        made.first_operand = static_cast<std::int32_t>(region.operands.size());
        made.operand_count = static_cast<std::int32_t>(operands.size());
        made.first_immediate = static_cast<std::int32_t>(region.immediates.size());
        region.operands.insert(region.operands.end(), operands);
        region.instructions.push_back(made);
        return {false, static_cast<std::int32_t>(region.instructions.size()) - 1};
    }

    // One more, of a chain on two operands.
    Reference chain(int count, Reference x, Reference m) {
        for (int i = 0; i < count; ++i) {
            x = add(i % 2 == 0 ? Opcode::SUBTRACT : Opcode::MAX, {x, m});
        }
        return x;
    }

    void store(const Reference& source) {
        RegionStore made;
        made.view.type = region.type(source);
        made.view.strides = {length, 1};
        made.source = source;
        region.stores.push_back(made);
    }

    // By instruction that is left: how many it was.
    std::vector<int> joined() {
        join_formulas(region);
        std::vector<int> result;
        for (const RegionInstruction& each : region.instructions) {
            CHECK((each.kernel == chosen_level().formula.kernel) == (each.members > 1));
            result.push_back(each.members);
        }
        return result;
    }

    Region region;
};

using Members = std::vector<int>;

}  // namespace

TEST_CASE("a chain becomes a formula") {
    Written written;
    const Reference x = written.whole(), z = written.whole();
    written.store(written.chain(6, x, z));
    CHECK(written.joined() == Members{6});
    CHECK(written.region.instructions[0].operand_count == 2);
    CHECK(written.region.stores[0].source.index == 0);
}

TEST_CASE("instructions too few for a formula stay") {
    for (int count = 1; count <= 8; ++count) {
        Written written;
        const Reference x = written.whole(), z = written.whole();
        written.store(written.chain(count, x, z));
        const bool joins = count >= 2;
        CHECK(written.joined() == (joins ? Members{count} : Members(static_cast<std::size_t>(count), 1)));
    }
}

TEST_CASE("a value that is stored ends a formula") {
    Written written;
    const Reference x = written.whole(), z = written.whole();
    const Reference middle = written.chain(6, x, z);
    written.store(middle);
    written.store(written.chain(8, middle, z));
    CHECK(written.joined() == Members{6, 8});
    CHECK(written.region.stores[0].source.index == 0);
    CHECK(written.region.stores[1].source.index == 1);
}

TEST_CASE("a value with several readers is in their formula") {
    Written written;
    const Reference x = written.whole(), z = written.whole();
    const Reference twice = written.chain(3, x, z);
    const Reference one = written.chain(2, twice, x), other = written.chain(2, twice, z);
    written.store(written.add(Opcode::ADD, {one, other}));
    CHECK(written.joined() == Members{8});
}

TEST_CASE("a value that several formulas read is in neither") {
    Written written;
    const Reference x = written.whole(), z = written.whole();
    const Reference twice = written.chain(6, x, z);
    written.store(written.chain(6, twice, x));
    written.store(written.chain(6, twice, z));
    CHECK(written.joined() == Members{6, 6, 6});
}

TEST_CASE("what is the same in every row is computed once, outside") {
    Written written;
    const Reference x = written.whole(), row = written.load(0, 1), number = written.load(0, 0);
    const Reference of_row = written.add(Opcode::ADD, {row, row}),
                    of_number = written.add(Opcode::MULTIPLY, {number, number});
    written.store(written.chain(7, written.add(Opcode::MULTIPLY, {x, of_row}), of_number));
    CHECK(written.joined() == Members{1, 1, 8});
}

TEST_CASE("masks are inside of formulas, and never their result") {
    Written written;
    const Reference x = written.whole(), z = written.whole();
    const Reference most = written.chain(5, x, z);
    const Reference mask = written.add(Opcode::LESS, {most, z}, DataType::uint8);
    written.store(written.add(Opcode::IF, {mask, x, z}));
    CHECK(written.joined() == Members{7});

    Written stored;
    const Reference a = stored.whole(), b = stored.whole();
    stored.store(stored.add(Opcode::LESS, {stored.chain(6, a, b), b}, DataType::uint8));
    CHECK(stored.joined() == Members{6, 1});
}

TEST_CASE("long chains become several formulas") {
    Written written;
    const Reference x = written.whole(), z = written.whole();
    written.store(written.chain(40, x, z));
    int sum = 0;
    for (const int members : written.joined()) {
        CHECK(members > 1);
        sum += members;
    }
    CHECK(sum == 40);
    CHECK(written.region.instructions.size() == 3);
}

TEST_CASE("a formula has no more operands than its kernel takes") {
    Written written;
    Reference x = written.whole();
    for (int i = 0; i < 30; ++i) {
        x = written.add(Opcode::ADD, {x, written.whole()});
    }
    written.store(x);
    CHECK(written.joined().size() < 5);
    for (const RegionInstruction& each : written.region.instructions) {
        CHECK(static_cast<std::size_t>(each.operand_count) <= most_formula_operands);
    }
}

TEST_CASE("narrow instructions stay outside formulas") {
    Written written(1);
    const Reference x = written.load(1, 0), z = written.load(1, 0);
    const Reference narrow = written.chain(6, x, z);
    for (RegionInstruction& each : written.region.instructions) {
        each.narrow = true;
    }
    written.store(written.chain(4, narrow, written.whole()));
    CHECK(written.joined() == Members{1, 1, 1, 1, 1, 1, 4});
}

TEST_CASE("expensive instructions stay outside formulas") {
    Written written;
    const Reference x = written.whole(), z = written.whole();
    const Reference exponential = written.add(Opcode::EXP, {written.chain(6, x, z)});
    written.store(written.chain(6, exponential, z));
    CHECK(written.joined() == Members{6, 1, 6});
}

}  // namespace dmlgraph::cpu::tests
