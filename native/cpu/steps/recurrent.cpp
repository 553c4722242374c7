#include "cpu/steps/recurrent.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

#include "cpu/kernels/row_product.h"
#include "cpu/products/product.h"
#include "cpu/quotient.h"
#include "cpu/runtime/processors.h"
#include "cpu/steps/recurrent_gates.h"
#include "cpu/steps/recurrent_memory.h"
#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t rnn = 1, gru = 3, lstm = 4;  // gates
constexpr std::int64_t most_sums = 128 << 10;       // of the steps whose inputs are multiplied at a time: they stay in the caches
constexpr std::int64_t least_rows = 48;             // … unless these are fewer rows, which do not make a fast product
constexpr std::int64_t rows_each = 4;               // of a worker: fewer do not keep its multipliers busy
constexpr double worth_dividing = 3 << 18;          // cost of a step whose hidden units are worth sharing between workers

// The last four dimensions of a tensor: any, D, B and H, or I. Strides in bytes.
struct Lines {
    std::byte* data;
    DataType type;
    std::array<std::int64_t, 4> strides;

    explicit Lines(const Tensor& tensor) : data(tensor.data), type(tensor.type) {
        std::copy_n(tensor.strides.begin() + tensor.rank - 4, 4, strides.begin());
    }
    std::byte* at(std::int64_t first, std::int64_t second, std::int64_t third, std::int64_t element = 0) const {
        return data + first * strides[0] + second * strides[1] + third * strides[2] + element * strides[3];
    }
    std::int64_t step() const { return strides[3]; }
    bool is_packed() const { return step() == static_cast<std::int64_t>(item_size(type)); }
};

// R of a direction, packed gate by gate.
struct Recurrence {
    Panels panels;
    std::vector<const float*> first;  // by gate, then panel: where it begins
};

class RecurrentStep final : public Step {
public:
    RecurrentStep(const StepTensors& tensors, const RecurrentParameters& parameters)
        : inputs_(tensors.inputs), outputs_(tensors.outputs), parameters_(parameters), kernels_(product_kernels()) {
        check_tensors();
        const View &x = input(0), &recurrence = input(2);
        sizes_.steps = x.sizes[x.rank - 3];
        sizes_.batch = x.sizes[x.rank - 2];
        sizes_.directions = static_cast<std::int64_t>(parameters.backward.size());
        sizes_.inputs = x.sizes[x.rank - 1];
        sizes_.hidden = recurrence.sizes[recurrence.rank - 1];
        sizes_.gates = parameters.gates;
        const std::int64_t vectors = quotient_up(sizes_.hidden, kernels_.lanes);
        sizes_.line = vectors * kernels_.lanes;
        const std::int64_t row = sizes_.batch * sizes_.gates * sizes_.line;
        sizes_.chunk = std::min(sizes_.steps, std::max(most_sums / row, quotient_up(least_rows, sizes_.batch)));
        const std::int64_t most = sizes_.batch == 1 ? most_row_vectors : kernels_.vectors;
        columns_ = {sizes_.hidden, quotient_up(vectors, quotient_up(vectors, most)) * kernels_.lanes};
        for (std::int64_t p = 0; p < columns_.count(); ++p) {
            vectors_.push_back(static_cast<int>(quotient_up(columns_.in(p), kernels_.lanes)));
        }
        const std::size_t functions = parameters.activations.size() / parameters.backward.size();
        const auto bound = parameters.bound.empty() ? std::nullopt : std::optional(parameters.bound[0]);
        for (std::size_t d = 0; d < parameters.backward.size(); ++d) {
            gates_.emplace_back(parameters.activations.data() + d * functions, functions, bound);
        }
        if (input(bias).buffer != no_buffer) {
            InstructionSpec sum;
            sum.kernel = find_kernel(Opcode::ADD, DataType::float32, DataType::float32);
            sum.result = DataType::float32;
            sum.operands = {0, first_operand};
            epilogue_ = Epilogue({sum}, DataType::float32, first_operand + 1);
        } else {
            epilogue_ = Epilogue({}, DataType::float32, first_operand);
        }
        if (x.type != DataType::float32) {
            widen_ = find_kernel(Opcode::CONVERT, x.type, DataType::float32);
            narrow_ = find_kernel(Opcode::CONVERT, DataType::float32, x.type);
        }
    }

    void prepare(const RunContext& fixed) override {
        for (std::int64_t d = 0; d < sizes_.directions; ++d) {
            if (fixed.has(input(1))) {
                const ProductSizes sizes = projection(sizes_.chunk);
                weights_.emplace_back(matrix(fixed, 1, d), 0, Sizes{}, sizes.k, columns_of(sizes, kernels_), true, kernels_);
            }
            if (fixed.has(input(2))) {
                recurrences_.push_back(packed_recurrence(fixed, d));
            }
        }
    }

    bool keeps(BufferId buffer) const override {
        return (is_only(buffer, 1) && !weights_.empty()) || (is_only(buffer, 2) && !recurrences_.empty());
    }

    void unpack(BufferId buffer, const RunContext& to) const override {
        for (std::int64_t d = 0; d < sizes_.directions; ++d) {
            const auto index = static_cast<std::size_t>(d);
            if (is_only(buffer, 1)) {
                weights_[index].unpack(matrix(to, 1, d));
            } else {
                recurrences_[index].panels.unpack(recurrence(to, d));
            }
        }
    }

    void run(RunContext& context) const override {
        Run(*this, context).compute();
    }

    Kind kind() const override { return Kind::native; }
    double cost() const override {
        return static_cast<double>(sizes_.steps) *
               (product_cost(projection(1)) + product_cost(carried(sizes_.batch))) * static_cast<double>(sizes_.directions);
    }
    std::size_t scratch_bytes() const override {
        const std::size_t operands = input(bias).buffer == no_buffer ? 0 : 1;
        return RecurrentMemory(nullptr, sizes_).bytes() + product_scratch(projection(sizes_.chunk), operands, epilogue_, kernels_);
    }
    void visit(const Visitor& visitor) override {
        for (View& each : inputs_) {
            visitor(each, false);
        }
        for (View& each : outputs_) {
            visitor(each, true);
        }
    }

private:
    static constexpr std::size_t bias = 3, hidden_init = 4;
    std::size_t cell_init() const { return 5; }  // of LSTM
    std::size_t lengths() const { return parameters_.gates == lstm ? 6 : 5; }
    std::size_t peephole() const { return 7; }  // of LSTM

    const View& input(std::size_t port) const { return inputs_[port]; }
    // Whether a buffer is this input, in float32, and not another input as well.
    bool is_only(BufferId buffer, std::size_t port) const {
        const auto is_it = [&](const View& view) { return view.buffer == buffer; };
        return is_it(input(port)) && input(port).type == DataType::float32 && std::ranges::count_if(inputs_, is_it) == 1;
    }

    void check_tensors() const {
        const bool is_lstm = parameters_.gates == lstm;
        if (parameters_.gates != rnn && parameters_.gates != gru && !is_lstm) {
            throw std::invalid_argument("a recurrent network has 1, 3 or 4 gates");
        }
        if (inputs_.size() != (is_lstm ? 8 : 6) || outputs_.size() != (is_lstm ? 3 : 2)) {
            throw std::invalid_argument("a recurrent network has other tensors");
        }
        for (std::size_t port = 0; port < inputs_.size(); ++port) {
            const View& each = inputs_[port];
            const bool is_right = port == lengths() ? each.type == DataType::uint32
                                                    : each.type == inputs_[0].type && (each.type == DataType::float32 || each.type == DataType::float16);
            if (each.buffer == no_buffer ? port < bias : !is_right || each.rank < 4) {
                throw std::invalid_argument("the tensors of a recurrent network have 4 dimensions or more, and are float32 or float16");
            }
        }
        const std::size_t functions = parameters_.gates == rnn ? 1 : parameters_.gates == gru ? 2 : 3;
        if (parameters_.backward.empty() || parameters_.activations.size() != functions * parameters_.backward.size()) {
            throw std::invalid_argument("a recurrent network has another number of activations");
        }
    }

    // W · X of so many steps.
    ProductSizes projection(std::int64_t steps) const {
        ProductSizes sizes;
        sizes.m = steps * sizes_.batch;
        sizes.n = sizes_.gates * sizes_.hidden;
        sizes.k = sizes_.inputs;
        return sizes;
    }
    // R · H of so many rows.
    ProductSizes carried(std::int64_t rows) const {
        ProductSizes sizes;
        sizes.m = rows;
        sizes.n = sizes_.gates * sizes_.hidden;
        sizes.k = sizes_.hidden;
        return sizes;
    }

    // W or R of a direction.
    MatrixPanels matrix(const RunContext& context, std::size_t port, std::int64_t direction) const {
        const Lines lines(context.tensor(input(port)));
        return {lines.at(0, direction, 0), lines.type, {}, lines.strides[2], lines.step()};
    }

    // R of a direction, gate by gate.
    MatrixPanels recurrence(const RunContext& context, std::int64_t direction) const {
        MatrixPanels result = matrix(context, 2, direction);
        result.batch[0] = sizes_.hidden * result.line;
        return result;
    }
    Recurrence packed_recurrence(const RunContext& context, std::int64_t direction) const {
        Recurrence result{{recurrence(context, direction), 1, Sizes{sizes_.gates}, sizes_.hidden, columns_, true, kernels_}, {}};
        for (std::int64_t g = 0; g < sizes_.gates; ++g) {
            for (std::int64_t p = 0; p < columns_.count(); ++p) {
                result.first.push_back(result.panels.at({g}, p, 0));
            }
        }
        return result;
    }
    TileKernel kernel(std::int64_t rows, std::int64_t panel) const {
        const int vectors = vectors_[static_cast<std::size_t>(panel)];
        return sizes_.batch == 1 ? row_kernel(vectors) : kernels_.tile(static_cast<int>(rows), vectors);
    }

    // Some rows and some panels of hidden units of a direction.
    struct Part {
        std::int64_t direction;
        std::int64_t first_row;
        std::int64_t last_row;
        std::int64_t first_panel;
        std::int64_t last_panel;
        Division rows;  // as operands of products
    };

    // One run of the step.
    class Run {
    public:
        Run(const RecurrentStep& step, RunContext& context)
            : step_(step), sizes_(step.sizes_), panel_count_(step.columns_.count()), context_(context), memory_(context.scratch(0), step.sizes_) {}

        void compute() {
            read_tensors();
            for (std::int64_t first = 0; first < sizes_.steps; first += sizes_.chunk) {
                const std::int64_t count = std::min(sizes_.chunk, sizes_.steps - first);
                for (std::int64_t d = 0; d < sizes_.directions; ++d) {
                    project(d, first, count);
                }
                shares_units() ? run_together(first, count) : run_apart(first, count);
                context_.throw_if_cancelled();
            }
            write_state(1, &RecurrentMemory::hidden);
            if (is_lstm()) {
                write_state(2, &RecurrentMemory::cell);
            }
        }

    private:
        bool is_lstm() const { return sizes_.gates == lstm; }
        bool is_gru() const { return sizes_.gates == gru; }
        bool resets_before() const { return is_gru() && !step_.parameters_.resets_after_product; }
        bool is_backward(std::int64_t direction) const { return step_.parameters_.backward[static_cast<std::size_t>(direction)] != 0; }
        std::optional<Lines> lines(std::size_t port) const {
            const View& view = step_.inputs_[port];
            return view.buffer == no_buffer ? std::nullopt : std::optional(Lines(context_.tensor(view)));
        }

        // `count` elements as floats.
        void read(float* to, const Lines& from, const std::byte* first, std::int64_t count) const {
            const int item = static_cast<int>(item_size(from.type));
            if (step_.widen_ == nullptr) {
                return gather_line(reinterpret_cast<std::byte*>(to), first, from.step(), count, item);
            }
            if (!from.is_packed()) {
                auto* const packed = reinterpret_cast<std::byte*>(memory_.spare());
                gather_line(packed, first, from.step(), count, item);
                first = packed;
            }
            convert(step_.widen_, to, first, count);
        }
        // … and back; null: zeros. `packed` has room for them.
        void write(const Lines& to, std::byte* first, const float* from, std::int64_t count, std::byte* packed) const {
            const int item = static_cast<int>(item_size(to.type));
            std::byte* const target = to.is_packed() ? first : packed;
            if (from == nullptr) {
                std::memset(target, 0, static_cast<std::size_t>(count) * static_cast<std::size_t>(item));
            } else if (step_.narrow_ != nullptr) {
                convert(step_.narrow_, target, from, count);
            } else if (to.is_packed()) {
                std::copy_n(from, count, reinterpret_cast<float*>(target));
            } else {
                return scatter_line(first, to.step(), reinterpret_cast<const std::byte*>(from), count, item);
            }
            if (!to.is_packed()) {
                scatter_line(first, to.step(), target, count, item);
            }
        }
        static void convert(Kernel kernel, void* to, const void* from, std::int64_t count) {
            const Operand operand{from, false};
            kernel({to, &operand, static_cast<std::size_t>(count), nullptr, 0});
        }

        // What is small, in float32.
        void read_tensors() {
            if (sizes_.line != sizes_.hidden) {  // vectors beyond the hidden units are computed too
                std::fill_n(memory_.sums(0, 0), memory_.sums_count(), 0.0f);
            }
            read_states(hidden_init, &RecurrentMemory::hidden);
            if (is_lstm()) {
                read_states(step_.cell_init(), &RecurrentMemory::cell);
            }
            if (const auto bias_lines = lines(bias)) {
                read_biases(*bias_lines);
            }
            if (is_lstm()) {
                if (const auto found = lines(step_.peephole())) {
                    for (std::int64_t each = 0; each < sizes_.directions * 3; ++each) {
                        const std::int64_t d = each / 3, part = each % 3;
                        read(memory_.peepholes(d) + part * sizes_.line, *found, found->at(0, 0, d, part * sizes_.hidden), sizes_.hidden);
                    }
                    has_peephole_ = true;
                }
            }
            lengths_ = lines(step_.lengths());
            if (step_.outputs_[0].buffer != no_buffer) {
                sequence_.emplace(context_.tensor(step_.outputs_[0]));
            }
            if (step_.recurrences_.empty()) {
                for (std::int64_t d = 0; d < sizes_.directions; ++d) {
                    recurrences_.push_back(step_.packed_recurrence(context_, d));
                }
            }
        }

        using State = float* (RecurrentMemory::*)(std::int64_t, std::int64_t, std::int64_t) const;

        void read_states(std::size_t port, State state) const {
            const auto found = lines(port);
            for (std::int64_t d = 0; d < sizes_.directions; ++d) {
                for (std::int64_t b = 0; b < sizes_.batch; ++b) {
                    float* const to = (memory_.*state)(d, 0, b);
                    std::fill_n(to, sizes_.line, 0.0f);
                    if (found) {
                        read(to, *found, found->at(0, d, b), sizes_.hidden);
                    }
                }
            }
        }

        void write_state(std::size_t port, State state) const {
            if (step_.outputs_[port].buffer == no_buffer) {
                return;
            }
            const Lines to(context_.tensor(step_.outputs_[port]));
            for (std::int64_t d = 0; d < sizes_.directions; ++d) {
                for (std::int64_t b = 0; b < sizes_.batch; ++b) {
                    write(to, to.at(0, d, b), (memory_.*state)(d, sizes_.steps, b), sizes_.hidden, reinterpret_cast<std::byte*>(memory_.spare()));
                }
            }
        }

        // W's and R's biases are added at once, except where R's are multiplied by the reset gate.
        void read_biases(const Lines& from) const {
            const std::int64_t all = sizes_.gates * sizes_.hidden;
            const std::int64_t added = is_gru() && !resets_before() ? 2 * sizes_.hidden : all;
            for (std::int64_t d = 0; d < sizes_.directions; ++d) {
                float *const sums = memory_.biases(d), *const other = memory_.spare() + all;
                read(sums, from, from.at(0, 0, d), all);
                read(other, from, from.at(0, 0, d, all), all);
                for (std::int64_t i = 0; i < added; ++i) {
                    sums[i] += other[i];
                }
                std::copy(other + added, other + all, memory_.other_biases(d));
            }
        }

        // The first step's place in time of some steps.
        std::int64_t time_of(std::int64_t direction, std::int64_t first, std::int64_t count) const {
            return is_backward(direction) ? sizes_.steps - first - count : first;
        }

        // W · X and biases of the steps first … first + count − 1.
        void project(std::int64_t direction, std::int64_t first, std::int64_t count) const {
            const Lines x(context_.tensor(step_.input(0)));
            const Panels* const packed = step_.weights_.empty() ? nullptr : &step_.weights_[static_cast<std::size_t>(direction)];
            const MatrixPanels weights = packed != nullptr ? MatrixPanels() : step_.matrix(context_, 1, direction);
            Product product;
            product.sizes = step_.projection(count);
            MatrixPanels rows(x.at(0, time_of(direction, first, count), 0), x.type, {}, x.strides[2], x.step());
            const std::int64_t row = sizes_.gates * sizes_.line * std::int64_t{sizeof(float)};
            if (sizes_.batch == 1) {
                rows.line = x.strides[1];
            } else if (x.strides[1] != sizes_.batch * x.strides[2]) {  // a product for each step
                product.sizes.rank = 1;
                product.sizes.batch[0] = count;
                product.sizes.m = sizes_.batch;
                rows.batch[0] = x.strides[1];
                product.target.out.batch[0] = sizes_.batch * row;
            }
            product.a = {nullptr, &rows, &rows};
            product.b = {packed, &weights, &weights};
            MatrixTensor& out = product.target.out;
            out.data = reinterpret_cast<std::byte*>(memory_.sums(direction, 0));
            out.type = DataType::float32;
            out.row = row;
            out.rank = 2;
            out.sizes = {sizes_.gates, sizes_.hidden};
            out.strides = {sizes_.line * std::int64_t{sizeof(float)}, sizeof(float)};
            out.join_dimensions();
            if (!step_.epilogue_.empty()) {
                MatrixTensor biases;
                biases.data = reinterpret_cast<std::byte*>(memory_.biases(direction));
                biases.type = DataType::float32;
                biases.sizes[0] = product.sizes.n;
                biases.strides[0] = sizeof(float);
                product.target.operands.push_back(biases);
            }
            product.target.epilogue = &step_.epilogue_;
            product.kernels = &step_.kernels_;
            RunContext& context = product_context_;
            context.workers = context_.workers;
            context.scratch_base = context_.scratch_base + memory_.bytes();
            context.scratch_stride = context_.scratch_stride;
            run_product(context, product);
        }


        // How many groups of rows run on workers of their own.
        std::int64_t row_groups() const {
            const std::int64_t idle = quotient_up(context_.workers, sizes_.directions);
            return std::max<std::int64_t>(1, std::min(idle, sizes_.batch / rows_each));
        }

        // Whether workers share the hidden units of each step: if there are more workers than groups of rows, or if the
        // weights, which each group reads in every step, do not fit into the second cache.
        bool shares_units() const {
            const double bytes = static_cast<double>(sizes_.gates * sizes_.hidden * sizes_.hidden) * sizeof(float);
            const bool fits = bytes <= static_cast<double>(second_cache_bytes()) / 2;
            return sizes_.directions < context_.workers && panel_count_ > 1 && step_cost() >= worth_dividing &&
                   (!fits || sizes_.directions * row_groups() < context_.workers);
        }
        double step_cost() const {
            return product_cost(step_.carried(sizes_.batch)) * static_cast<double>(sizes_.directions);
        }

        // Each group of rows of each direction by itself, through all steps.
        void run_apart(std::int64_t first, std::int64_t count) {
            const std::int64_t groups = row_groups();
            context_.each(sizes_.directions * groups, step_cost() * static_cast<double>(count), [&](std::int64_t i) {
                const std::int64_t group = i % groups;
                const Part part = part_of(i / groups, sizes_.batch * group / groups, sizes_.batch * (group + 1) / groups);
                for (std::int64_t s = 0; s < count; ++s) {
                    pack_rows(part, first + s);
                    run_first(part, first, s, count);
                    if (resets_before()) {
                        pack_reset_rows(part);
                        run_second(part, first, s, count);
                    }
                }
            });
        }

        // Step by step, the panels of hidden units shared between workers.
        void run_together(std::int64_t first, std::int64_t count) {
            const auto whole = [&](std::int64_t d) { return part_of(d, 0, sizes_.batch); };
            const auto share = [&](auto&& function) {
                context_.each(sizes_.directions * panel_count_, step_cost(), [&](std::int64_t i) {
                    Part part = whole(i / panel_count_);
                    part.first_panel = i % panel_count_;
                    part.last_panel = part.first_panel + 1;
                    function(part);
                });
            };
            for (std::int64_t s = 0; s < count; ++s) {
                for (std::int64_t d = 0; d < sizes_.directions; ++d) {
                    pack_rows(whole(d), first + s);
                }
                share([&](const Part& part) { run_first(part, first, s, count); });
                if (resets_before()) {
                    for (std::int64_t d = 0; d < sizes_.directions; ++d) {
                        pack_reset_rows(whole(d));
                    }
                    share([&](const Part& part) { run_second(part, first, s, count); });
                }
                context_.throw_if_cancelled();
            }
        }

        Part part_of(std::int64_t direction, std::int64_t first_row, std::int64_t last_row) const {
            return {direction, first_row, last_row, 0, panel_count_, Division::even(last_row - first_row, step_.kernels_.rows)};
        }
        void pack_rows(const Part& part, std::int64_t step) const {
            pack(part, memory_.hidden(part.direction, step, part.first_row));
        }
        void pack_reset_rows(const Part& part) const { pack(part, memory_.other(part.direction, part.first_row)); }
        void pack(const Part& part, const float* rows) const {
            if (sizes_.batch == 1) {  // a row is its panel
                std::copy_n(rows, sizes_.hidden, memory_.panels(part.direction, 0));
                return;
            }
            const Division& division = part.rows;
            const MatrixPanels from(reinterpret_cast<const std::byte*>(rows), DataType::float32, {},
                                    sizes_.line * std::int64_t{sizeof(float)}, sizeof(float));
            for (std::int64_t p = 0; p < division.count(); ++p) {
                from.pack({Sizes{}, division.first(p), division.in(p), 0, sizes_.hidden, division.in(p)},
                          memory_.panels(part.direction, part.first_row + division.first(p)), step_.kernels_);
            }
        }

        // The products of the packed rows and some gates of R, added to `sums` or stored there; steps in floats.
        void multiply(const Part& part, std::int64_t first_gate, std::int64_t last_gate, float* sums, std::int64_t gate_step,
                      std::int64_t row_step, bool adds) const {
            const Recurrence& recurrence = (recurrences_.empty() ? step_.recurrences_ : recurrences_)[static_cast<std::size_t>(part.direction)];
            const std::int64_t height = part.rows.width, width = step_.columns_.width, count = part.rows.count();
            const float* const rows = memory_.panels(part.direction, part.first_row);
            for (std::int64_t g = first_gate; g < last_gate; ++g) {
                for (std::int64_t p = part.first_panel; p < part.last_panel; ++p) {
                    const float* const panel = recurrence.first[static_cast<std::size_t>(g * panel_count_ + p)];
                    float* const to = sums + (g - first_gate) * gate_step + p * width;
                    for (std::int64_t r = 0; r < count; ++r) {
                        step_.kernel(part.rows.in(r), p)({rows + r * height * sizes_.hidden, panel, width, sizes_.hidden,
                                                          to + r * height * row_step, row_step, adds});
                    }
                }
            }
        }

        // The steps of rows that have not ended: `s` counts in the chunk.
        void run_first(const Part& part, std::int64_t first, std::int64_t s, std::int64_t count) const {
            const std::int64_t d = part.direction, time = is_backward(d) ? sizes_.steps - 1 - first - s : first + s;
            if (lasts_any(part, time)) {
                const std::int64_t added = is_gru() ? 2 : sizes_.gates, row = sizes_.gates * sizes_.line;
                multiply(part, 0, added, sums_of(part, s, count), sizes_.line, row, true);
                if (is_gru() && !resets_before()) {
                    multiply(part, 2, 3, memory_.other(d, part.first_row), 0, sizes_.line, false);
                }
            }
            for (std::int64_t r = part.first_row; r < part.last_row; ++r) {
                if (lasts(r, time)) {
                    const GateRow row = row_of(part, r, first + s, s, count);
                    const Gates& gates = step_.gates_[static_cast<std::size_t>(d)];
                    const Units units = units_of(part);
                    switch (sizes_.gates) {
                        case lstm: gates.lstm(row, units, step_.parameters_.couples_input_forget); break;
                        case gru:
                            if (resets_before()) {
                                gates.gru_reset(row, units);
                                continue;
                            }
                            gates.gru_reset_after(row, units);
                            break;
                        default: gates.rnn(row, units);
                    }
                } else if (resets_before()) {
                    continue;
                }
                finish(part, r, first + s, time);
            }
        }

        // What is left of a GRU that resets before its product.
        void run_second(const Part& part, std::int64_t first, std::int64_t s, std::int64_t count) const {
            const std::int64_t d = part.direction, time = is_backward(d) ? sizes_.steps - 1 - first - s : first + s;
            if (lasts_any(part, time)) {
                multiply(part, 2, 3, sums_of(part, s, count) + 2 * sizes_.line, 0, sizes_.gates * sizes_.line, true);
            }
            for (std::int64_t r = part.first_row; r < part.last_row; ++r) {
                if (lasts(r, time)) {
                    step_.gates_[static_cast<std::size_t>(d)].gru(row_of(part, r, first + s, s, count), units_of(part));
                }
                finish(part, r, first + s, time);
            }
        }

        bool lasts(std::int64_t row, std::int64_t time) const {
            if (!lengths_) {
                return true;
            }
            std::uint32_t length = 0;
            std::memcpy(&length, lengths_->at(0, 0, 0, row), sizeof(length));
            return time < static_cast<std::int64_t>(length);
        }
        bool lasts_any(const Part& part, std::int64_t time) const {
            std::int64_t row = part.first_row;
            while (row < part.last_row && !lasts(row, time)) {
                ++row;
            }
            return row < part.last_row;
        }

        // The sums of a part's first row; those of a chunk lie in the order of time.
        float* sums_of(const Part& part, std::int64_t s, std::int64_t count) const {
            const std::int64_t place = is_backward(part.direction) ? count - 1 - s : s;
            return memory_.sums(part.direction, place) + part.first_row * sizes_.gates * sizes_.line;
        }

        Units units_of(const Part& part) const {
            const std::int64_t first = step_.columns_.first(part.first_panel);
            const std::int64_t last = std::min(step_.columns_.first(part.last_panel), sizes_.hidden);
            return {first, last - first, last - first == sizes_.hidden};
        }

        GateRow row_of(const Part& part, std::int64_t r, std::int64_t step, std::int64_t s, std::int64_t count) const {
            const std::int64_t d = part.direction;
            GateRow row;
            row.sums = sums_of(part, s, count) + (r - part.first_row) * sizes_.gates * sizes_.line;
            row.line = sizes_.line;
            row.hidden = memory_.hidden(d, step, r);
            row.cell = memory_.cell(d, step, r);
            row.new_hidden = memory_.hidden(d, step + 1, r);
            row.new_cell = memory_.cell(d, step + 1, r);
            row.peephole = has_peephole_ ? memory_.peepholes(d) : nullptr;
            row.other = memory_.other(d, r);
            row.other_bias = step_.epilogue_.empty() ? nullptr : memory_.other_biases(d);
            return row;
        }

        // Keeps the state of a row that has ended, and writes the output.
        void finish(const Part& part, std::int64_t r, std::int64_t step, std::int64_t time) const {
            const std::int64_t d = part.direction;
            const Units units = units_of(part);
            const bool goes_on = lasts(r, time);
            float* const hidden = memory_.hidden(d, step + 1, r) + units.first;
            if (!goes_on) {
                std::copy_n(memory_.hidden(d, step, r) + units.first, units.count, hidden);
                if (is_lstm()) {
                    std::copy_n(memory_.cell(d, step, r) + units.first, units.count, memory_.cell(d, step + 1, r) + units.first);
                }
            }
            if (sequence_) {
                auto* const packed = reinterpret_cast<std::byte*>(memory_.other(d, r) + units.first);
                write(*sequence_, sequence_->at(time, d, r, units.first), goes_on ? hidden : nullptr, units.count, packed);
            }
        }

        const RecurrentStep& step_;
        const RecurrentSizes& sizes_;
        const std::int64_t panel_count_;
        RunContext& context_;
        mutable RunContext product_context_;
        RecurrentMemory memory_;
        std::vector<Recurrence> recurrences_;  // if they change from run to run
        std::optional<Lines> lengths_;
        std::optional<Lines> sequence_;
        bool has_peephole_ = false;
    };

    std::vector<View> inputs_;
    std::vector<View> outputs_;
    RecurrentParameters parameters_;
    const ProductKernels& kernels_;
    RecurrentSizes sizes_;
    Division columns_;          // of a gate of R
    std::vector<int> vectors_;  // of each of its panels
    std::vector<Gates> gates_;  // by direction
    Epilogue epilogue_;         // of W · X
    Kernel widen_ = nullptr;    // of float16
    Kernel narrow_ = nullptr;
    std::vector<Panels> weights_;      // by direction, if they stay the same
    std::vector<Recurrence> recurrences_;
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const RecurrentParameters& parameters) {
    return std::make_unique<RecurrentStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
