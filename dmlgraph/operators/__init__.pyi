"""DirectML's operators: one class each, one module a family.

Made by tools/generate.py from the operators' classes: change those, not this file.
"""

from dmlgraph.operators.declaration.fields import ScaleBias as ScaleBias
from dmlgraph.operators.declaration.operator import Operator as Operator
from dmlgraph.operators.declaration.outputs import OutputSpec as OutputSpec
from dmlgraph.operators.catalog.registry import REGISTRY as REGISTRY, find as find
from dmlgraph.operators.activation import (
    ActivationElu as ActivationElu, ActivationHardSigmoid as ActivationHardSigmoid, ActivationIdentity as
    ActivationIdentity, ActivationLeakyRelu as ActivationLeakyRelu, ActivationLinear as ActivationLinear,
    ActivationParameterizedRelu as ActivationParameterizedRelu, ActivationParametricSoftplus as
    ActivationParametricSoftplus, ActivationRelu as ActivationRelu, ActivationScaledElu as ActivationScaledElu,
    ActivationScaledTanh as ActivationScaledTanh, ActivationSigmoid as ActivationSigmoid, ActivationSoftplus as
    ActivationSoftplus, ActivationSoftsign as ActivationSoftsign, ActivationTanh as ActivationTanh,
    ActivationThresholdedRelu as ActivationThresholdedRelu, ActivationShrink as ActivationShrink, ActivationCelu as
    ActivationCelu, ActivationGelu as ActivationGelu, ActivationSwish as ActivationSwish, ActivationHardSwish as
    ActivationHardSwish
)
from dmlgraph.operators.attention import (
    MultiheadAttention as MultiheadAttention, MultiheadAttention1 as MultiheadAttention1
)
from dmlgraph.operators.bitwise import (
    BitShiftLeft as BitShiftLeft, BitShiftRight as BitShiftRight, BitAnd as BitAnd, BitOr as BitOr, BitXor as
    BitXor, BitNot as BitNot, BitCount as BitCount
)
from dmlgraph.operators.convolution import (
    Convolution as Convolution, ConvolutionInteger as ConvolutionInteger, QuantizedLinearConvolution as
    QuantizedLinearConvolution
)
from dmlgraph.operators.diagonal import (
    DiagonalMatrix as DiagonalMatrix, DiagonalMatrix1 as DiagonalMatrix1
)
from dmlgraph.operators.element_wise import (
    Identity as Identity, Abs as Abs, Add as Add, Ceil as Ceil, Clip as Clip, Divide as Divide, Exp as Exp, Floor as
    Floor, Log as Log, Max as Max, Mean as Mean, Min as Min, Multiply as Multiply, Pow as Pow, ConstantPow as
    ConstantPow, Recip as Recip, Sqrt as Sqrt, Subtract as Subtract, Threshold as Threshold, Cast as Cast, Sign as
    Sign, Erf as Erf, If as If, Add1 as Add1, Round as Round, ModulusTruncate as ModulusTruncate, ModulusFloor as
    ModulusFloor, DifferenceSquare as DifferenceSquare, Clip1 as Clip1, Negate as Negate
)
from dmlgraph.operators.fill import (
    FillValueConstant as FillValueConstant, FillValueSequence as FillValueSequence
)
from dmlgraph.operators.gradient import (
    ActivationReluGrad as ActivationReluGrad, ClipGrad as ClipGrad, ClipGrad1 as ClipGrad1
)
from dmlgraph.operators.image import (
    ValueScale2d as ValueScale2d, SpaceToDepth as SpaceToDepth, DepthToSpace as DepthToSpace, DepthToSpace1 as
    DepthToSpace1, SpaceToDepth1 as SpaceToDepth1
)
from dmlgraph.operators.indexing import (
    Gather as Gather, ScatterElements as ScatterElements, OneHot as OneHot, GatherElements as GatherElements,
    GatherNd as GatherNd, ScatterNd as ScatterNd, NonzeroCoordinates as NonzeroCoordinates, GatherNd1 as GatherNd1
)
from dmlgraph.operators.logical import (
    LogicalAnd as LogicalAnd, LogicalEquals as LogicalEquals, LogicalGreaterThan as LogicalGreaterThan,
    LogicalLessThan as LogicalLessThan, LogicalNot as LogicalNot, LogicalOr as LogicalOr, LogicalXor as LogicalXor,
    IsNan as IsNan, IsInfinity as IsInfinity, LogicalGreaterThanOrEqual as LogicalGreaterThanOrEqual,
    LogicalLessThanOrEqual as LogicalLessThanOrEqual
)
from dmlgraph.operators.matrix import (
    Gemm as Gemm
)
from dmlgraph.operators.matrix_integer import (
    MatrixMultiplyInteger as MatrixMultiplyInteger, QuantizedLinearMatrixMultiply as QuantizedLinearMatrixMultiply,
    MatrixMultiplyIntegerToFloat as MatrixMultiplyIntegerToFloat
)
from dmlgraph.operators.normalization import (
    BatchNormalization as BatchNormalization, MeanVarianceNormalization as MeanVarianceNormalization,
    LocalResponseNormalization as LocalResponseNormalization, LpNormalization as LpNormalization,
    MeanVarianceNormalization1 as MeanVarianceNormalization1, BatchNormalizationTraining as
    BatchNormalizationTraining, MeanVarianceNormalization2 as MeanVarianceNormalization2
)
from dmlgraph.operators.normalization_grad import (
    LocalResponseNormalizationGrad as LocalResponseNormalizationGrad, BatchNormalizationGrad as
    BatchNormalizationGrad, BatchNormalizationTrainingGrad as BatchNormalizationTrainingGrad
)
from dmlgraph.operators.optimizer import (
    AdamOptimizer as AdamOptimizer
)
from dmlgraph.operators.padding import (
    Padding as Padding, Padding1 as Padding1
)
from dmlgraph.operators.patches import (
    Fold as Fold, Unfold as Unfold
)
from dmlgraph.operators.pooling import (
    AveragePooling as AveragePooling, LpPooling as LpPooling, MaxPooling as MaxPooling, MaxPooling1 as MaxPooling1,
    MaxUnpooling as MaxUnpooling, MaxPooling2 as MaxPooling2, AveragePoolingGrad as AveragePoolingGrad,
    MaxPoolingGrad as MaxPoolingGrad, LpPooling1 as LpPooling1, AveragePooling1 as AveragePooling1,
    QuantizedLinearAveragePooling as QuantizedLinearAveragePooling
)
from dmlgraph.operators.quantization import (
    QuantizeLinear as QuantizeLinear, DequantizeLinear as DequantizeLinear, QuantizedLinearAdd as
    QuantizedLinearAdd, DynamicQuantizeLinear as DynamicQuantizeLinear, Quantize as Quantize, Dequantize as
    Dequantize
)
from dmlgraph.operators.random import (
    RandomGenerator as RandomGenerator
)
from dmlgraph.operators.recurrent import (
    Rnn as Rnn, Lstm as Lstm, Gru as Gru
)
from dmlgraph.operators.reduction import (
    Reduce as Reduce
)
from dmlgraph.operators.resampling import (
    Upsample2d as Upsample2d, Resample as Resample, Resample1 as Resample1, ResampleGrad as ResampleGrad, Resample2
    as Resample2, ResampleGrad1 as ResampleGrad1, Resample3 as Resample3
)
from dmlgraph.operators.roi import (
    RoiPooling as RoiPooling, RoiAlign as RoiAlign, RoiAlign1 as RoiAlign1
)
from dmlgraph.operators.roi_grad import (
    RoiAlignGrad as RoiAlignGrad
)
from dmlgraph.operators.scan import (
    CumulativeSummation as CumulativeSummation, CumulativeProduct as CumulativeProduct
)
from dmlgraph.operators.selection import (
    TopK as TopK, TopK1 as TopK1, Argmin as Argmin, Argmax as Argmax
)
from dmlgraph.operators.shape import (
    Split as Split, Join as Join, Tile as Tile, ReverseSubsequences as ReverseSubsequences
)
from dmlgraph.operators.slicing import (
    Slice as Slice, Slice1 as Slice1, SliceGrad as SliceGrad
)
from dmlgraph.operators.softmax import (
    ActivationHardmax as ActivationHardmax, ActivationLogSoftmax as ActivationLogSoftmax, ActivationSoftmax as
    ActivationSoftmax, ActivationSoftmax1 as ActivationSoftmax1, ActivationLogSoftmax1 as ActivationLogSoftmax1,
    ActivationHardmax1 as ActivationHardmax1
)
from dmlgraph.operators.trigonometric import (
    Acos as Acos, Asin as Asin, Atan as Atan, Cos as Cos, Sin as Sin, Tan as Tan, Sinh as Sinh, Cosh as Cosh, Tanh
    as Tanh, Asinh as Asinh, Acosh as Acosh, Atanh as Atanh, AtanYx as AtanYx
)
from dmlgraph.operators.view import (
    BroadcastTo as BroadcastTo, ExpandDims as ExpandDims, Flatten as Flatten, Reshape as Reshape, Squeeze as
    Squeeze, StopGradient as StopGradient, Subscript as Subscript, Transpose as Transpose
)
