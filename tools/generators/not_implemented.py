"""Writes native/software_adapter/not_implemented.h from the interfaces in native/abi/d3d12.h.

The software adapter implements a few methods of large interfaces. For every other method that header has a body
which answers "not implemented" and says so once on stderr.
"""

import re
import textwrap
from pathlib import Path

NATIVE = Path(__file__).parents[2] / "native"
HEADER = NATIVE / "abi" / "d3d12.h"
OUTPUT = NATIVE / "software_adapter" / "not_implemented.h"

INTERFACES = [
    "ID3D12Resource",
    "ID3D12PipelineState",
    "ID3D12GraphicsCommandList",
    "ID3D12CommandQueue",
    "ID3D12Device5",
]
# Their methods are implemented for every object.
COMMON = {"IUnknown", "ID3D12Object", "ID3D12DeviceChild"}

INTERFACE = re.compile(r"^struct (\w+) : (\w+) \{\n(.*?)^\};", re.M | re.S)
METHOD = re.compile(r"virtual ([\w:*& ]+?) (\w+)\(([^)]*)\) = 0;")
STRUCT_METHOD = re.compile(r"DMLGRAPH_STRUCT_(?:METHOD|GETTER)\((\w+),\s*(\w+)(?:,([^)]*))?\);?")

PROLOGUE = """\
// Written by tools/generate.py from abi/d3d12.h: do not edit.
#pragma once

#include "abi/d3d12.h"
#include "software_adapter/not_implemented_call.h"

namespace dmlgraph::software {

using namespace abi;

// An interface whose methods all answer "not implemented" until a class derived from it overrides them.
// Interfaces that are not listed below are implemented in full.
template <class Interface>
class NotImplemented : public Interface {};
"""
EPILOGUE = "\n}  // namespace dmlgraph::software\n"


def parameter_types(parameters: str | None) -> str:
    """The types of a parameter list, without the names."""
    return ", ".join(re.sub(r"\s*\w+$", "", part.strip()) for part in (parameters or "").split(",") if part.strip())


def methods(body: str) -> list[tuple[str, str, str]]:
    """(result, name, parameter types) of an interface's methods, in order."""
    found = [(m.start(), m.groups()) for p in (METHOD, STRUCT_METHOD) for m in p.finditer(body)]
    return [(result, name, parameter_types(parameters)) for _, (result, name, parameters) in sorted(found)]


def definition(interface: str, result: str, name: str, types: str) -> str:
    answer = {"void": "", "HRESULT": " return E_NOTIMPL;"}.get(result, " return {};")
    text = f'{result} {name}({types}) override {{ not_implemented<"{interface}::{name}">();{answer} }}'
    return textwrap.fill(
        text,
        110,
        initial_indent="    ",
        subsequent_indent=" " * 8,
        break_long_words=False,
        break_on_hyphens=False,
    )


def generate() -> str:
    interfaces = {name: (parent, body) for name, parent, body in INTERFACE.findall(HEADER.read_text(encoding="utf-8"))}
    text = PROLOGUE
    for interface in INTERFACES:
        chain = []
        name = interface
        while name not in COMMON:
            parent, body = interfaces[name]
            chain.append((name, body))
            name = parent
        text += f"\ntemplate <>\nclass NotImplemented<{interface}> : public {interface} {{\npublic:\n"
        for declared_in, body in reversed(chain):
            for method in methods(body):
                text += definition(declared_in, *method) + "\n"
        text += "};\n"
    return text + EPILOGUE


def files() -> dict[Path, str]:
    return {OUTPUT: generate()}
