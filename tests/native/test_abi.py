"""native/abi declares what the official headers declare: sizes, offsets, values, vtable positions, IIDs.

The official headers are those of Debian's `directx-headers-dev`, in /usr/include or in the folder that
DMLGRAPH_DIRECTX_INCLUDE names.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "native"
ENUMS = ROOT / "tests" / "reference" / "directml_enums.json"
INCLUDE = Path(os.environ.get("DMLGRAPH_DIRECTX_INCLUDE", "/usr/include"))
WARNINGS = ["-std=c++20", "-Wall", "-Wextra", "-Werror"]
# The one of Debian's two compilers for Windows that has std::mutex.
MINGW = "x86_64-w64-mingw32-g++-posix"

OFFICIAL = {
    "d3d12": ["directx/d3dcommon.h", "directx/d3d12.h", "directx/d3d12sdklayers.h"],
    "dxcore": ["directx/dxcore_interface.h", "directx/dxcore.h"],
    "directml": ["directx/d3d12.h", "directx/DirectML.h"],
}

COMPARE = ["-std=c++20", "-w", "-DDML_TARGET_VERSION_USE_LATEST", f"-I{NATIVE}"]

# Methods that the official header overloads with templates.
OVERLOADED = {
    "IDXCoreAdapter::GetProperty": ("HRESULT (::IDXCoreAdapter::*)(::DXCoreAdapterProperty, size_t, void*)"),
    "IDXCoreAdapter::QueryState": (
        "HRESULT (::IDXCoreAdapter::*)(::DXCoreAdapterState, size_t, const void*, size_t, void*)"
    ),
    "IDXCoreAdapter::SetState": (
        "HRESULT (::IDXCoreAdapter::*)(::DXCoreAdapterState, size_t, const void*, size_t, const void*)"
    ),
    "IDXCoreAdapter::GetFactory": "HRESULT (::IDXCoreAdapter::*)(REFIID, void**)",
    "IDXCoreAdapterList::GetAdapter": "HRESULT (::IDXCoreAdapterList::*)(uint32_t, REFIID, void**)",
    "IDXCoreAdapterList::GetFactory": "HRESULT (::IDXCoreAdapterList::*)(REFIID, void**)",
    "IDXCoreAdapterFactory::CreateAdapterList": (
        "HRESULT (::IDXCoreAdapterFactory::*)(uint32_t, const GUID*, REFIID, void**)"
    ),
    "IDXCoreAdapterFactory::GetAdapterByLuid": ("HRESULT (::IDXCoreAdapterFactory::*)(const LUID&, REFIID, void**)"),
}


@dataclass(frozen=True)
class Declarations:
    """The declarations of a header of native/abi: members by struct, enumerators by enum, methods by interface."""

    structs: dict[str, list[str]]
    enums: dict[str, list[str]]
    interfaces: dict[str, list[str]]


def declarations(header: str) -> Declarations:
    text = (NATIVE / "abi" / f"{header}.h").read_text(encoding="utf-8")
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"#define .*?[^\\]\n", "", text, flags=re.S)
    structs: dict[str, list[str]] = {}
    interfaces: dict[str, list[str]] = {}
    for name, base, body in re.findall(r"^struct (\w+)(?: : (\w+))? \{\n(.*?)^\};", text, flags=re.S | re.M):
        if base:
            method = r"virtual [\w\s:*&]*?(\w+)\(|DMLGRAPH_STRUCT_\w+\([\w\s]+,\s*(\w+)"
            interfaces[name] = [found[1] or found[2] for found in re.finditer(method, body)]
        else:
            structs[name] = re.findall(r"(\w+)(?:\[\w+\])?;", body)
    enums = {
        name: re.findall(r"^\s*(\w+)\s*=", body, flags=re.M)
        for name, body in re.findall(r"^enum (?:class )?(\w+) : uint32_t \{(.*?)\};", text, flags=re.S | re.M)
        if "\n" in body
    }
    return Declarations(structs, enums, interfaces)


def scope(header: str, enum: str) -> str:
    scoped = f"enum class {enum} " in (NATIVE / "abi" / f"{header}.h").read_text(encoding="utf-8")
    return f"{enum}::" if scoped else ""


def comparison(header: str, includes: Sequence[str] | None = None) -> str:
    """A program that does not compile if layouts or values differ, and prints methods whose positions differ."""
    declared = declarations(header)
    lines = [f"#include <{name}>" for name in includes or OFFICIAL[header]]
    lines += [
        f'#include "abi/{header}.h"',
        "#include <cstddef>",
        "#include <cstdio>",
        "#include <cstring>",
        "namespace abi = dmlgraph::abi;",
        "template <class A, class B> constexpr bool same(A a, B b) {",
        "    return static_cast<unsigned long long>(a) == static_cast<unsigned long long>(b);",
        "}",
        "#define SAME(ours, theirs, what) static_assert(same(ours, theirs), what)",
    ]
    for struct, members in declared.structs.items():
        lines.append(f'SAME(sizeof(abi::{struct}), sizeof(::{struct}), "size of {struct}");')
        for member in members:
            where = f"{struct}, {member}"
            lines.append(f'SAME(offsetof(abi::{where}), offsetof(::{where}), "offset of {where}");')
            ours, theirs = (f"sizeof({space}::{struct}::{member})" for space in ("abi", ""))
            lines.append(f'SAME({ours}, {theirs}, "size of {where}");')
    for enum, values in declared.enums.items():
        prefix = scope(header, enum)
        lines += [f'SAME(abi::{prefix}{value}, ::{prefix}{value}, "value of {value}");' for value in values]
    lines += [
        "#ifndef _WIN32",
        "// A method's pointer is 1 + its offset in the table.",
        "template <class Method> long place(Method method) {",
        "    long parts[2];",
        "    static_assert(sizeof method == sizeof parts);",
        "    std::memcpy(parts, &method, sizeof parts);",
        "    return (parts[0] - 1) / 8;",
        "}",
        "void compare_place(const char* what, long ours, long theirs) {",
        '    std::printf("%s %s %ld %ld\\n", ours == theirs ? "same" : "DIFFERENT", what, ours, theirs);',
        "}",
        "int main() {",
    ]
    for interface, methods in declared.interfaces.items():
        for method in methods:
            names = f"{interface}::{method}"
            official = f"&::{names}"
            if names in OVERLOADED:
                official = f"static_cast<{OVERLOADED[names]}>({official})"
            lines.append(f'    compare_place("{names}", place(&abi::{names}), place({official}));')
    return "\n".join([*lines, "}", "#endif", ""])


def require_headers(header: str) -> None:
    missing = [name for name in OFFICIAL[header] if not (INCLUDE / name).exists()]
    if missing:
        pytest.skip(f"{INCLUDE} has no {', '.join(missing)}: install directx-headers-dev 1.614 or newer")


def require_compiler(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def run(command: list[str]) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("header", OFFICIAL)
def test_headers_agree_on_linux(header: str, tmp_path: Path) -> None:
    require_headers(header)
    compiler = require_compiler("g++")
    source = tmp_path / "compare.cpp"
    source.write_text("#include <wsl/winadapter.h>\n" + comparison(header), encoding="utf-8")
    folders = [f"-isystem{INCLUDE / name}" for name in (".", "directx", "wsl/stubs")]
    run([compiler, *COMPARE, *folders, str(source), "-o", str(tmp_path / "compare")])
    lines = run([str(tmp_path / "compare")]).splitlines()
    assert len(lines) == sum(map(len, declarations(header).interfaces.values())) > 0
    assert [line for line in lines if not line.startswith("same ")] == []


@pytest.mark.parametrize("header", OFFICIAL)
def test_iids_agree(header: str) -> None:
    require_headers(header)
    official = {
        name: iid
        for file in OFFICIAL[header]
        for iid, name in re.findall(
            r'\("([0-9a-fA-F-]{36})"\)\s+(\w+)\s*:', (INCLUDE / file).read_text(encoding="utf-8")
        )
    }
    official["ID3DBlob"] = official.get("ID3D10Blob", "")  # one interface under two names
    text = (NATIVE / "abi" / f"{header}.h").read_text(encoding="utf-8")
    ours = re.findall(r'^struct (\w+) : \w+ \{\s+static constexpr IID iid = guid\("([^"]+)"\)', text, flags=re.M)
    assert {name for name, _ in ours} == set(declarations(header).interfaces)
    assert [(name, iid, official[name]) for name, iid in ours if official[name].lower() != iid] == []


@pytest.mark.parametrize("header", OFFICIAL)
def test_headers_agree_on_windows(header: str, tmp_path: Path) -> None:
    require_headers(header)
    compiler = require_compiler(MINGW)
    (tmp_path / "directx").symlink_to(INCLUDE / "directx")  # the rest of the folder is not for Windows
    source = tmp_path / "compare.cpp"
    source.write_text("#include <windows.h>\n" + comparison(header), encoding="utf-8")
    annotation = "-D_Maybenull_="  # this compiler's system headers lack it
    run([compiler, *COMPARE, annotation, "-fsyntax-only", f"-isystem{tmp_path}", str(source)])


def test_every_part_is_compared() -> None:
    """The declarations are found by their text; this fails if a change of style hides them."""
    counts = {
        header: [len(part) for part in (found.structs, found.enums, found.interfaces)]
        for header, found in ((header, declarations(header)) for header in OFFICIAL)
    }
    text = {header: (NATIVE / "abi" / f"{header}.h").read_text(encoding="utf-8") for header in OFFICIAL}
    for header, (structs, enums, interfaces) in counts.items():
        assert structs + interfaces == len(re.findall(r"^struct \w+(?: : \w+)? \{", text[header], flags=re.M))
        assert enums <= len(re.findall(r"^enum ", text[header], flags=re.M))
        methods = text[header].count("virtual ") + len(re.findall(r"^\s+DMLGRAPH_STRUCT_", text[header], flags=re.M))
        assert methods == sum(map(len, declarations(header).interfaces.values()))


def reference(part: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ENUMS.read_text(encoding="utf-8"))[part]
    return found


def test_directml_agrees_with_reference(tmp_path: Path) -> None:
    """DirectML's part again, compared with the reference data instead of the official header."""
    declared = declarations("directml")
    structs = {struct["name"]: struct for struct in reference("structs")}
    values = {member["name"]: member["value"] for enum in reference("enums") for member in enum["members"]}
    lines = ['#include "abi/directml.h"', "#include <cstddef>", "using namespace dmlgraph::abi;"]
    for name, members in declared.structs.items():
        lines.append(f"static_assert(sizeof({name}) == {structs[name]['size']});")
        assert members == [field["name"] for field in structs[name]["fields"]]
        for field in structs[name]["fields"]:
            lines.append(f"static_assert(offsetof({name}, {field['name']}) == {field['offset']});")
    for enumerators in declared.enums.values():
        lines += [f"static_assert({name} == {values[name]});" for name in enumerators]
    interfaces = {interface["name"]: interface for interface in reference("interfaces")}
    for name, methods in declared.interfaces.items():
        own = [method["name"] for method in interfaces[name]["vtable"] if method["declared_in"] == name]
        assert methods == own
        lines.append(f'static_assert({name}::iid == guid("{interfaces[name]["iid"]}"));')
    source = tmp_path / "compare.cpp"
    source.write_text("\n".join(lines), encoding="utf-8")
    run([require_compiler("g++"), *WARNINGS, "-fsyntax-only", f"-I{NATIVE}", str(source)])


@pytest.mark.parametrize("compiler", ["g++", MINGW])
def test_runtime_compiles_without_warnings(compiler: str, tmp_path: Path) -> None:
    every = tmp_path / "every.cpp"  # as the build compiles several as one
    sources = sorted((NATIVE / "directml").glob("*.cpp"))
    every.write_text("".join(f'#include "{path.as_posix()}"\n' for path in sources), encoding="utf-8")
    run([require_compiler(compiler), *WARNINGS, "-fsyntax-only", f"-I{NATIVE}", str(every)])


def test_dxgi_agrees_with_the_headers_for_windows(tmp_path: Path) -> None:
    """DXGI is not among the official headers for Linux; the compiler for Windows brings its own."""
    compiler = require_compiler(MINGW)
    declared = declarations("dxgi")
    source = tmp_path / "compare.cpp"
    source.write_text(comparison("dxgi", ["windows.h", "dxgi1_4.h"]), "utf-8")
    run([compiler, *COMPARE, "-fsyntax-only", str(source)])

    # In C an interface is a struct of function pointers in the table's order.
    (tmp_path / "tables.c").write_text("#define CINTERFACE\n#include <windows.h>\n#include <dxgi1_4.h>\n", "utf-8")
    text = run([compiler, "-E", "-P", "-x", "c", str(tmp_path / "tables.c")])
    inherited = ["QueryInterface", "AddRef", "Release"]
    parents = dict(re.findall(r"^struct (\w+) : (\w+) \{", (NATIVE / "abi" / "dxgi.h").read_text("utf-8"), flags=re.M))
    assert set(parents) == set(declared.interfaces)
    for name, base in parents.items():
        table = re.search(rf"typedef struct {name}Vtbl \{{(.*?)\}} {name}Vtbl;", text, flags=re.S)
        assert table, name
        chain, parent = declared.interfaces[name], base
        while parent in parents:
            chain, parent = declared.interfaces[parent] + chain, parents[parent]
        assert re.findall(r"\*\s*(\w+)\)\s*\(", table[1]) == inherited + chain

    files = {each for each in run([compiler, "-M", str(tmp_path / "tables.c")]).split() if "/dxgi" in each}
    official = "".join(Path(file).read_text("utf-8") for file in sorted(files))
    iids = {name: iid for iid, name in re.findall(r'MIDL_INTERFACE\("([^"]+)"\)\s+(\w+) :', official)}
    ours = (NATIVE / "abi" / "dxgi.h").read_text("utf-8")
    own = re.findall(r'struct (\w+) : \w+ \{\s+static constexpr IID iid = guid\("([^"]+)"\)', ours)
    own += re.findall(r'IID_(\w+) = guid\("([^"]+)"\)', ours)
    assert own == [(name, iids[name]) for name, _ in own]
    assert len(own) == len(parents) + 1
