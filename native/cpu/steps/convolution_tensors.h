// The tensors of a convolution, as its methods read and write them.
#pragma once

#include "cpu/products/convolution.h"
#include "cpu/products/epilogue.h"
#include "cpu/steps/convolution.h"
#include "cpu/steps/product_inputs.h"

namespace dmlgraph::cpu {

class ConvolutionTensors {
public:
    static constexpr std::size_t filters_port = 1;

    // Throws std::invalid_argument for tensors of other types and ranks.
    ConvolutionTensors(const StepTensors& tensors, const ConvolutionParameters& parameters);
    ConvolutionTensors(const ConvolutionTensors&) = delete;  // the convolution has the address of the epilogue
    ConvolutionTensors& operator=(const ConvolutionTensors&) = delete;

    // The input {N, C, …} as {N, groups, C / groups, …}.
    Tensor grouped(const RunContext& context) const;
    // What a phase writes, and what its epilogue reads.
    Target target(const RunContext& context, const Phase& phase) const;
    void visit(const Step::Visitor& visitor);

    ProductInputs inputs;
    View output;
    Epilogue epilogue;
    Convolution convolution;

private:
    MatrixTensor tensor(const RunContext& context, const View& view, const Phase& phase) const;
};

}  // namespace dmlgraph::cpu
