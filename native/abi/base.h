// The base of COM and of all interfaces of Direct3D 12, DXCore and DirectML: HRESULT, GUID, IUnknown, ComPtr.
//
// One declaration serves two binary interfaces: Microsoft's for x64 (Windows) and System V's for x86-64 (the
// Linux builds of these libraries). Each has a single calling convention, so methods and functions do not state
// it. They differ in structs returned by methods (see below), and in wchar_t, which has 4 bytes on Linux; the
// libraries there use these 4 bytes.
//
// A file that includes both this header and <windows.h> must include <windows.h> first.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <utility>

static_assert(sizeof(void*) == 8, "the binary interface is declared for 64-bit systems only");

#ifdef DMLGRAPH_SOFTWARE_ADAPTER
#include "software_adapter/not_implemented.h"
#endif

namespace dmlgraph::abi {

using HRESULT = int32_t;  // negative: failure
using BOOL = int32_t;     // a C truth value of 4 bytes
using HANDLE = void*;     // Windows: a kernel handle; Linux: the descriptor of an eventfd, cast

constexpr bool failed(HRESULT result) { return result < 0; }
constexpr bool succeeded(HRESULT result) { return result >= 0; }
constexpr HRESULT hresult(uint32_t bits) { return static_cast<HRESULT>(bits); }

#ifndef S_OK  // macros of the system's headers
constexpr HRESULT S_OK = 0;
constexpr HRESULT S_FALSE = 1;
constexpr HRESULT E_NOTIMPL = hresult(0x80004001);
constexpr HRESULT E_NOINTERFACE = hresult(0x80004002);
constexpr HRESULT E_POINTER = hresult(0x80004003);
constexpr HRESULT E_ABORT = hresult(0x80004004);
constexpr HRESULT E_FAIL = hresult(0x80004005);
constexpr HRESULT E_UNEXPECTED = hresult(0x8000FFFF);
constexpr HRESULT E_ACCESSDENIED = hresult(0x80070005);
constexpr HRESULT E_OUTOFMEMORY = hresult(0x8007000E);
constexpr HRESULT E_INVALIDARG = hresult(0x80070057);
constexpr HRESULT DXGI_ERROR_INVALID_CALL = hresult(0x887A0001);
constexpr HRESULT DXGI_ERROR_NOT_FOUND = hresult(0x887A0002);
constexpr HRESULT DXGI_ERROR_MORE_DATA = hresult(0x887A0003);
constexpr HRESULT DXGI_ERROR_UNSUPPORTED = hresult(0x887A0004);
constexpr HRESULT DXGI_ERROR_DEVICE_REMOVED = hresult(0x887A0005);
constexpr HRESULT DXGI_ERROR_DEVICE_HUNG = hresult(0x887A0006);
constexpr HRESULT DXGI_ERROR_DEVICE_RESET = hresult(0x887A0007);
constexpr HRESULT DXGI_ERROR_DRIVER_INTERNAL_ERROR = hresult(0x887A0020);
#endif
#ifndef DXGI_ERROR_SDK_COMPONENT_MISSING
constexpr HRESULT DXGI_ERROR_SDK_COMPONENT_MISSING = hresult(0x887A002D);
#endif

struct GUID {
    uint32_t Data1;
    uint16_t Data2;
    uint16_t Data3;
    uint8_t Data4[8];

    bool operator==(const GUID&) const = default;
};
using IID = GUID;

// The value of `count` hexadecimal digits.
constexpr uint32_t hex(const char* text, int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; ++i) {
        const char c = text[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            throw "expected lower-case hexadecimal digits";
        }
        value = value * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return value;
}

// A GUID from its usual text, "00000000-0000-0000-c000-000000000046"; an invalid digit does not compile.
consteval GUID guid(const char (&text)[37]) {
    GUID result{};
    result.Data1 = hex(text, 8);
    result.Data2 = static_cast<uint16_t>(hex(text + 9, 4));
    result.Data3 = static_cast<uint16_t>(hex(text + 14, 4));
    for (int i = 0; i < 8; ++i) {
        const int at = 19 + 2 * i + (i >= 2 ? 1 : 0);
        result.Data4[i] = static_cast<uint8_t>(hex(text + at, 2));
    }
    return result;
}

struct LUID {
    uint32_t LowPart;
    int32_t HighPart;

    bool operator==(const LUID&) const = default;
};

// DMLGRAPH_STRUCT_METHOD(Result, Name, parameters...) declares a method that returns a struct.
// On Windows, such a method takes the address of its result right after `this`, whatever the struct's size.
// MSVC does that for methods by itself; GCC for Windows does not, so the address is an explicit parameter.
// DMLGRAPH_STRUCT_GETTER, for methods without parameters, adds an overload (without an entry in the vtable)
// so that calls look the same everywhere.
#ifdef _WIN32
#define DMLGRAPH_STRUCT_METHOD(Result, Name, ...) virtual Result* Name(Result* result, __VA_ARGS__) = 0
#define DMLGRAPH_STRUCT_GETTER(Result, Name)  \
    virtual Result* Name(Result* result) = 0; \
    Result Name() {                           \
        Result result{};                      \
        return *Name(&result);                \
    }
#else
#define DMLGRAPH_STRUCT_METHOD(Result, Name, ...) virtual Result Name(__VA_ARGS__) = 0
#define DMLGRAPH_STRUCT_GETTER(Result, Name) virtual Result Name() = 0;
#endif

// The body of methods that the software adapter does not implement. They are pure for all other code.
#ifdef DMLGRAPH_SOFTWARE_ADAPTER
#define DMLGRAPH_OPTIONAL_VOID                                                         \
    {                                                                                  \
        static std::atomic_flag called;                                                \
        software::note_not_implemented(__PRETTY_FUNCTION__, !called.test_and_set());   \
    }
#define DMLGRAPH_OPTIONAL                                                              \
    {                                                                                  \
        static std::atomic_flag called;                                                \
        software::note_not_implemented(__PRETTY_FUNCTION__, !called.test_and_set());   \
        return software::NotImplemented{};                                             \
    }
#else
#define DMLGRAPH_OPTIONAL_VOID = 0
#define DMLGRAPH_OPTIONAL = 0
#endif

// Interfaces do not have a virtual destructor: it would occupy entries in the vtable.
struct IUnknown {
    static constexpr IID iid = guid("00000000-0000-0000-c000-000000000046");
    virtual HRESULT QueryInterface(const IID& riid, void** object) = 0;
    virtual uint32_t AddRef() = 0;
    virtual uint32_t Release() = 0;
};

// Owns one reference to a COM object. Functions that return an object take `T::iid, pointer.put()`.
template <class T>
class ComPtr {
public:
    ComPtr() = default;
    ComPtr(decltype(nullptr)) {}
    explicit ComPtr(T* object) : object_(object) { add_ref(); }
    ComPtr(const ComPtr& other) : object_(other.object_) { add_ref(); }
    ComPtr(ComPtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    ComPtr& operator=(ComPtr other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~ComPtr() {
        if (object_) {
            object_->Release();
        }
    }

    // Takes ownership of a reference that the caller owns.
    static ComPtr attach(T* object) {
        ComPtr result;
        result.object_ = object;
        return result;
    }
    // Gives up ownership of the reference.
    T* detach() { return std::exchange(object_, nullptr); }

    T* get() const { return object_; }
    T* operator->() const { return object_; }
    T& operator*() const { return *object_; }
    explicit operator bool() const { return object_ != nullptr; }
    bool operator==(const ComPtr&) const = default;

    // The address where a function may write a new reference; the old reference is released.
    void** put() { return reinterpret_cast<void**>(put_typed()); }
    T** put_typed() {
        *this = nullptr;
        return &object_;
    }

    // The same object's interface U, or null.
    template <class U>
    ComPtr<U> as() const {
        ComPtr<U> result;
        if (object_) {
            object_->QueryInterface(U::iid, result.put());
        }
        return result;
    }

private:
    void add_ref() {
        if (object_) {
            object_->AddRef();
        }
    }

    T* object_ = nullptr;
};

}  // namespace dmlgraph::abi
