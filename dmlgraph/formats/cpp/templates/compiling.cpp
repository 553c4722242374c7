// Creates the graph on a device: checks, compiles, and asks for sizes. All that is particular to it is in its description.
#include "description.h"
#include "ids.h"

#include <memory>
#include <new>

namespace @{namespace} {
namespace {

template <class T>
void LetGo(T*& object) noexcept {
    if (object) {
        object->Release();
        object = nullptr;
    }
}

// An array of `count` zeros, at least one; null if memory is short.
template <class T>
std::unique_ptr<T[]> Zeros(UINT count) noexcept {
    return std::unique_ptr<T[]>(new (std::nothrow) T[count ? count : 1]());
}

// The operators of the graph while it is compiled.
struct Operators {
    explicit Operators(UINT number) noexcept : count(number), all(Zeros<IDMLOperator*>(number)) {}
    ~Operators() {
        for (UINT i = 0; all && i < count; ++i) {
            LetGo(all[i]);
        }
    }
    Operators(const Operators&) = delete;
    Operators& operator=(const Operators&) = delete;

    UINT count;
    std::unique_ptr<IDMLOperator*[]> all;
};

// Edges of one kind as pointers with their kind; null if memory is short.
template <class Edge>
std::unique_ptr<DML_GRAPH_EDGE_DESC[]> Edges(DML_GRAPH_EDGE_TYPE type, const Edge* edges, UINT count) noexcept {
    auto found = Zeros<DML_GRAPH_EDGE_DESC>(count);
    for (UINT i = 0; found && i < count; ++i) {
        found[i] = {type, &edges[i]};
    }
    return found;
}

}  // namespace

HRESULT Graph::Create(IDMLDevice* device, DML_EXECUTION_FLAGS flags, Barriers barriers) noexcept {
    Release();
    barriers_ = barriers;
    error_ = {};
    if (!device) {
        return Fail(E_POINTER, "Graph::Create");
    }
    void* found = nullptr;
    HRESULT code = device->QueryInterface(GraphDeviceId, &found);
    if (FAILED(code)) {  // DirectML before 1.2
        return Fail(DXGI_ERROR_UNSUPPORTED, "IDMLDevice::QueryInterface of IDMLDevice1", Describe().levelNode);
    }
    device_ = static_cast<IDMLDevice1*>(found);
    code = CheckSupport();
    if (SUCCEEDED(code)) {
        code = Compile(flags);
    }
    if (SUCCEEDED(code)) {
        code = Prepare();
    }
    if (FAILED(code)) {
        Release();
    }
    return code;
}

HRESULT Graph::CheckSupport() noexcept {
    const Description& description = Describe();
    const DML_FEATURE_LEVEL wanted[] = {RequiredLevel};
    const DML_FEATURE_QUERY_FEATURE_LEVELS query = {1, wanted};
    DML_FEATURE_DATA_FEATURE_LEVELS answer = {};
    HRESULT code =
        device_->CheckFeatureSupport(DML_FEATURE_FEATURE_LEVELS, sizeof query, &query, sizeof answer, &answer);
    if (FAILED(code) || answer.MaxSupportedFeatureLevel < RequiredLevel) {
        return Fail(DXGI_ERROR_UNSUPPORTED, "IDMLDevice::CheckFeatureSupport of the feature level", description.levelNode);
    }
    for (UINT i = 0; i < description.typeCount; ++i) {
        const DML_FEATURE_QUERY_TENSOR_DATA_TYPE_SUPPORT type = {description.types[i].type};
        DML_FEATURE_DATA_TENSOR_DATA_TYPE_SUPPORT support = {};
        code = device_->CheckFeatureSupport(DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT, sizeof type, &type, sizeof support,
                                            &support);
        if (FAILED(code) || !support.IsSupported) {
            return Fail(DXGI_ERROR_UNSUPPORTED, "IDMLDevice::CheckFeatureSupport of a data type",
                        description.types[i].node);
        }
    }
    return S_OK;
}

HRESULT Graph::Compile(DML_EXECUTION_FLAGS flags) noexcept {
    const Description& description = Describe();
    const UINT count = description.nodeCount;
    const Operators operators(count);
    const auto operatorNodes = Zeros<DML_OPERATOR_GRAPH_NODE_DESC>(count);
    const auto constantNodes = Zeros<DML_CONSTANT_DATA_GRAPH_NODE_DESC>(count);
    const auto nodes = Zeros<DML_GRAPH_NODE_DESC>(count);
    const auto inputEdges = Edges(DML_GRAPH_EDGE_TYPE_INPUT, description.inputEdges, description.inputEdgeCount);
    const auto outputEdges = Edges(DML_GRAPH_EDGE_TYPE_OUTPUT, description.outputEdges, description.outputEdgeCount);
    const auto edges = Edges(DML_GRAPH_EDGE_TYPE_INTERMEDIATE, description.edges, description.edgeCount);
    if (!operators.all || !operatorNodes || !constantNodes || !nodes || !inputEdges || !outputEdges || !edges) {
        return Fail(E_OUTOFMEMORY, "Graph::Create");
    }
    for (UINT i = 0; i < count; ++i) {
        const Node& node = description.nodes[i];
        if (node.type == DML_OPERATOR_INVALID) {
            constantNodes[i] = {node.desc, static_cast<SIZE_T>(node.bytes), node.name};
            nodes[i] = {DML_GRAPH_NODE_TYPE_CONSTANT, &constantNodes[i]};
            continue;
        }
        const DML_OPERATOR_DESC desc = {node.type, node.desc};
        void* made = nullptr;
        const HRESULT code = device_->CreateOperator(&desc, OperatorId, &made);
        if (FAILED(code)) {
            return Fail(code, "IDMLDevice::CreateOperator", node.name);
        }
        operators.all[i] = static_cast<IDMLOperator*>(made);
        operatorNodes[i] = {operators.all[i], node.name};
        nodes[i] = {DML_GRAPH_NODE_TYPE_OPERATOR, &operatorNodes[i]};
    }
    DML_GRAPH_DESC graph = {};
    graph.InputCount = description.inputCount;
    graph.OutputCount = description.outputCount;
    graph.NodeCount = count;
    graph.Nodes = nodes.get();
    graph.InputEdgeCount = description.inputEdgeCount;
    graph.InputEdges = inputEdges.get();
    graph.OutputEdgeCount = description.outputEdgeCount;
    graph.OutputEdges = outputEdges.get();
    graph.IntermediateEdgeCount = description.edgeCount;
    graph.IntermediateEdges = edges.get();
    void* compiled = nullptr;
    const HRESULT code = device_->CompileGraph(&graph, flags, CompiledId, &compiled);
    if (FAILED(code) || !compiled) {  // DirectML may report success where memory was short
        return Fail(FAILED(code) ? code : E_OUTOFMEMORY, "IDMLDevice1::CompileGraph");
    }
    compiled_ = static_cast<IDMLCompiledOperator*>(compiled);
    compiled_->SetName(description.wideName);
    return S_OK;
}

HRESULT Graph::Prepare() noexcept {
    const Description& description = Describe();
    void* made = nullptr;
    HRESULT code = device_->CreateCommandRecorder(RecorderId, &made);
    if (FAILED(code)) {
        return Fail(code, "IDMLDevice::CreateCommandRecorder");
    }
    recorder_ = static_cast<IDMLCommandRecorder*>(made);
    code = device_->CreateOperatorInitializer(1, &compiled_, InitializerId, &made);
    if (FAILED(code)) {
        return Fail(code, "IDMLDevice::CreateOperatorInitializer");
    }
    initializer_ = static_cast<IDMLOperatorInitializer*>(made);
    IDMLBindingTable** const tables[] = {&initializationTable_, &table_};
    for (IDMLBindingTable** table : tables) {
        code = device_->CreateBindingTable(nullptr, TableId, &made);  // empty: each record gives it its descriptors
        if (FAILED(code)) {
            return Fail(code, "IDMLDevice::CreateBindingTable");
        }
        *table = static_cast<IDMLBindingTable*>(made);
        (*table)->SetName(description.wideName);
    }
    initializer_->SetName(description.wideName);
    const UINT slots = description.inputCount > description.outputCount ? description.inputCount : description.outputCount;
    bindings_ = Zeros<DML_BUFFER_BINDING>(slots).release();
    descs_ = Zeros<DML_BINDING_DESC>(slots).release();
    if (!bindings_ || !descs_) {
        return Fail(E_OUTOFMEMORY, "Graph::Create");
    }
    const DML_BINDING_PROPERTIES first = initializer_->GetBindingProperties();
    const DML_BINDING_PROPERTIES run = compiled_->GetBindingProperties();
    descriptorCount_ = first.RequiredDescriptorCount > run.RequiredDescriptorCount ? first.RequiredDescriptorCount
                                                                                   : run.RequiredDescriptorCount;
    descriptorCount_ = descriptorCount_ ? descriptorCount_ : 1;
    persistentBytes_ = run.PersistentResourceSize;
    temporaryBytes_ = run.TemporaryResourceSize;
    initializationBytes_ = first.TemporaryResourceSize;
    return S_OK;
}

void Graph::Release() noexcept {
    LetGo(table_);
    LetGo(initializationTable_);
    LetGo(initializer_);
    LetGo(compiled_);
    LetGo(recorder_);
    LetGo(device_);
    delete[] bindings_;
    delete[] descs_;
    bindings_ = nullptr;
    descs_ = nullptr;
    descriptorCount_ = 0;
    persistentBytes_ = initializationBytes_ = temporaryBytes_ = initializedAt_ = 0;
    initialized_ = false;
}

HRESULT Graph::Fail(HRESULT code, const char* call, const char* node) noexcept {
    error_ = {code, call, node};
    return code;
}

bool Graph::ReleaseStaging(UINT64 completedValue) noexcept {
    if (!initialized_ || completedValue < initializedAt_) {
        return false;
    }
    LetGo(initializationTable_);
    LetGo(initializer_);
    return true;
}

}  // namespace @{namespace}
