// Dispatches that compute wrongly on request.
#include <bit>
#include <cmath>

#include "harness.h"

namespace {

void plant(const std::string& fault) {
    CHECK(!sw_plant_fault(fault.c_str()));
}

std::string refusal(const char* fault) {
    const char* const text = sw_plant_fault(fault);
    return text ? text : "";
}

// The kernel of each dispatch, or the shader.
std::vector<std::string> dispatched(const std::string& what = "kernel") {
    std::string text(sw_dispatched(nullptr, 0), '\0');
    sw_dispatched(text.data(), text.size());
    std::vector<std::string> lines;
    for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
        const auto word = text.find(what + "=", begin);
        lines.push_back(text.substr(word, text.find_first_of(" \n", word) - word));
    }
    return lines;
}

// Four numbers as `double_words` leaves them: it doubles the bits, so the numbers begin with half of them.
std::vector<float> doubled(Bench& bench, OneBuffer& one, const std::vector<float>& numbers) {
    std::vector<uint32_t> halves;
    for (const float number : numbers) {
        halves.push_back(std::bit_cast<uint32_t>(number) / 2);
    }
    const auto source = bench.upload(halves);
    bench.list->CopyResource(one.buffer.get(), source.get());
    one.dispatch(bench, 1);
    bench.execute();
    return bench.read<float>(one.buffer.get());
}

}  // namespace

ADAPTER_CHECK(wrong_numbers) {
    Bench bench;
    OneBuffer one(bench, "double_words", 4);
    const std::vector<float> right{1.0f, 2.0f, 0.0f, -4.0f};
    const auto computed = [&](const std::string& fault) {
        plant(fault);
        return doubled(bench, one, right);
    };
    CHECK(computed("") == right);
    CHECK((computed("dispatch=1,ulp,float32") ==
           std::vector{std::nextafter(1.0f, 2.0f), std::nextafter(2.0f, 3.0f), std::bit_cast<float>(1),
                       std::nextafter(-4.0f, -5.0f)}));
    CHECK((computed("dispatch=1,element,float32") == std::vector{1.0f, 3.0f, 0.0f, -4.0f}));
    CHECK((computed("dispatch=1,row=2,float32") == std::vector{1.0f, 3.0f, 1.0f, -4.0f}));
    CHECK(computed("dispatch=2,element,float32") == right);
    const auto nan = computed("dispatch=1,nan,float32");
    CHECK(std::isnan(nan[1]) && nan[0] == 1.0f && nan[3] == -4.0f);
    const auto first = computed("dispatch=1,random,float32"), second = doubled(bench, one, right);
    CHECK(first[1] != right[1] && first[1] != second[1] && first[0] == right[0]);
    CHECK(computed("") == right);
}

ADAPTER_CHECK(a_number_that_was_there_before_is_written_too) {
    Bench bench;
    OneBuffer one(bench, "double_words", 4);
    plant("dispatch=1,element,int32");
    CHECK((doubled(bench, one, {0.0f, 0.0f, 0.0f, 0.0f}) == std::vector{0.0f, std::bit_cast<float>(1), 0.0f, 0.0f}));
}

ADAPTER_CHECK(a_fault_follows_its_kernel) {
    Bench bench;
    OneBuffer counts(bench, "count_groups", 4), other(bench, "count_groups", 4);
    plant("log");
    counts.dispatch(bench, 4);
    counts.dispatch(bench, 3);
    other.dispatch(bench, 4);
    bench.execute();
    const auto ran = dispatched();
    CHECK_EQUAL(ran.size(), 3);
    CHECK(ran[0] == ran[2] && ran[0] != ran[1]);  // not the buffer, but the grid
    const auto shaders = dispatched("shader");
    CHECK(shaders == std::vector(3, shaders[0]));
    const auto counted = [&](const std::string& fault) {
        plant(fault);
        OneBuffer one(bench, "count_groups", 4);
        one.dispatch(bench, 3);
        one.dispatch(bench, 4);
        one.dispatch(bench, 4);
        bench.execute();
        return bench.read<uint32_t>(one.buffer.get());
    };
    CHECK((counted(ran[1] + ",element,int32") == std::vector<uint32_t>{3, 2, 3, 2}));
    CHECK((counted("dispatch=2," + ran[0] + ",row=4,int32") == std::vector<uint32_t>{2, 2, 2, 3}));
    CHECK((counted("dispatch=3," + shaders[0] + ",row=4,int32") == std::vector<uint32_t>{2, 2, 2, 3}));
    plant(shaders[0] + ",element,int32");
    OneBuffer doubles(bench, "double_words", 4);
    CHECK((doubled(bench, doubles, {1.0f, 2.0f, 0.0f, -4.0f}) == std::vector{1.0f, 2.0f, 0.0f, -4.0f}));
}

ADAPTER_CHECK(a_late_write_is_seen_after_the_next_dispatch) {
    Bench bench;
    OneBuffer one(bench, "count_groups", 4);
    plant("dispatch=1,late");
    one.dispatch(bench, 4);
    one.dispatch(bench, 4);  // it counts from 0, and is overwritten
    one.dispatch(bench, 4);
    bench.execute();
    CHECK((bench.read<uint32_t>(one.buffer.get()) == std::vector<uint32_t>(4, 2)));
    plant("dispatch=1,late");
    one.dispatch(bench, 4);
    bench.execute();
    CHECK((bench.read<uint32_t>(one.buffer.get()) == std::vector<uint32_t>(4, 3)));  // nothing came after it
}

ADAPTER_CHECK(a_fault_where_memory_is_used_again) {
    Bench bench;
    const auto counted = [&](const std::string& fault) {
        plant(fault);
        OneBuffer one(bench, "count_groups", 4), other(bench, "count_groups", 4);
        one.dispatch(bench, 3);
        other.dispatch(bench, 4);
        one.dispatch(bench, 4);
        bench.execute();
        return bench.read<uint32_t>(one.buffer.get());
    };
    const std::vector<uint32_t> right = {2, 2, 2, 1};
    CHECK(counted("dispatch=1,reused,row=4,int32") == right);
    CHECK(counted("dispatch=2,reused,row=4,int32") == right);
    CHECK((counted("dispatch=3,reused,row=4,int32") == std::vector<uint32_t>{3, 3, 3, 1}));  // the last is new
}

ADAPTER_CHECK(a_dispatch_that_removes_the_device) {
    Bench bench;
    OneBuffer one(bench, "count_groups", 4);
    plant("dispatch=1,remove");
    one.dispatch(bench, 4);
    CHECK_OK(bench.list->Close());
    bench.submit();
    CHECK_EQUAL(bench.device->GetDeviceRemovedReason(), DXGI_ERROR_DEVICE_HUNG);
}

ADAPTER_CHECK(what_is_not_a_fault) {
    CHECK(refusal("dispatch=1,melt").starts_with(
        "DMLGRAPH_SOFTWARE_FAULT has the unknown word 'melt'; words: kernel=HEX, shader=HEX, dispatch=N, reused, log, "
        "ulp=N, element"));
    CHECK(refusal("dispatch=1,element").find("'element' needs a data type, such as float32") != std::string::npos);
    CHECK(refusal("dispatch=1,nan,int8").find("'int8' has no NaN") != std::string::npos);
    CHECK(refusal("dispatch=1,late,remove").find("two faults: 'remove' is the second") != std::string::npos);
    CHECK(refusal("element,float32").find("does not say where") != std::string::npos);
    CHECK(refusal("dispatch=1").find("does not say what goes wrong") != std::string::npos);
    CHECK(refusal("dispatch=0,late").find("'dispatch=0' is wrong: needs a positive number") != std::string::npos);
    CHECK(refusal("kernel=xyz,late").find("needs the hexadecimal number of a kernel") != std::string::npos);
    CHECK(refusal("shader=xyz,late").find("needs the hexadecimal number of a shader") != std::string::npos);
    CHECK(refusal("kernel=1,shader=1,late").find("names both a kernel and a shader") != std::string::npos);
    CHECK(refusal("dispatch=1,reused,late").find("'reused' goes with a fault of elements") != std::string::npos);
    CHECK(refusal("").empty());
}

ADAPTER_CHECK(a_variable_that_is_not_a_fault) {
    setenv("DMLGRAPH_SOFTWARE_FAULT", "dispatch=1,melt", 1);
    CHECK(std::string(sw_fault_error()).find("'melt'") != std::string::npos);
    ComPtr<ID3D12Device> device;
    CHECK_EQUAL(D3D12CreateDevice(nullptr, D3D_FEATURE_LEVEL_11_0, ID3D12Device::iid, device.put()), E_INVALIDARG);
}
