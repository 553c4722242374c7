"""The C++ code: the files and functions that its README names exist, and functions are short."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[2]
CPU = ROOT / "native" / "cpu"
LONGEST = 65  # the most lines of a function

# A function's first line: at the margin or in a class, not a statement and not a type.
WORDS = r"py::|(?:if|for|while|switch|else|do|try|catch|return|case|namespace|struct|class|enum|union|using)\b"
START = re.compile(rf"^( *)(?! |//|#|\}}|\{{|(?:{WORDS}))[^;=]*\(")


def functions(text: str) -> Iterator[tuple[str, int]]:
    """The first line of each function that is longer than one line, and its number of lines."""
    lines = [line.split("  //")[0].rstrip() for line in text.splitlines()]
    for first, line in enumerate(lines):
        found = START.match(line)
        if found is None or len(found[1]) > 4:
            continue
        head = first
        while (
            not lines[head].endswith((";", "{", "}"))
            and lines[head + 1 :]
            and lines[head + 1].startswith(found[1] + " ")
        ):
            head += 1
        if not lines[head].endswith("{"):
            continue
        last = next((k for k in range(head, len(lines)) if lines[k].startswith(found[1] + "}")), None)
        if last is not None:
            yield line.strip(), last - first + 1


def test_functions_are_found() -> None:
    kind = "struct A {\n    A()\n        : a_(1) {\n        b();\n    }\n    int a() const { return 1; }\n};\n"
    assert list(functions(kind)) == [("A()", 4)]
    function = "void f(int a,\n       int b) {\n    if (a) {\n        g();\n    }\n}\n"
    assert list(functions(function)) == [("void f(int a,", 6)]


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("native/**/*.cpp")) + sorted(ROOT.glob("native/**/*.h")), ids=lambda p: p.name
)
def test_functions_are_short(path: pathlib.Path) -> None:
    found = list(functions(path.read_text(encoding="utf-8")))
    assert [(name, length) for name, length in found if length > LONGEST] == []


# Of the C library's mathematics, what gives the same bits everywhere: each is one instruction, or exact by definition.
SAME_EVERYWHERE = {"sqrt", "sqrtf", "fma", "fmaf", "rintf", "truncf", "floorf"}


def test_kernels_compute_functions_themselves() -> None:
    for path in sorted(CPU.glob("kernels/*")):
        called = set(re.findall(r"(?<![\w:>])::([a-z0-9]+)\(", path.read_text(encoding="utf-8")))
        assert called <= SAME_EVERYWHERE | {"memcpy", "memmove", "memset"}, path


@pytest.mark.parametrize("path", sorted(CPU.glob("*/*.[ch]*")), ids=lambda path: path.name)
def test_what_compilers_have_different_names_for_is_in_one_header(path: pathlib.Path) -> None:
    text = path.read_text(encoding="utf-8").replace("__builtin_bit_cast", "")  # GCC, Clang and MSVC have it
    assert re.findall(r"_MSC_VER|__GNUC__|__clang__|__builtin_\w+|__attribute__|__declspec|__asm\w*", text) == []


def test_every_file_that_the_readme_names_exists() -> None:
    text = (CPU / "README.md").read_text(encoding="utf-8")
    names = [name for name in re.findall(r"`([^`\s]+)`", text) if re.search(r"/|\.(cpp|h|py|md)$", name)]
    assert len(names) > 20
    folders = [CPU, ROOT, *(folder for folder in CPU.iterdir() if folder.is_dir())]
    assert [name for name in names if not any((folder / name).exists() for folder in folders)] == []


def test_every_folder_is_in_the_readme() -> None:
    text = (CPU / "README.md").read_text(encoding="utf-8")
    assert [folder.name for folder in CPU.iterdir() if folder.is_dir() and f"| `{folder.name}/` |" not in text] == []


def test_paths_become_text_as_utf8() -> None:
    """std::filesystem::path::string() is in the ANSI code page on Windows, and throws for other characters."""
    sources = [*(ROOT / "native").rglob("*.cpp"), *(ROOT / "native").rglob("*.h")]
    code = {source: re.sub(r"//.*", "", source.read_text("utf-8")) for source in sources}
    assert [source for source, text in code.items() if re.search(r"\.(generic_)?string\(\)", text)] == []


def test_system_libraries_are_loaded_from_their_directory_only() -> None:
    """The default directories are the program's, which others may write to, and folders that the program added."""
    sources = [*(ROOT / "native").rglob("*.cpp"), *(ROOT / "native").rglob("*.h")]
    code = "\n".join(source.read_text("utf-8") for source in sources)
    assert "GetSystemDirectoryW" in code
    assert "LOAD_LIBRARY_SEARCH_DEFAULT_DIRS" not in code
    assert re.findall(r"\bLoadLibrary(?:A|W|ExA)?\(", code) == []
