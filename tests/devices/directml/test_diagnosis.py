"""What debuggers, profilers and messages get to see: names, events, and where a removed device stopped."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from devices.directml.test_strictness import run

import dmlgraph as dg
from dmlgraph.compiler.lowering import lower
from dmlgraph.devices.directml.device import DirectMLDevice

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the adapter that lists its objects is that of Linux")

# Types that only this package makes; DirectML makes root signatures and pipelines of its own.
OURS = {
    "ID3D12Heap",
    "ID3D12Resource",
    "ID3D12CommandQueue",
    "ID3D12CommandAllocator",
    "ID3D12GraphicsCommandList",
    "ID3D12DescriptorHeap",
    "ID3D12Fence",
    "ID3D12Device",
}

LATE_LAYER = """
try:
    doubled().compile(device="directml:software", debug=True)
except dg.DeviceError as error:
    print(type(error).__name__)  # this DirectML has no layer, but that of Direct3D 12 is on
"""


@pytest.mark.parametrize("share_memory", [True, False])
def test_every_object_has_a_name(directml_path: Path, share_memory: bool) -> None:
    from dmlgraph.devices.directml.software import adapter

    device = DirectMLDevice("software", library=directml_path, share_memory=share_memory)
    graph = dg.Graph("größe 😀")
    x = graph.input("x", sizes=[1, 1, 4, 700], dtype="float32")
    w = graph.input("w", sizes=[1, 1, 700, 6], dtype="float32", owned=True)
    graph.output("y", dg.gemm(x, w))
    before = set(adapter.load().live_objects())
    with device.compile(lower(graph, device.level), reason="asked for") as executable:
        executable.run({"x": np.ones((1, 1, 4, 700), np.float32), "w": np.ones((1, 1, 700, 6), np.float32)})
        objects = adapter.load().live_objects()
    assert [(kind, name) for kind, name in objects if kind in OURS and not name.startswith("dmlgraph: ")] == []
    made = set(objects) - before
    assert {
        ("ID3D12GraphicsCommandList", "dmlgraph: größe 😀: run"),
        ("ID3D12CommandAllocator", "dmlgraph: größe 😀: run"),
        ("ID3D12DescriptorHeap", "dmlgraph: größe 😀: run"),
        ("ID3D12Resource", "dmlgraph: größe 😀: the persistent buffer"),
    } <= made
    assert ("ID3D12CommandQueue", "dmlgraph: queue") in objects


@pytest.mark.parametrize("call", [1, 2])
def test_a_removed_device_tells_where_it_stopped(directml_path: Path, call: int) -> None:
    """With the debug layer the system notes progress, in which the events around a graph's commands appear too."""
    script = (
        LATE_LAYER
        + """
for turn in range(3):
    executable = doubled().compile(device="directml:software")
    executable.run({"x": X})
"""
    )
    strict = f"late_debug,no_sharing,remove_at={call}"
    layer, message, reason, *progress = run(script, strict, directml_path).splitlines()
    assert layer == "DebugLayerError"
    assert message.startswith("DeviceRemovedError")
    assert reason == "device removed (0x887a0006): remove_at asks for it"
    what = {1: "initialisation", 2: "run"}[call]
    assert len(progress) == 1
    assert progress[0].startswith(f"the command list 'dmlgraph: doubled: {what}' has done 0 of ")
    assert progress[0].endswith("operations; the next one is BEGINEVENT")


def test_without_the_debug_layer_nothing_is_noted(directml_path: Path) -> None:
    script = 'doubled().compile(device="directml:software")'
    printed = run(script, "no_sharing,remove_at=1", directml_path).splitlines()
    assert printed[1:] == ["device removed (0x887a0006): remove_at asks for it"]


@pytest.mark.parametrize(("variable", "validations"), [("1", 0), ("gpu", 1)])
def test_the_check_of_what_shaders_do(directml_path: Path, variable: str, validations: int) -> None:
    script = """
try:
    doubled().compile(device="directml:software")
except dg.DeviceError as error:
    print(type(error).__name__)
from dmlgraph.devices.directml.software import adapter
print(adapter.load()._library.sw_counter(b"gpu_validation"))
"""
    printed = run(script, "late_debug", directml_path, DMLGRAPH_DEBUG=variable).splitlines()
    assert printed == ["DebugLayerError", str(validations)]
