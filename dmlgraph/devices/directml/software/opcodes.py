"""The operation codes of DXIL that the compiler knows, by DXIL's names."""

from __future__ import annotations

import enum


class Opcode(enum.IntEnum):
    """The first operand of a dx.op call."""

    TempRegLoad = 0
    TempRegStore = 1
    FAbs = 6
    Saturate = 7
    IsNaN = 8
    IsInf = 9
    IsFinite = 10
    IsNormal = 11
    Cos = 12
    Sin = 13
    Tan = 14
    Acos = 15
    Asin = 16
    Atan = 17
    Hcos = 18
    Hsin = 19
    Htan = 20
    Exp = 21
    Frc = 22
    Log = 23
    Sqrt = 24
    Rsqrt = 25
    Round_ne = 26
    Round_ni = 27
    Round_pi = 28
    Round_z = 29
    Bfrev = 30
    Countbits = 31
    FirstbitLo = 32
    FirstbitHi = 33
    FirstbitSHi = 34
    FMax = 35
    FMin = 36
    IMax = 37
    IMin = 38
    UMax = 39
    UMin = 40
    IMul = 41
    UMul = 42
    UDiv = 43
    UAddc = 44
    USubb = 45
    FMad = 46
    Fma = 47
    IMad = 48
    UMad = 49
    Ibfe = 51
    Ubfe = 52
    Bfi = 53
    Dot2 = 54
    Dot3 = 55
    Dot4 = 56
    CreateHandle = 57
    CBufferLoad = 58
    CBufferLoadLegacy = 59
    BufferLoad = 68
    BufferStore = 69
    CheckAccessFullyMapped = 71
    GetDimensions = 72
    AtomicBinOp = 78
    AtomicCompareExchange = 79
    Barrier = 80
    ThreadId = 93
    GroupId = 94
    ThreadIdInGroup = 95
    FlattenedThreadIdInGroup = 96
    MakeDouble = 101
    SplitDouble = 102
    BitcastI16toF16 = 124
    BitcastF16toI16 = 125
    BitcastI32toF32 = 126
    BitcastF32toI32 = 127
    BitcastI64toF64 = 128
    BitcastF64toI64 = 129
    LegacyF32ToF16 = 130
    LegacyF16ToF32 = 131
    LegacyDoubleToFloat = 132
    LegacyDoubleToSInt32 = 133
    LegacyDoubleToUInt32 = 134
    RawBufferLoad = 139
    RawBufferStore = 140
    Dot2AddHalf = 162
    Dot4AddI8Packed = 163
    Dot4AddU8Packed = 164
    AnnotateHandle = 216
    CreateHandleFromBinding = 217
