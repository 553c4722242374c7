#include "cpu/runtime/executable.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "cpu/runtime/cache_line.h"
#include "cpu/runtime/packing_step.h"
#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {
namespace {

std::size_t element_bytes(const TensorDesc& desc) {
    return static_cast<std::size_t>(desc.element_count()) * item_size(desc.type);
}

struct Extent {
    const std::byte* first;
    const std::byte* last;  // behind
};

Extent extent(const Array& array, const TensorDesc& desc) {
    const std::byte* first = array.data;
    const std::byte* last = array.data + item_size(desc.type);
    if (array.packed) {
        return {first, first + element_bytes(desc)};
    }
    for (int d = 0; d < desc.rank; ++d) {
        const std::int64_t reach = (desc.sizes[d] - 1) * array.strides[d];
        (reach < 0 ? first : last) += reach;
    }
    return {first, last};
}

// A step that reads an input, and what it reads there.
struct Reader {
    Step* step;
    View view;
};
using Readers = std::vector<Reader>;

std::vector<Readers> readers_of_inputs(const Program& program) {
    std::vector<Readers> result(program.inputs.size());
    for (const auto& step : program.steps) {
        step->visit([&](const View& view, bool) {
            if (view.buffer != no_buffer && static_cast<std::size_t>(view.buffer) < result.size()) {
                result[static_cast<std::size_t>(view.buffer)].push_back({step.get(), view});
            }
        });
    }
    return result;
}

// Whether a view of a whole buffer has each of its elements.
bool has_all(const View& view, const TensorDesc& desc) {
    std::int64_t known = 1;  // so many, from the first on
    for (bool found = true; found;) {
        found = false;
        for (int d = 0; d < view.rank && !found; ++d) {
            found = view.sizes[d] > 1 && view.strides[d] == known * static_cast<std::int64_t>(item_size(view.type));
            known *= found ? view.sizes[d] : 1;
        }
    }
    return view.offset == 0 && view.type == desc.type && known == desc.element_count();
}

// A step that keeps an input, if all that read it do, and each reads the whole of it; else null.
const PackingStep* keeper(const Program& program, std::size_t input, const Readers& readers) {
    const auto keeps = [&](const Reader& each) {
        const PackingStep* const packing = each.step->packing();
        return has_all(each.view, program.inputs[input]) && packing != nullptr &&
               packing->keeps(static_cast<BufferId>(input));
    };
    return !readers.empty() && std::ranges::all_of(readers, keeps) ? readers.front().step->packing() : nullptr;
}

}  // namespace

Tensor tensor_of(const Array& array, const TensorDesc& desc) {
    Tensor tensor{array.data, desc.type, desc.rank, desc.sizes, array.strides};
    if (array.packed) {
        tensor.strides = whole(0, desc, true).strides;
    }
    return tensor;
}

Executable::Context::Context(const Program& program, int threads)
    : base_(program.buffer_count()), custom_(program.buffer_count()) {
    arena_ = Memory(red_zone + program.arena_bytes);
    const std::size_t stride = align_to_line(program.scratch_bytes) + cache_line + red_zone;
    scratch_ = Memory(stride * static_cast<std::size_t>(threads));
    base_[static_cast<std::size_t>(program.constants_buffer())] = const_cast<std::byte*>(program.constants.data());
    for (std::size_t t = 0; t < program.temporaries.size(); ++t) {
        base_[program.inputs.size() + program.outputs.size() + 1 + t] =
            arena_.get() + red_zone + program.temporaries[t].offset;
    }
    staged_.resize(program.inputs.size() + program.outputs.size());
    bases = base_.data();
    custom = custom_.data();
    scratch_base = scratch_.get();
    scratch_stride = stride;
    scratch_bytes = program.scratch_bytes;
    workers = threads;
    if constexpr (has_red_zones) {
        zones_ = std::make_unique<RedZones>(program, arena_.get(), scratch_base, stride, threads);
    }
}

Executable::Executable(Program program, int threads)
    : program_(std::make_shared<const Program>(std::move(program))), threads_(threads) {}

Executable::~Executable() = default;

template <class Function>
void Executable::with_fixed(const Binding& binding, const std::vector<bool>* only, Packings& packings,
                            const Function& function) const {
    std::vector<std::byte*> base(program_->buffer_count());
    std::vector<const Sizes*> custom(program_->buffer_count());
    base[static_cast<std::size_t>(program_->constants_buffer())] = const_cast<std::byte*>(program_->constants.data());
    RunContext fixed;
    fixed.packings = &packings;
    for (std::size_t i = 0; i < program_->inputs.size(); ++i) {
        const Array& array = binding.inputs[i];
        const bool chosen = only == nullptr || (*only)[i];
        if (chosen && (array.packed || !program_->needs_packed[i])) {  // else every run has its own packed copy
            base[i] = array.data;
            custom[i] = array.packed ? nullptr : &array.strides;
            fixed.any_custom = fixed.any_custom || !array.packed;
        }
    }
    fixed.bases = base.data();
    fixed.custom = custom.data();
    function(fixed);
}

void Executable::prepare(const Binding& constants, const std::function<void()>& between,
                         const std::function<void(std::size_t)>& let_go) {
    const std::vector<Readers> readers = readers_of_inputs(*program_);
    std::vector<std::vector<std::size_t>> last_read(program_->steps.size());  // inputs by step
    for (std::size_t i = 0; i < readers.size(); ++i) {
        const Array& array = constants.inputs[i];
        if (array.data != nullptr && array.packed && program_->last_read[i] >= 0) {
            last_read[static_cast<std::size_t>(program_->last_read[i])].push_back(i);
        }
    }
    std::vector<Packings::Constant> known;
    for (std::size_t i = 0; i < readers.size(); ++i) {
        const Array& array = constants.inputs[i];
        if (array.data != nullptr && array.packed) {
            known.push_back({array.data, element_bytes(program_->inputs[i])});
        }
    }
    Packings packings(std::move(known));
    with_fixed(constants, nullptr, packings, [&](const RunContext& fixed) {
        for (std::size_t s = 0; s < program_->steps.size(); ++s) {
            between();
            if (PackingStep* const packing = program_->steps[s]->packing()) {
                packing->prepare(fixed);
            }
            for (const std::size_t i : last_read[s]) {
                if (keeper(*program_, i, readers[i]) != nullptr) {
                    let_go(i);
                }
            }
        }
    });
    packed_ = packings.uses();
}

std::size_t Executable::packed_bytes() const {
    std::size_t result = 0;
    for (const Packings::Use& each : packed_) {
        result += each.made.expired() ? 0 : each.bytes;
    }
    return result;
}

void unpack(const Program& program, std::size_t input, std::byte* to) {
    std::vector<std::byte*> base(program.buffer_count());
    const std::vector<const Sizes*> custom(program.buffer_count());
    base[input] = to;
    RunContext memory;
    memory.bases = base.data();
    memory.custom = custom.data();
    keeper(program, input, readers_of_inputs(program)[input])->unpack(static_cast<BufferId>(input), memory);
}

Kept Executable::keep(const Binding& binding, const std::vector<bool>& is_kept,
                      const std::function<void()>& between) const {
    Kept result;
    Packings packings;  // others may be given in the same memory
    with_fixed(binding, &is_kept, packings, [&](const RunContext& kept) {
        for (const auto& step : program_->steps) {
            between();
            const PackingStep* const packing = step->packing();
            result.push_back(packing != nullptr ? packing->keep(kept) : AllWeights());
        }
    });
    return result;
}

Executable::Context& Executable::acquire() {
    if (free_.empty()) {
        free_.reserve(all_.size() + 1);  // so that putting one back never fails
        all_.push_back(std::make_unique<Context>(*program_, threads_));
        return *all_.back();
    }
    Context& context = *free_.back();
    free_.pop_back();
    return context;
}

void Executable::release(Context& context) { free_.push_back(&context); }

void Executable::trim() {
    std::erase_if(all_, [&](const auto& each) { return std::ranges::find(free_, each.get()) != free_.end(); });
    free_.clear();
}

// Whether an output may be written into memory that it shares with inputs.
bool Executable::may_share(const Binding& binding, std::size_t o) const {
    const Array& output = binding.outputs[o];
    const TensorDesc& other = program_->outputs[o];
    const Extent out = extent(output, other);
    const std::int32_t written = program_->first_write[o];
    for (std::size_t i = 0; i < program_->inputs.size(); ++i) {
        const Array& input = binding.inputs[i];
        const TensorDesc& one = program_->inputs[i];
        const std::int32_t read = program_->last_read[i];
        if (read < 0 || read < written || input.data == nullptr) {
            continue;
        }
        const Extent in = extent(input, one);
        if (in.last <= out.first || out.last <= in.first) {
            continue;
        }
        const bool same = input.data == output.data && input.packed == output.packed && one.rank == other.rank &&
                          one.sizes == other.sizes && item_size(one.type) == item_size(other.type) &&
                          (input.packed || input.strides == output.strides);
        const auto output_buffer = static_cast<BufferId>(program_->inputs.size() + o);
        if (!same || read != written ||
            !program_->steps[static_cast<std::size_t>(read)]->may_overwrite(static_cast<BufferId>(i), output_buffer)) {
            return false;
        }
    }
    return true;
}

// Sets the buffers of the inputs and outputs. An array that a step needs packed, or must not overwrite, gets a packed
// copy.
void Executable::bind_arrays(Context& context, const Binding& binding) const {
    const std::size_t inputs = program_->inputs.size();
    const auto staged = [&](std::size_t buffer, const TensorDesc& desc) {
        const std::size_t bytes = desc.total_bytes() + 2 * red_zone;
        if (context.staged_[buffer].bytes() < bytes) {
            context.staged_[buffer] = Memory(bytes);
        }
        context.base_[buffer] = context.staged_[buffer].get() + red_zone;
        if constexpr (has_red_zones) {
            forbid(context.staged_[buffer].get(), context.staged_[buffer].bytes());
            allow_empty(context.base_[buffer], element_bytes(desc));
        }
        context.custom_[buffer] = nullptr;
        return Array{context.base_[buffer]};
    };
    context.any_custom = false;
    context.rows = binding.rows.empty() ? nullptr : binding.rows.data();
    const auto use = [&](std::size_t buffer, const Array& array) {
        context.base_[buffer] = array.data;
        context.custom_[buffer] = array.packed ? nullptr : &array.strides;
        context.any_custom = context.any_custom || !array.packed;
    };
    const bool watched =
        has_red_zones && !watches_addresses && !binding.may_overlap;  // packed arrays get red zones, too
    for (std::size_t i = 0; i < inputs; ++i) {
        const Array& array = binding.inputs[i];
        const bool copied = array.packed ? watched && array.data != nullptr : program_->needs_packed[i];
        if (copied && program_->last_read[i] >= 0) {
            copy(tensor_of(staged(i, program_->inputs[i]), program_->inputs[i]), tensor_of(array, program_->inputs[i]));
        } else {
            use(i, array);
        }
    }
    for (std::size_t o = 0; o < program_->outputs.size(); ++o) {
        const Array& array = binding.outputs[o];
        const bool direct = array.packed ? !watched : !program_->needs_packed[inputs + o];
        if (direct && (!binding.may_overlap || array.is_new || may_share(binding, o))) {
            use(inputs + o, array);
        } else {
            staged(inputs + o, program_->outputs[o]);
        }
    }
}

// Throws std::logic_error if a step has written beside the packed copy of an output.
void Executable::check_staged(const Context& context) const {
    const std::size_t inputs = program_->inputs.size();
    for (std::size_t o = 0; o < program_->outputs.size(); ++o) {
        const Memory& memory = context.staged_[inputs + o];
        const std::size_t used = red_zone + element_bytes(program_->outputs[o]);
        if (memory.get() != nullptr && context.base_[inputs + o] == memory.get() + red_zone &&
            !(are_forbidden(memory.get(), red_zone) && are_forbidden(memory.get() + used, memory.bytes() - used))) {
            throw std::logic_error("a step has written beside output " + std::to_string(o));
        }
    }
}

void Executable::run(Context& context, const Binding& binding, StepClock* clock, const Kept* kept) const {
    bind_arrays(context, binding);
    if (clock != nullptr) {
        clock->start();
    }
    for (std::size_t s = 0; s < program_->steps.size(); ++s) {
        context.kept = kept == nullptr ? nullptr : &(*kept)[s];
        if constexpr (has_red_zones) {
            context.zones_->before(s);
            context.scratch_bytes = program_->steps[s]->scratch_bytes();
        }
        program_->steps[s]->run(context);
        context.throw_if_cancelled();
        if constexpr (has_red_zones) {
            context.zones_->after(s);
        }
        if (clock != nullptr) {
            clock->step_ended();
        }
    }
    if constexpr (has_red_zones) {
        check_staged(context);
    }
    const std::size_t inputs = program_->inputs.size();
    for (std::size_t o = 0; o < program_->outputs.size(); ++o) {
        if (context.base_[inputs + o] != binding.outputs[o].data) {
            copy(tensor_of(binding.outputs[o], program_->outputs[o]),
                 tensor_of(Array{context.base_[inputs + o]}, program_->outputs[o]));
        }
    }
}

}  // namespace dmlgraph::cpu
