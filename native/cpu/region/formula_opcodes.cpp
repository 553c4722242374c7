// What instructions do, as operations of formulas.
#include <algorithm>
#include <array>

#include "cpu/region/formula_draft.h"

namespace dmlgraph::cpu {
namespace {

using Code = FormulaCode;
using enum FormulaMeaning::Types;

constexpr FormulaMeaning::Pair of_one{Code::load, Code::load};
constexpr int number = -1;  // in place of an immediate's

constexpr std::array meanings{
    FormulaMeaning{Opcode::ADD, numbers, {Code::add, Code::add}},
    FormulaMeaning{Opcode::SUBTRACT, numbers, {Code::subtract, Code::subtract_from}},
    FormulaMeaning{Opcode::MULTIPLY, numbers, {Code::multiply, Code::multiply}},
    FormulaMeaning{Opcode::DIVIDE, numbers, {Code::divide, Code::divide_from}},
    FormulaMeaning{Opcode::MAX, numbers, {Code::max, Code::max_of}},
    FormulaMeaning{Opcode::MIN, numbers, {Code::min, Code::min_of}},
    FormulaMeaning{Opcode::MEAN, numbers, {Code::add, Code::add}, {{{Code::multiply, number, 0.5f}}}},
    FormulaMeaning{Opcode::DIFFERENCE_SQUARE, numbers, {Code::subtract, Code::subtract_from}, {{{Code::square}}}},
    FormulaMeaning{Opcode::ABS, numbers, of_one, {{{Code::absolute}}}},
    FormulaMeaning{Opcode::NEGATE, numbers, of_one, {{{Code::negate}}}},
    FormulaMeaning{Opcode::SQRT, numbers, of_one, {{{Code::root}}}},
    FormulaMeaning{Opcode::RECIP, numbers, of_one, {{{Code::reciprocal}}}},
    FormulaMeaning{Opcode::RELU, numbers, of_one, {{{Code::above, number, 0.0f}}}},
    FormulaMeaning{Opcode::THRESHOLD, numbers, of_one, {{{Code::above, 0}}}},
    FormulaMeaning{Opcode::CLIP, numbers, of_one, {{{Code::below, 1}, {Code::raise, 0}}}},
    FormulaMeaning{Opcode::SCALE_BIAS, numbers, of_one, {{{Code::multiply, 0}, {Code::add, 1}}}},
    FormulaMeaning{Opcode::LINEAR, numbers, of_one, {{{Code::multiply, 0}, {Code::add, 1}}}},
    FormulaMeaning{Opcode::LESS, comparisons, {Code::less, Code::greater}},
    FormulaMeaning{Opcode::LESS_OR_EQUAL, comparisons, {Code::less_or_equal, Code::greater_or_equal}},
    FormulaMeaning{Opcode::EQUAL, comparisons, {Code::equal, Code::equal}},
    FormulaMeaning{Opcode::LOGICAL_AND, masks, {Code::both, Code::both}},
    FormulaMeaning{Opcode::LOGICAL_OR, masks, {Code::either, Code::either}},
    FormulaMeaning{Opcode::LOGICAL_XOR, masks, {Code::differ, Code::differ}},
    FormulaMeaning{Opcode::LOGICAL_NOT, masks, of_one, {{{Code::invert}}}},
    FormulaMeaning{Opcode::CONVERT, conversions, of_one},
    FormulaMeaning{Opcode::IF, numbers, of_one},
    FormulaMeaning{Opcode::SEQUENCE, numbers, of_one},
};

}  // namespace

const FormulaMeaning* find_meaning(Opcode opcode) {
    const auto found = std::ranges::find(meanings, opcode, &FormulaMeaning::opcode);
    return found == meanings.end() ? nullptr : &*found;
}

}  // namespace dmlgraph::cpu
