"""`tools/release` refuses a wheel that is not what it says, and packs the same bytes for the same files.

The wheels are planted: their module is a small library with the instructions that are looked for, and one thing wrong.
"""

from __future__ import annotations

import os
import pathlib
import platform
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Callable

import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))

from release import __main__ as command
from release import checks, headers, notes, wheels
from release.binaries import Binary, read
from release.platforms import GLIBC, PLATFORMS, PYTHONS

ROOT = pathlib.Path(__file__).parents[2]
LINUX = "manylinux_2_28_x86_64"
TAG = f"cp311-cp311-{LINUX}"
ADAPTER = "dmlgraph/devices/directml/software"

# One instruction of each level.
INSTRUCTIONS = {
    "avx2": "vfmadd231ps %ymm1, %ymm2, %ymm3",
    "avx2_pairs": "vpmaddubsw %ymm1, %ymm2, %ymm3",
    "avx_vnni": "{vex} vpdpbusd %ymm1, %ymm2, %ymm3",
    "avx512": "vfmadd231ps %zmm1, %zmm2, %zmm3",
    "avx512_pairs": "vpmaddubsw %zmm1, %zmm2, %zmm3",
    "vnni": "vpdpbusd %zmm1, %zmm2, %zmm3",
}

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or shutil.which("gcc") is None,
    reason="the planted wheels are made with GCC on Linux for x86-64",
)


def library(path: pathlib.Path, *options: str, code: str = "") -> pathlib.Path:
    """A shared library, without C's unless the options say so."""
    command = ["gcc", "-shared", "-x", "c", "-", "-x", "none", "-o", str(path), *(options or ("-nostdlib", "-s"))]
    subprocess.run(command, input=code, text=True, check=True)
    return path


def module(path: pathlib.Path, *options: str, without: str = "", code: str = "") -> pathlib.Path:
    """A library with the instructions of all levels but one."""
    lines = [f'".rept 200\\n{text}\\n.endr\\n"' for level, text in INSTRUCTIONS.items() if level != without]
    return library(path, *options, code=f"void all(void) {{ __asm__({' '.join(lines)}); }}\n{code}")


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A wheel of what is not compiled, with few of the files."""
    path = tmp_path_factory.mktemp("plain") / "dmlgraph-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("dmlgraph/__init__.py", "dmlgraph/py.typed"):
            archive.writestr(name, "")
        for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"):
            archive.writestr(f"dmlgraph-0.1.0.dist-info/{name}", "Name: dmlgraph\n")
    return path


@pytest.fixture(scope="session")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    """Those of a wheel that is fine."""
    folder = tmp_path_factory.mktemp("binaries")
    return {
        "dmlgraph/_native.cpython-311-x86_64-linux-gnu.so": module(folder / "module.so"),
        f"{ADAPTER}/libd3d12.so": library(folder / "libd3d12.so"),
        f"{ADAPTER}/libdxcore.so": library(folder / "libdxcore.so"),
    }


@pytest.fixture
def problems(
    plain: pathlib.Path, binaries: dict[str, pathlib.Path], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[str]]:
    """What is wrong with a wheel in which other files take the place of some, or come beside them."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")

    def of(tag: str = TAG, module: pathlib.Path | None = None, **others: pathlib.Path) -> list[str]:
        files = binaries | ({next(iter(binaries)): module} if module else {})
        return checks.problems(wheels.pack(plain, tag, (files | others).items(), tmp_path))

    return of


def test_a_wheel_that_is_what_it_says_is_fine(problems: Callable[..., list[str]]) -> None:
    assert problems() == []


@pytest.mark.parametrize("level", INSTRUCTIONS)
def test_a_missing_level_is_found(level: str, problems: Callable[..., list[str]], tmp_path: pathlib.Path) -> None:
    (found,) = problems(module=module(tmp_path / "module.so", without=level))
    assert f"the kernels of the level {level} are missing: 0 " in found


@pytest.mark.parametrize(
    ("options", "code", "problem"),
    [
        (["-s", "-Wl,--no-as-needed", "-lstdc++"], "", r"needs the library libstdc\+\+\.so\.6"),
        (["-s"], "void dlopen(void); void f(void) { dlopen(); }", r"needs GLIBC_2\.34, and its tag says 2\.28"),
        (["-s", "-nostdlib", "-Wl,-rpath,/opt/lib"], "", "looks for libraries in a folder of its own"),
        (["-nostdlib"], "", "is not stripped"),
        (["-s", "-nostdlib"], f'char const* path = "{pathlib.Path.home()}/file.cpp";', "names a folder of the machine"),
    ],
    ids=["a foreign library", "symbols of a newer glibc", "a path of libraries", "symbols", "a path"],
)
def test_what_only_this_machine_has_is_found(
    options: list[str], code: str, problem: str, problems: Callable[..., list[str]], tmp_path: pathlib.Path
) -> None:
    (found,) = problems(module=module(tmp_path / "module.so", *options, code=code))
    assert re.search(problem, found)


# Of ARM64: sdot by lanes 0 to 3, smmla; fadd, fdiv and fcmgt of halves; sdot of whole vectors, fmla and fadd.
ARM = {
    "dotprod": (0x4F92E006, 0x4FB2E066, 0x4F80E844, 0x4FA0E844),
    "i8mm": (0x4E91A402, 0x4E9FA7FF),
    "fp16": (0x4E421420, 0x6E423C20, 0x6EC22420),
    "others": (0x4E929401, 0x4F921006, 0x4E20CC41, 0x4E22D420),
}


def arm_code(**times: int) -> bytes:
    """The instructions of each name so many times."""
    return b"".join(word.to_bytes(4, "little") for name, count in times.items() for word in ARM[name] * count)


def test_instructions_of_arm64_are_known_by_their_bytes() -> None:
    code = arm_code(**dict.fromkeys(ARM, 1))
    for level, pattern in checks.LEVELS["aarch64"].items():
        found = [match.group() for match in re.finditer(pattern, code, re.DOTALL)]
        assert found == [word.to_bytes(4, "little") for word in ARM[level]]


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        (arm_code(dotprod=150, i8mm=50, fp16=20, others=50), []),
        (arm_code(dotprod=50, i8mm=50, fp16=20), ["dotprod: 0"]),  # as many as the kernels of i8mm alone have
        (arm_code(dotprod=100, fp16=20), ["i8mm: 0"]),
        (arm_code(dotprod=150, i8mm=50, fp16=1), ["fp16: 3"]),
        (b"\0" + arm_code(dotprod=150, i8mm=50, fp16=20), ["dotprod: 0", "i8mm: 0", "fp16: 0"]),
    ],
    ids=["none", "dotprod", "i8mm", "fp16", "all: no instruction begins there"],
)
def test_a_missing_level_of_arm64_is_found(code: bytes, missing: list[str]) -> None:
    binary = Binary("ELF", "aarch64", libraries=frozenset(), code=code)
    found = [re.sub(r".*level (\w+) are missing: (\d+) .*", r"\1: \2", each) for each in checks.missing_levels(binary)]
    assert found == missing


@pytest.mark.parametrize(
    ("command", "version"),
    [
        (struct.pack("<4I", 0x24, 16, 10 << 16 | 13 << 8, 0), "10.13"),
        (struct.pack("<6I", 0x32, 24, 1, 11 << 16, 0, 0), "11.0"),
    ],
    ids=["LC_VERSION_MIN_MACOSX", "LC_BUILD_VERSION"],
)
def test_the_oldest_macos_is_read_of_old_and_new_binaries(command: bytes, version: str) -> None:
    header = struct.pack("<8I", 0xFEEDFACF, 0x01000007, 3, 6, 1, len(command), 0, 0)
    assert read(header + command).oldest == version


def test_a_binary_for_another_platform_is_found(problems: Callable[..., list[str]], tmp_path: pathlib.Path) -> None:
    assert any("is missing" in each for each in problems(tag="cp312-cp312-" + LINUX))
    found = problems(tag="cp311-cp311-manylinux_2_28_aarch64")
    assert f"{ADAPTER}/libd3d12.so is not wanted" in found
    data = module(tmp_path / "module.so").read_bytes()
    (wrong,) = checks.of_binary(data, PLATFORMS["manylinux_2_28_aarch64"], "3.11", levels=True)
    assert wrong == "it is of ELF for x86_64, and not of ELF for aarch64"
    (wrong,) = checks.of_binary(data, PLATFORMS["win_amd64"], "3.11", levels=True)
    assert wrong == "it is of ELF for x86_64, and not of PE for x86_64"
    (wrong,) = checks.of_binary(b"text", PLATFORMS[LINUX], "3.11", levels=True)
    assert wrong == "it is not a binary: it starts like none"


def test_what_is_in_a_wheel_is_what_it_lists(problems: Callable[..., list[str]], tmp_path: pathlib.Path) -> None:
    foreign = library(tmp_path / "libgomp.so")
    assert problems(**{"dmlgraph/libgomp.so": foreign}) == ["dmlgraph/libgomp.so is not wanted"]
    assert problems(**{"tests/a.py": pathlib.Path(__file__)}) == ["tests/a.py is not wanted"]
    large = tmp_path / "large"
    large.write_bytes(os.urandom(checks.BYTES))
    (found,) = problems(**{"dmlgraph/large.json": large})
    assert found.endswith("and may have 12000000")
    assert problems(tag="cp311-cp311-linux_x86_64") == [
        "no platform has a wheel of this name: dmlgraph-0.1.0-cp311-cp311-linux_x86_64.whl"
    ]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("dmlgraph-0.1.0.dist-info/WHEEL", "Tag: cp311-cp311-win_amd64\n", "its tag is cp311-cp311-win_amd64"),
        ("dmlgraph/__init__.py", "import os\n", "dmlgraph/__init__.py is not what RECORD says"),
        ("dmlgraph/py.typed", None, "dmlgraph/py.typed is missing"),
        ("dmlgraph-0.1.0.dist-info/entry_points.txt", None, "entry_points.txt is missing"),
    ],
)
def test_changed_files_are_found(
    name: str, text: str | None, problem: str, problems: Callable[..., list[str]], tmp_path: pathlib.Path
) -> None:
    problems()
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        files = {each: archive.read(each) for each in archive.namelist() if each != name}
    with zipfile.ZipFile(wheel, "w") as archive:
        for each, data in (files | ({} if text is None else {name: text.encode()})).items():
            archive.writestr(each, data)
    assert any(problem in each for each in checks.problems(wheel))
    assert command.main(["--check", str(wheel)]) == 1


def test_the_same_files_make_the_same_bytes(
    plain: pathlib.Path, binaries: dict[str, pathlib.Path], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first = wheels.pack(plain, TAG, binaries.items(), tmp_path / "first").read_bytes()
    later = {name: pathlib.Path(shutil.copy(path, tmp_path / path.name)) for name, path in reversed(binaries.items())}
    assert wheels.pack(plain, TAG, later.items(), tmp_path / "second").read_bytes() == first


# Headers


def test_the_configuration_is_what_the_headers_read(tmp_path: pathlib.Path) -> None:
    """Python.h reads the same with it as with that of this Python."""
    theirs = pathlib.Path(sysconfig.get_path("include"))
    if not (theirs / "Python.h").exists():
        pytest.skip("this Python has no headers")
    release = f"3.{sys.version_info[1]}"
    ours = headers.prepare(release, tmp_path, {release: theirs})

    def read(include: pathlib.Path) -> list[str]:
        code = "#define _FILE_OFFSET_BITS 64\n#define _LARGEFILE_SOURCE 1\n#include <Python.h>\n"
        command = ["g++", "-E", "-P", "-x", "c++", "-", f"-I{include}"]
        done = subprocess.run(command, input=code, capture_output=True, text=True, check=True)
        return done.stdout.replace(str(include), "").split()

    assert read(ours) == read(theirs)
    assert {("PyExc_ValueError", True), ("PyObject_Call", False)} <= set(headers.declared(ours))


def test_headers_are_those_of_an_interpreter_on_the_path(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = pathlib.Path(sysconfig.get_path("include"))
    if not (theirs / "Python.h").exists():
        pytest.skip("this Python has no headers")
    release = f"3.{sys.version_info[1]}"
    (tmp_path / f"python{release}").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))  # without apt-get
    ours = headers.prepare(release, tmp_path / "work", {})
    assert (ours / "object.h").read_bytes() == (theirs / "object.h").read_bytes()


def test_an_interpreter_that_fails_has_no_headers(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pyenv's python3.12 where another release is chosen."""
    (tmp_path / "python3.12").write_text("#!/bin/sh\necho command not found >&2\nexit 127\n", encoding="utf-8")
    (tmp_path / "python3.12").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(command.ReleaseError, match=r"no headers of CPython 3\.12: .* put a python3\.12 .* on PATH"):
        headers.prepare("3.12", tmp_path / "work", {})


def test_headers_of_another_release_are_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "Python.h").touch()
    (tmp_path / "patchlevel.h").write_text('#define PY_VERSION "3.13.5"\n', encoding="utf-8")
    with pytest.raises(command.ReleaseError, match=r"not those of CPython 3\.12"):
        headers.prepare("3.12", tmp_path / "work", {"3.12": tmp_path})
    with pytest.raises(command.ReleaseError, match=r"has no Python\.h"):
        headers.prepare("3.12", tmp_path / "work", {"3.12": tmp_path / "none"})


# The table


def test_the_project_says_for_which_pythons_and_systems_it_is() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text) == list(PYTHONS)


def test_each_platform_has_its_own_names() -> None:
    assert [each.zig for each in PLATFORMS.values() if each.system is GLIBC] == [
        "x86_64-linux-gnu.2.28",
        "aarch64-linux-gnu.2.28",
    ]
    named = {name: each.text(each.system.suffix, "3.14") for name, each in PLATFORMS.items()}
    assert named["win_arm64"] == ".cp314-win_arm64.pyd"
    assert named["macosx_11_0_arm64"] == ".cpython-314-darwin.so"
    assert named["musllinux_1_2_x86_64"] == ".cpython-314-x86_64-linux-musl.so"
    assert not any("{" in each.zig + each.tag + named[name] for name, each in PLATFORMS.items())


def test_an_unknown_platform_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["win_32"])
    assert "no such platform: win_32; there are manylinux_2_28_x86_64, win_amd64" in capsys.readouterr().err


# The text of a release

CHANGELOG = """\
# Changelog

## Unreleased

- b

## 0.2.0 (2026-11-27)

### Added
- a

## 0.1.0
- first
"""


@pytest.mark.parametrize(("version", "text"), [("0.2.0", "### Added\n- a\n"), ("0.1.0", "- first\n")])
def test_the_text_of_a_release_is_its_section(version: str, text: str) -> None:
    assert notes.section(version, CHANGELOG) == text


def test_a_tag_without_a_section_or_of_another_version_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(command.ReleaseError, match=r"no section of 0\.3\.0; it has Unreleased, 0\.2\.0, 0\.1\.0"):
        notes.section("0.3.0", CHANGELOG)
    assert command.main(["--notes", "v99.0.0"]) == 1
    assert f"the tag is v99.0.0, and pyproject.toml has the version {notes.version()}" in capsys.readouterr().err


# What other installers read


def test_the_recipe_for_conda_is_of_this_project() -> None:
    recipe = yaml.safe_load((ROOT / "tools" / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    needs = {each.replace(" ", "") for each in recipe["requirements"]["run"]} - {"python"}
    assert needs == set(project["project"]["dependencies"])
    hosts = {each.replace(" ", "") for each in recipe["requirements"]["host"]} - {"python", "pip"}
    assert hosts == set(project["build-system"]["requires"])
    assert recipe["context"]["version"] == project["project"]["version"]
    assert recipe["build"]["python"]["entry_points"] == [
        f"{name} = {place}" for name, place in project["project"]["scripts"].items()
    ]


def test_the_source_has_all_that_a_build_reads(tmp_path: pathlib.Path) -> None:
    """`pip wheel` of it needs nothing else: no file of the native code is fetched when it is configured."""
    code = "import sys; from scikit_build_core.build import build_sdist; print(build_sdist(sys.argv[1]))"
    command = [sys.executable, "-P", "-c", code, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    with tarfile.open(tmp_path / done.stdout.split()[-1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    read = {each for each in tracked if each.startswith(("native/", "dmlgraph/"))}
    assert read | {"pyproject.toml", "LICENSE", "README.md", "PKG-INFO"} <= names
    lists = [(ROOT / each).read_text(encoding="utf-8") for each in read if each.endswith("CMakeLists.txt")]
    assert len(lists) > 3
    assert not any(re.search(r"FetchContent|ExternalProject|file\(DOWNLOAD", text) for text in lists)
