"""What is wrong with a wheel: its tags, what it contains, and what its binaries need."""

from __future__ import annotations

import base64
import csv
import hashlib
import pathlib
import re
import zipfile
from collections.abc import Iterator

from release.binaries import Binary, NotABinaryError, read
from release.platforms import GLIBC, MACOS, PLATFORMS, Platform

BYTES = 12_000_000  # at most, of a wheel

# Instructions that only one level of the kernels has, in their main loops, as a regular expression of their bytes: the
# products of vpdpbusd (50), vpmaddubsw (04) and vfmadd231ps (b8) on 256 bits (VEX) and 512 bits (EVEX); of ARM64 sdot
# by a lane, smmla, and what computes with vectors of float16.
_VEX = rb"\xc4[\x02\x22\x42\x62\x82\xa2\xc2\xe2][\x05\x0d\x15\x1d\x25\x2d\x35\x3d\x45\x4d\x55\x5d\x65\x6d\x75\x7d]"
_EVEX = (
    rb"\x62[\x02\x12\x22\x32\x42\x52\x62\x72\x82\x92\xa2\xb2\xc2\xd2\xe2\xf2]"
    rb"[\x05\x0d\x15\x1d\x25\x2d\x35\x3d\x45\x4d\x55\x5d\x65\x6d\x75\x7d][\x40-\x5f\xc0-\xdf]"
)
LEVELS = {
    "x86_64": {
        "avx2": _VEX + rb"\xb8",
        "avx2_pairs": _VEX + rb"\x04",
        "avx_vnni": _VEX + rb"\x50",
        "avx512": _EVEX + rb"\xb8",
        "avx512_pairs": _EVEX + rb"\x04",
        "vnni": _EVEX + rb"\x50",
    },
    "aarch64": {
        "dotprod": rb".[\xe0-\xe3\xe8-\xeb][\x80-\xbf]\x4f",
        "i8mm": rb".[\xa4-\xa7][\x80-\x9f]\x4e",
        "fp16": (
            rb".[\x04-\x07\x0c-\x0f\x14-\x17\x1c-\x1f\x24-\x27\x2c-\x2f\x34-\x37\x3c-\x3f]"
            rb"[\x40-\x5f\xc0-\xdf][\x4e\x6e]"
        ),
    },
}
ALSO_IN = {"dotprod": {"i8mm": 2}}  # level: others that have its instructions, at most so many for each of their own
FEWEST = {"x86_64": 100, "aarch64": 20}  # of these instructions; other code has fewer that look so
STEPS = {"x86_64": 1, "aarch64": 4}  # bytes between places where instructions begin


def problems(wheel: pathlib.Path) -> list[str]:
    """What is wrong with a wheel; empty if it may be published."""
    match = re.fullmatch(r"dmlgraph-([^-]+)-cp3(\d+)-cp3\2-(\w+)\.whl", wheel.name)
    if match is None or match[3] not in PLATFORMS:
        return [f"no platform has a wheel of this name: {wheel.name}"]
    platform, python = PLATFORMS[match[3]], f"3.{match[2]}"
    found = [f"it has {wheel.stat().st_size} bytes, and may have {BYTES}"] if wheel.stat().st_size > BYTES else []
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    found += _of_contents(files, f"dmlgraph-{match[1]}.dist-info/", f"cp3{match[2]}-cp3{match[2]}-{match[3]}")
    module = f"dmlgraph/_native{platform.text(platform.system.suffix, python)}"
    expected = {module}
    if platform.has_adapter:
        expected |= {f"dmlgraph/devices/directml/software/{name}" for name in ("libd3d12.so", "libdxcore.so")}
    ends = (".so", ".pyd", ".dll", ".dylib", ".a", ".lib")
    present = {name for name, data in files.items() if name.endswith(ends) or _is_binary(data)}
    found += [f"{name} is missing" for name in sorted(expected - present)]
    found += [f"{name} is not wanted" for name in sorted(present - expected)]
    for name in sorted(expected & present):
        of = of_binary(files[name], platform, python, levels=name == module)
        found += [f"{name}: {problem}" for problem in of]
    return found


def _is_binary(data: bytes) -> bool:
    return data.startswith((b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"))


def _of_contents(files: dict[str, bytes], about: str, tag: str) -> Iterator[str]:
    """What is wrong with the list of files, the tag, or what tools look for."""
    for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"):
        if about + name not in files:
            yield f"{about + name} is missing"
            return
    tags = re.findall(r"^Tag: (.*)$", files[about + "WHEEL"].decode(), re.MULTILINE)
    if tags != [tag]:
        yield f"its tag is {', '.join(tags)}, and its name says {tag}"
    if "dmlgraph/py.typed" not in files:
        yield "dmlgraph/py.typed is missing"
    recorded = {row[0]: row[1] for row in csv.reader(files[about + "RECORD"].decode().splitlines())}
    if set(recorded) != set(files):
        yield f"RECORD does not list what is there: {', '.join(sorted(set(recorded) ^ set(files)))}"
    for name, digest in recorded.items():
        data = hashlib.sha256(files.get(name, b"")).digest()
        if digest and name in files and digest != f"sha256={base64.urlsafe_b64encode(data).decode().rstrip('=')}":
            yield f"{name} is not what RECORD says"
    for name in files:
        if "__pycache__" in name or not name.startswith(("dmlgraph/", about)):
            yield f"{name} is not wanted"


def of_binary(data: bytes, platform: Platform, python: str, *, levels: bool) -> Iterator[str]:
    """What is wrong with a binary.

    Args:
        levels: whether the kernels are in it.
    """
    try:
        binary = read(data)
    except NotABinaryError as error:
        yield f"it is not a binary: {error}"
        return
    wanted = (platform.system.binary, platform.arch)
    if (binary.format, binary.arch) != wanted:
        yield f"it is of {binary.format} for {binary.arch}, and not of {' for '.join(wanted)}"
        return
    allowed = "|".join(platform.text(each, python) for each in platform.system.libraries)
    for library in sorted(binary.libraries):
        if not re.fullmatch(allowed, library, re.IGNORECASE if binary.format == "PE" else 0):
            yield f"it needs the library {library}, which is not one of those that wheels may need there"
    yield from _too_new(binary, platform)
    if binary.own_folders:
        yield "it looks for libraries in a folder of its own"
    if binary.symbols:
        yield "it is not stripped"
    for folder in (pathlib.Path(__file__).parents[2], pathlib.Path.home()):
        if f"{folder}/".encode() in data:
            yield f"it names a folder of the machine that built it: {folder}"
    if levels:
        yield from missing_levels(binary)


def missing_levels(binary: Binary) -> Iterator[str]:
    """The levels whose kernels are not there."""
    step, found = STEPS[binary.arch], {}
    for level, instruction in LEVELS[binary.arch].items():
        matches = re.finditer(b"(?=%b)" % instruction, binary.code, re.DOTALL)
        found[level] = sum(match.start() % step == 0 for match in matches)
    for level, count in found.items():
        own = max(0, count - sum(times * found[other] for other, times in ALSO_IN.get(level, {}).items()))
        if own < FEWEST[binary.arch]:
            yield f"the kernels of the level {level} are missing: {own} of its instructions are there"


def _too_new(binary: Binary, platform: Platform) -> Iterator[str]:
    """What only a newer system has than the tag says."""
    limit = platform.zig.rpartition("gnu.")[2]
    for version in sorted(binary.versions) if platform.system is GLIBC else ():
        number = version.removeprefix("GLIBC_")
        if number != version and tuple(map(int, number.split("."))) > tuple(map(int, limit.split("."))):
            yield f"it needs {version}, and its tag says {limit}"
    if platform.system is MACOS and binary.oldest != platform.macos:
        yield f"it is for macOS {binary.oldest}, and its tag says {platform.macos}"
