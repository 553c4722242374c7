// Red zones: where they are at each step, and what is found.
#include "cpu/runtime/red_zones.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cpu/runtime/executable.h"
#include "cpu/tests/tensors.h"

namespace dmlgraph::cpu::tests {
namespace {

constexpr std::size_t length = 12;
using Work = std::function<void(RunContext& context, std::byte* in, std::byte* out)>;

class Worker final : public Step {
public:
    Worker(StepTensors tensors, Work work) : tensors_(std::move(tensors)), work_(std::move(work)) {}

    void run(RunContext& context) const override {
        work_(context, context.data(tensors_.inputs[0]), context.data(tensors_.outputs[0]));
    }
    std::size_t scratch_bytes() const override { return length; }
    void visit(const Visitor& visitor) override {
        visitor(tensors_.inputs[0], false);
        visitor(tensors_.outputs[0], true);
    }

private:
    StepTensors tensors_;
    Work work_;
};

class Maker final : public StepFactory {
public:
    explicit Maker(Work work) : work_(std::move(work)) {}
    std::unique_ptr<Step> make(StepTensors tensors) const override {
        return std::make_unique<Worker>(std::move(tensors), work_);
    }

private:
    Work work_;
};

// Runs works one after the other, each on the result of the one before; returns the error.
std::string run_all(std::vector<Work> works) {
    const TensorDesc desc = packed(DataType::uint8, {static_cast<std::int64_t>(length)});
    GraphSpec spec;
    spec.inputs = {desc};
    for (std::size_t w = 0; w < works.size(); ++w) {
        NodeSpec& node = spec.nodes.emplace_back();
        node.name = "work " + std::to_string(w);
        node.kind = NodeKind::step;
        node.sources = {static_cast<std::int32_t>(w)};
        node.inputs = node.outputs = {desc};
        node.make_step = std::make_unique<Maker>(std::move(works[w]));
    }
    spec.outputs = {static_cast<std::int32_t>(works.size())};
    Executable executable(plan(std::move(spec)), 2);
    std::byte input[length] = {}, output[length] = {};
    Binding binding(1, 1);
    binding.inputs[0].data = input;
    binding.outputs[0].data = output;
    try {
        executable.run(executable.acquire(), binding);
    } catch (const std::logic_error& error) {
        return error.what();
    }
    return "";
}

void copy(RunContext&, std::byte* in, std::byte* out) { std::copy_n(in, length, out); }

}  // namespace

TEST_CASE("buffers lie between red zones while they live") {
    if constexpr (has_red_zones) {
        std::byte* first = nullptr;
        const Work make = [&](RunContext& context, std::byte*, std::byte* out) {
            first = out;
            CHECK(are_forbidden(out - red_zone, red_zone));
            CHECK(are_forbidden(out + length, red_zone));
            CHECK_MESSAGE((out[0] == std::byte{0xFF} && out[length - 1] == std::byte{0xFF}), "nothing has written it");
            CHECK_MESSAGE(context.scratch(1)[0] == std::byte{0xFF}, "nor scratch memory");
            CHECK(are_forbidden(context.scratch(0) + length, red_zone));
            std::fill_n(out, length, std::byte{7});
        };
        const Work pass = [&](RunContext&, std::byte* in, std::byte* out) {
            CHECK_MESSAGE((in == first && in[length - 1] == std::byte{7}), "what was written stays");
            CHECK(are_forbidden(in + length, red_zone));
            std::copy_n(in, length, out);
        };
        const Work end = [&](RunContext&, std::byte* in, std::byte* out) {
            CHECK_MESSAGE((in == first || are_forbidden(first, length)), "it is read no more");
            std::copy_n(in, length, out);
        };
        CHECK(run_all({make, pass, end}) == "");
        CHECK(run_all({copy}) == "");
    }
}

TEST_CASE("what is written beside a buffer is reported") {
    if constexpr (has_red_zones && !watches_addresses) {  // which ends the process
        const auto write_at = [](std::ptrdiff_t place) -> Work {
            return [place](RunContext&, std::byte*, std::byte* out) { out[place] = std::byte{1}; };
        };
        constexpr auto behind = static_cast<std::ptrdiff_t>(length),
                       far = behind + static_cast<std::ptrdiff_t>(red_zone) - 1;
        for (const std::ptrdiff_t place : {std::ptrdiff_t{-1}, behind, far}) {
            CHECK(run_all({copy, write_at(place), copy}) == "the step of 'work 1' has written beside its buffers");
        }
        for (const std::ptrdiff_t place : {std::ptrdiff_t{-1}, behind}) {
            CHECK(run_all({copy, write_at(place)}) == "a step has written beside output 0");
        }
        CHECK(run_all({copy,
                       [](RunContext& context, std::byte*, std::byte*) { context.scratch(1)[length] = std::byte{}; },
                       copy}) == "the step of 'work 1' has written beside its buffers");
    }
}

}  // namespace dmlgraph::cpu::tests
