// What the graph is, for what records it: graph.cpp has the tables, recording.cpp reads them, and nothing else does.
#pragma once

#include "graph.h"

#if DML_TARGET_VERSION < @{target_version}
#error "this DirectML.h is too old: take the one of the NuGet package Microsoft.AI.DirectML 1.15"
#endif

namespace @{namespace} {

// An operator, or a constant: then `type` is DML_OPERATOR_INVALID, and `desc` its bytes.
struct Node {
    DML_OPERATOR_TYPE type;
    const void* desc;
    UINT64 bytes;
    const char* name;
};

// What an input of the graph is bound to.
enum class Source { Input, Weights, State, StateLength };

struct InputSlot {
    const char* name;
    Source source;
    UINT index;     // of the input, the weights or the state
    UINT64 offset;  // in the weights or in scratch
    UINT64 bytes;
    bool owned;  // bound at the initialisation
    bool read;   // by a node: else nothing is bound
};

// What an output of the graph is bound to.
enum class Target { Output, NextValue, Rows };

struct OutputSlot {
    const char* name;
    Target target;
    UINT index;     // of the output or the state
    UINT64 offset;  // in scratch
    UINT64 bytes;
};

// How the rows of a growing state lie: `blocks` times `capacity` rows of `rowBytes` bytes.
struct Growth {
    UINT64 blocks;
    UINT64 rowBytes;
    UINT64 rowsOffset;  // of the new rows in scratch
    bool changes;       // the graph has a next value, or rows to append
};

// A data type that the device must support, and the first node that has it.
struct TypeUse {
    DML_TENSOR_DATA_TYPE type;
    const char* node;
};

struct Description {
    UINT nodeCount, inputCount, outputCount, inputEdgeCount, outputEdgeCount, edgeCount, typeCount, stateCount;
    const Node* nodes;
    const InputSlot* inputs;
    const OutputSlot* outputs;
    const DML_INPUT_GRAPH_EDGE_DESC* inputEdges;
    const DML_OUTPUT_GRAPH_EDGE_DESC* outputEdges;
    const DML_INTERMEDIATE_GRAPH_EDGE_DESC* edges;
    const TypeUse* types;
    const Growth* growth;       // of each state
    const char* levelNode;      // the first node that needs RequiredLevel
    const wchar_t* wideName;
};

const Description& Describe() noexcept;

}  // namespace @{namespace}
