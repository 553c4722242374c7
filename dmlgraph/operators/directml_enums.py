"""The enumerations that appear as fields of operators; values are DirectML's.

Made by tools/generate.py: change the script, not this file.
"""

from dmlgraph.operators.declaration.enumeration import Enumeration


class ReduceFunction(Enumeration):
    """DML_REDUCE_FUNCTION"""

    ARGMAX = 0
    ARGMIN = 1
    AVERAGE = 2
    L1 = 3
    L2 = 4
    LOG_SUM = 5
    LOG_SUM_EXP = 6
    MAX = 7
    MIN = 8
    MULTIPLY = 9
    SUM = 10
    SUM_SQUARE = 11


class MatrixTransform(Enumeration):
    """DML_MATRIX_TRANSFORM"""

    NONE = 0
    TRANSPOSE = 1


class ConvolutionMode(Enumeration):
    """DML_CONVOLUTION_MODE"""

    CONVOLUTION = 0
    CROSS_CORRELATION = 1


class ConvolutionDirection(Enumeration):
    """DML_CONVOLUTION_DIRECTION"""

    FORWARD = 0
    BACKWARD = 1


class PaddingMode(Enumeration):
    """DML_PADDING_MODE"""

    CONSTANT = 0
    EDGE = 1
    REFLECTION = 2
    SYMMETRIC = 3
    WRAP = 4


class InterpolationMode(Enumeration):
    """DML_INTERPOLATION_MODE"""

    NEAREST_NEIGHBOR = 0
    LINEAR = 1


class RecurrentNetworkDirection(Enumeration):
    """DML_RECURRENT_NETWORK_DIRECTION"""

    FORWARD = 0
    BACKWARD = 1
    BIDIRECTIONAL = 2


class RoundingMode(Enumeration):
    """DML_ROUNDING_MODE"""

    HALVES_TO_NEAREST_EVEN = 0
    TOWARD_ZERO = 1
    TOWARD_INFINITY = 2


class IsInfinityMode(Enumeration):
    """DML_IS_INFINITY_MODE"""

    EITHER = 0
    POSITIVE = 1
    NEGATIVE = 2


class AxisDirection(Enumeration):
    """DML_AXIS_DIRECTION"""

    INCREASING = 0
    DECREASING = 1


class DepthSpaceOrder(Enumeration):
    """DML_DEPTH_SPACE_ORDER"""

    DEPTH_COLUMN_ROW = 0
    COLUMN_ROW_DEPTH = 1


class RandomGeneratorType(Enumeration):
    """DML_RANDOM_GENERATOR_TYPE"""

    PHILOX_4X32_10 = 0


class MultiheadAttentionMaskType(Enumeration):
    """DML_MULTIHEAD_ATTENTION_MASK_TYPE"""

    NONE = 0
    KEY_SEQUENCE_LENGTH = 1
    KEY_SEQUENCE_END_START = 2
    KEY_QUERY_SEQUENCE_LENGTH_START_END = 3
    BOOLEAN = 4


class QuantizationType(Enumeration):
    """DML_QUANTIZATION_TYPE"""

    NONE = 0
    SCALE = 1
    SCALE_ZERO_POINT = 2
