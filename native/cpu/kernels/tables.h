// How the families write their tables.
#pragma once

#include "cpu/kernels/half.h"
#include "cpu/kernels/loops.h"
#include "cpu/kernels/types.h"

// clang-format off
#define DMLGRAPH_SIGNED(X, ...) X(i8, __VA_ARGS__) X(i16, __VA_ARGS__) X(i32, __VA_ARGS__) X(i64, __VA_ARGS__)
#define DMLGRAPH_UNSIGNED(X, ...) X(u8, __VA_ARGS__) X(u16, __VA_ARGS__) X(u32, __VA_ARGS__) X(u64, __VA_ARGS__)
#define DMLGRAPH_INTEGERS(X, ...) DMLGRAPH_SIGNED(X, __VA_ARGS__) DMLGRAPH_UNSIGNED(X, __VA_ARGS__)
// clang-format on

// Lines for kernels whose result has the operands' type.
#define DMLGRAPH_UNARY(type, opcode, function) \
    {Opcode::opcode, data_type<type>, data_type<type>, unary<function, type, type>},
#define DMLGRAPH_BINARY(type, opcode, function) \
    {Opcode::opcode, data_type<type>, data_type<type>, binary<function, type, type>},
#define DMLGRAPH_SLOW_BINARY(type, opcode, function) \
    {Opcode::opcode, data_type<type>, data_type<type>, slow_binary<function, type, type>},

// On unsigned integers of the type's width, if the sign makes no difference.
#define DMLGRAPH_UNARY_WORD(type, opcode, function) \
    {Opcode::opcode, data_type<type>, data_type<type>, unary<function, Word<type>, Word<type>>},
#define DMLGRAPH_BINARY_WORD(type, opcode, function) \
    {Opcode::opcode, data_type<type>, data_type<type>, binary<function, Word<type>, Word<type>>},

// For float16, computed in float32 and rounded from it.
#define DMLGRAPH_UNARY_HALF(opcode, function) \
    {Opcode::opcode, DataType::float16, DataType::float16, in_half<unary<function, float, float>, 1, Half>},
#define DMLGRAPH_SLOW_BINARY_HALF(opcode, function) \
    {Opcode::opcode, DataType::float16, DataType::float16, in_half<slow_binary<function, float, float>, 2, Half>},

// For float32 and float16.
#define DMLGRAPH_UNARY_FLOATS(opcode, function) \
    DMLGRAPH_UNARY(float, opcode, function)     \
    DMLGRAPH_UNARY_HALF(opcode, function)
#define DMLGRAPH_BINARY_FLOATS(opcode, function) \
    DMLGRAPH_BINARY(float, opcode, function)     \
    {Opcode::opcode, DataType::float16, DataType::float16, in_half<binary<function, float, float>, 2, Half>},
#define DMLGRAPH_SLOW_BINARY_FLOATS(opcode, function) \
    DMLGRAPH_SLOW_BINARY(float, opcode, function)     \
    DMLGRAPH_SLOW_BINARY_HALF(opcode, function)
