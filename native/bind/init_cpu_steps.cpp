// The parameters of native steps: dmlgraph._native.cpu_steps.
#include <pybind11/stl.h>

#include <string>

#include "bind/cpu_steps.h"
#include "bind/init.h"

namespace dmlgraph::cpu {
namespace {

namespace py = pybind11;

template <class Parameters, class Value>
struct Field {
    const char* name;
    Value Parameters::* member;
};

// None is no bool.
template <class Value>
py::arg argument(const char* name) {
    py::arg made(name);
    made.noconvert(std::is_same_v<Value, bool>);
    return made;
}

#define FIELD(parameters, name) Field{#name, &parameters::name}

// Binds a struct as a class that is constructed from its fields by name, and has them as properties. `name` is that of
// the step in profiles.
template <class Parameters, class... Values>
void bind(py::module_& module, const char* class_name, const char* name, Field<Parameters, Values>... fields) {
    using Step = BoundStepOf<Parameters>;
    py::class_<Step, BoundStep> made(module, class_name);
    made.attr("name") = name;
    made.def(py::init([fields...](Values... values) {
                 Parameters parameters{};
                 ((parameters.*fields.member = std::move(values)), ...);
                 return Step(std::move(parameters));
             }),
             py::kw_only(), argument<Values>(fields.name)...);
    (made.def_property_readonly(
         fields.name,
         [member = fields.member](const Step& step) { return std::get<Parameters>(step.parameters).*member; }),
     ...);
    made.def("__repr__", [=](const py::object& self) {
        std::string text;
        ((text += (text.empty() ? "" : ", ") + std::string(fields.name) + "=" +
                  py::repr(self.attr(fields.name)).template cast<std::string>()),
         ...);
        return std::string(class_name) + "(" + text + ")";
    });
}

void bind_products(py::module_& steps) {
    bind<GemmParameters>(steps, "Gemm", "gemm", FIELD(GemmParameters, transposes_a),
                         FIELD(GemmParameters, transposes_b));
    bind<BlockGemmParameters>(steps, "BlockGemm", "block_gemm", FIELD(BlockGemmParameters, transposes_a),
                              FIELD(BlockGemmParameters, transposes_b), FIELD(BlockGemmParameters, has_four_bits),
                              FIELD(BlockGemmParameters, is_signed), FIELD(BlockGemmParameters, sizes),
                              FIELD(BlockGemmParameters, scale), FIELD(BlockGemmParameters, zero_point),
                              FIELD(BlockGemmParameters, has_integers));
    bind<ConvolutionParameters>(steps, "Convolution", "convolution", FIELD(ConvolutionParameters, groups),
                                FIELD(ConvolutionParameters, strides), FIELD(ConvolutionParameters, dilations),
                                FIELD(ConvolutionParameters, padding), FIELD(ConvolutionParameters, mirrored),
                                FIELD(ConvolutionParameters, backward));
    bind<AttentionParameters>(steps, "Attention", "attention", FIELD(AttentionParameters, query),
                              FIELD(AttentionParameters, key), FIELD(AttentionParameters, value),
                              FIELD(AttentionParameters, bias), FIELD(AttentionParameters, mask),
                              FIELD(AttentionParameters, positions), FIELD(AttentionParameters, past_key),
                              FIELD(AttentionParameters, past_value), FIELD(AttentionParameters, past_lengths),
                              FIELD(AttentionParameters, query_heads), FIELD(AttentionParameters, key_heads),
                              FIELD(AttentionParameters, mask_type), FIELD(AttentionParameters, factors));
    bind<RecurrentParameters>(steps, "Recurrent", "recurrent", FIELD(RecurrentParameters, gates),
                              FIELD(RecurrentParameters, backward), FIELD(RecurrentParameters, bound),
                              FIELD(RecurrentParameters, couples_input_forget),
                              FIELD(RecurrentParameters, resets_after_product));
}

void bind_windows(py::module_& steps) {
    bind<PoolingParameters>(steps, "Pooling", "pooling", FIELD(PoolingParameters, is_maximum),
                            FIELD(PoolingParameters, from_infinity), FIELD(PoolingParameters, power),
                            FIELD(PoolingParameters, taps), FIELD(PoolingParameters, strides),
                            FIELD(PoolingParameters, dilations), FIELD(PoolingParameters, padding));
    bind<PoolingGradientParameters>(
        steps, "PoolingGradient", "pooling_gradient", FIELD(PoolingGradientParameters, is_maximum),
        FIELD(PoolingGradientParameters, taps), FIELD(PoolingGradientParameters, strides),
        FIELD(PoolingGradientParameters, dilations), FIELD(PoolingGradientParameters, padding));
    bind<FoldParameters>(steps, "Fold", "fold", FIELD(FoldParameters, planes), FIELD(FoldParameters, sizes),
                         FIELD(FoldParameters, blocks), FIELD(FoldParameters, window), FIELD(FoldParameters, strides),
                         FIELD(FoldParameters, dilations), FIELD(FoldParameters, padding));
    bind<ResamplingParameters>(steps, "Resampling", "resampling", FIELD(ResamplingParameters, axes),
                               FIELD(ResamplingParameters, taps), FIELD(ResamplingParameters, indices),
                               FIELD(ResamplingParameters, weights));
    bind<ResamplingGradientParameters>(
        steps, "ResamplingGradient", "resampling_gradient", FIELD(ResamplingGradientParameters, axes),
        FIELD(ResamplingGradientParameters, counts), FIELD(ResamplingGradientParameters, indices),
        FIELD(ResamplingGradientParameters, weights));
    bind<RegionAlignmentParameters>(
        steps, "RegionAlignment", "region_alignment", FIELD(RegionAlignmentParameters, is_maximum),
        FIELD(RegionAlignmentParameters, is_nearest), FIELD(RegionAlignmentParameters, aligns_to_corners),
        FIELD(RegionAlignmentParameters, least_samples), FIELD(RegionAlignmentParameters, most_samples),
        FIELD(RegionAlignmentParameters, scales), FIELD(RegionAlignmentParameters, offsets),
        FIELD(RegionAlignmentParameters, bounds));
    bind<RegionPoolingParameters>(steps, "RegionPooling", "region_pooling", FIELD(RegionPoolingParameters, scale),
                                  FIELD(RegionPoolingParameters, least));
}

void bind_indexing(py::module_& steps) {
    bind<GatherParameters>(steps, "Gather", "gather", FIELD(GatherParameters, batches), FIELD(GatherParameters, tuples),
                           FIELD(GatherParameters, slice), FIELD(GatherParameters, is_shared),
                           FIELD(GatherParameters, sizes));
    bind<GatherElementsParameters>(steps, "GatherElements", "gather_elements", FIELD(GatherElementsParameters, outer),
                                   FIELD(GatherElementsParameters, inner), FIELD(GatherElementsParameters, size),
                                   FIELD(GatherElementsParameters, taken));
    bind<ScatterParameters>(steps, "Scatter", "scatter", FIELD(ScatterParameters, tuples),
                            FIELD(ScatterParameters, slice), FIELD(ScatterParameters, sizes));
    bind<ScatterElementsParameters>(steps, "ScatterElements", "scatter_elements",
                                    FIELD(ScatterElementsParameters, outer), FIELD(ScatterElementsParameters, inner),
                                    FIELD(ScatterElementsParameters, size), FIELD(ScatterElementsParameters, given));
    bind<TopParameters>(steps, "Top", "top", FIELD(TopParameters, axis), FIELD(TopParameters, count),
                        FIELD(TopParameters, descending));
    bind<NonzeroParameters>(steps, "Nonzero", "nonzero", FIELD(NonzeroParameters, members));
    bind<ReversalParameters>(steps, "Reversal", "reversal", FIELD(ReversalParameters, outer),
                             FIELD(ReversalParameters, size), FIELD(ReversalParameters, inner));
    bind<ScanParameters>(steps, "Scan", "scan", FIELD(ScanParameters, axis), FIELD(ScanParameters, from_end),
                         FIELD(ScanParameters, is_exclusive), FIELD(ScanParameters, is_product));
    bind<FourBitsParameters>(steps, "FourBits", "four_bits", FIELD(FourBitsParameters, spreads),
                             FIELD(FourBitsParameters, is_signed), FIELD(FourBitsParameters, count));
    bind<RandomParameters>(steps, "Random", "random", FIELD(RandomParameters, count),
                           FIELD(RandomParameters, is_state));
}

#undef FIELD

}  // namespace
}  // namespace dmlgraph::cpu

namespace dmlgraph {

void init_cpu_steps(pybind11::module_& module) {
    auto steps = module.def_submodule("cpu_steps", "The parameters of the CPU executor's native steps.");
    pybind11::class_<cpu::BoundStep>(steps, "Step", "The parameters of a native step; its class has the step's name.");
    cpu::bind_products(steps);
    cpu::bind_windows(steps);
    cpu::bind_indexing(steps);
}

}  // namespace dmlgraph
