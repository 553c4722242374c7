// The native steps that are not regions: a new one is added to this list.
//
// A step has a struct of parameters and a function that makes the step from them; bind/init_cpu_steps.cpp binds the
// struct for dmlgraph/devices/cpu. The tensors of most are packed: other arrays of the caller are
// copied before. Those of others have any strides: `is_strided`.
#pragma once

#include <memory>
#include <type_traits>
#include <variant>

#include "cpu/runtime/step.h"
#include "cpu/steps/attention.h"
#include "cpu/steps/block_gemm.h"
#include "cpu/steps/convolution.h"
#include "cpu/steps/fold.h"
#include "cpu/steps/four_bits.h"
#include "cpu/steps/gemm.h"
#include "cpu/steps/indexed.h"
#include "cpu/steps/nonzero.h"
#include "cpu/steps/pooling.h"
#include "cpu/steps/pooling_gradient.h"
#include "cpu/steps/random.h"
#include "cpu/steps/recurrent.h"
#include "cpu/steps/region_alignment.h"
#include "cpu/steps/region_pooling.h"
#include "cpu/steps/resampling.h"
#include "cpu/steps/resampling_gradient.h"
#include "cpu/steps/reversal.h"
#include "cpu/steps/scan.h"
#include "cpu/steps/top.h"

namespace dmlgraph::cpu {

using StepParameters = std::variant<ScanParameters, GatherParameters, GatherElementsParameters, ScatterParameters,
                                    ScatterElementsParameters, GemmParameters, ConvolutionParameters, PoolingParameters,
                                    PoolingGradientParameters, ResamplingParameters, ResamplingGradientParameters,
                                    AttentionParameters, RecurrentParameters, TopParameters, FourBitsParameters,
                                    FoldParameters, NonzeroParameters, RandomParameters, RegionAlignmentParameters,
                                    RegionPoolingParameters, ReversalParameters, BlockGemmParameters>;

template <class Parameters, class... Steps>
inline constexpr bool is_one_of = (std::is_same_v<Parameters, Steps> || ...);

// Whether the step supports any strides.
template <class Parameters>
inline constexpr bool is_strided =
    is_one_of<Parameters, GemmParameters, ConvolutionParameters, PoolingParameters, ResamplingParameters,
              ResamplingGradientParameters, AttentionParameters, RecurrentParameters, TopParameters>;

// Whether the nodes that follow the step may join its epilogue.
template <class Parameters>
inline constexpr bool takes_followers =
    std::is_same_v<Parameters, GemmParameters> || std::is_same_v<Parameters, ConvolutionParameters>;

// Throws std::invalid_argument for tensors of types that the step does not support.
std::unique_ptr<Step> make_native_step(const StepTensors& tensors, const StepParameters& parameters);

}  // namespace dmlgraph::cpu
