#include "software_adapter/descriptors.h"

#include <string>

#include "software_adapter/formats.h"
#include "software_adapter/resource.h"

namespace dmlgraph::software {
namespace {

// Raw views count 32-bit numbers.
constexpr uint32_t raw_element = 4;

// Why the view is not valid, or null.
const char* fault(const ViewElements& elements, const FormatInfo* format) {
    if (elements.raw) {
        if (elements.format != DXGI_FORMAT_R32_TYPELESS || elements.stride > 0) {
            return "a raw view needs format R32_TYPELESS and no stride";
        }
        const bool aligned = elements.first % (raw_view_alignment / raw_element) == 0;
        return aligned ? nullptr : "a raw view must start at a multiple of 16 bytes";
    }
    if (elements.stride > 0) {
        return elements.format == DXGI_FORMAT_UNKNOWN ? nullptr : "a structured view must not have a format";
    }
    return format ? nullptr : "the view needs a stride, or a format that is valid for buffers";
}

}  // namespace

void write_buffer_view(DeviceState& device, Resource* resource, const ViewElements& elements, SwView* target) {
    const auto* format = find_format(elements.format);
    if (const char* reason = fault(elements, format)) {
        device.remove(DXGI_ERROR_INVALID_CALL, std::string("creating a view: ") + reason);
        return;
    }
    const bool typed = !elements.raw && elements.stride == 0;
    const uint64_t element_bytes = elements.raw ? raw_element : typed ? format->bytes() : elements.stride;
    SwView view{};
    view.stride = elements.raw ? 1 : static_cast<uint32_t>(element_bytes);
    view.format = typed ? elements.format : DXGI_FORMAT_UNKNOWN;
    if (resource) {
        if (device.strict.custom_heaps && resource->heap_properties().Type == D3D12_HEAP_TYPE_CUSTOM) {
            device.remove(DXGI_ERROR_INVALID_CALL, "creating a view: of a buffer in a custom heap");
            return;
        }
        const uint64_t elements_inside = resource->size() / element_bytes;
        if (elements.first > elements_inside || elements.count > elements_inside - elements.first) {
            device.remove(DXGI_ERROR_INVALID_CALL,
                          "creating a view: elements " + std::to_string(elements.first) + " to " +
                              std::to_string(elements.first + elements.count) + " of " + std::to_string(element_bytes) +
                              " bytes are not all in a buffer of " + std::to_string(resource->size()) + " bytes");
            return;
        }
        view.data = resource->data() + elements.first * element_bytes;
        view.size = elements.count * element_bytes;
        view.resource = resource->live()->number();
    }
    *target = view;
}

void write_constant_view(DeviceState& device, const D3D12_CONSTANT_BUFFER_VIEW_DESC* desc, SwView* target) {
    SwView view{};
    view.stride = 1;
    if (desc && desc->BufferLocation != 0) {
        const bool aligned =
            desc->BufferLocation % constant_buffer_alignment == 0 && desc->SizeInBytes % constant_buffer_alignment == 0;
        if (!aligned || desc->SizeInBytes > device.bytes_from(desc->BufferLocation)) {
            device.remove(DXGI_ERROR_INVALID_CALL,
                          "creating a constant buffer view of " + std::to_string(desc->SizeInBytes) +
                              " bytes: the size is not a multiple of 256, or the view is not all in one buffer");
            return;
        }
        view.data = reinterpret_cast<char*>(desc->BufferLocation);
        view.size = desc->SizeInBytes;
        const LiveRef buffer = device.validation ? device.validation->find_at(desc->BufferLocation) : nullptr;
        view.resource = buffer ? buffer->number() : 0;
    }
    *target = view;
}

}  // namespace dmlgraph::software
