"""What a binary says of itself, in ELF, PE or Mach-O."""

from __future__ import annotations

import dataclasses
import io
import pathlib
import tempfile
from typing import Any


class NotABinaryError(ValueError):
    """These bytes are no program or library of any system."""


@dataclasses.dataclass(frozen=True)
class Binary:
    """A module or library.

    Attributes:
        format: ELF, PE or Mach-O.
        arch: x86_64 or aarch64, or the format's own name of another processor.
        libraries: those it needs.
        code: the bytes of its instructions.
        versions: the versions of symbols that it needs of libraries, as in GLIBC_2.28.
        oldest: the oldest release of macOS that it is for.
        own_folders: whether it says where libraries are looked for.
        symbols: whether it has more symbols than a loader needs.
    """

    format: str
    arch: str
    libraries: frozenset[str]
    code: bytes
    versions: frozenset[str] = frozenset()
    oldest: str = ""
    own_folders: bool = False
    symbols: bool = False


def read(data: bytes) -> Binary:
    """Reads a binary.  Raises NotABinaryError."""
    for start, reader in ((b"\x7fELF", _elf), (b"MZ", _pe), (b"\xcf\xfa\xed\xfe", _mach_o)):
        if data.startswith(start):
            try:
                return reader(data)
            except Exception as error:  # each library has errors of its own
                raise NotABinaryError(str(error)) from error
    raise NotABinaryError("it starts like none")


def _elf(data: bytes) -> Binary:
    from elftools.elf.elffile import ELFFile

    file: Any = ELFFile(io.BytesIO(data))
    tags = [tag for section in file.iter_sections("SHT_DYNAMIC") for tag in section.iter_tags()]
    needs = [need for section in file.iter_sections("SHT_GNU_verneed") for need in section.iter_versions()]
    text = file.get_section_by_name(".text")
    return Binary(
        format="ELF",
        arch={"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}.get(file["e_machine"], str(file["e_machine"])),
        libraries=frozenset(tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"),
        code=text.data() if text else b"",
        versions=frozenset(each.name for _, auxiliaries in needs for each in auxiliaries),
        own_folders=any(tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH") for tag in tags),
        symbols=any(section.name in (".symtab", ".debug_info") for section in file.iter_sections()),
    )


def _pe(data: bytes) -> Binary:
    import pefile

    file = pefile.PE(data=data)
    machine = file.FILE_HEADER.Machine
    code = next((each.get_data() for each in file.sections if each.Name.rstrip(b"\0") == b".text"), b"")
    return Binary(
        format="PE",
        arch={0x8664: "x86_64", 0xAA64: "aarch64"}.get(machine, hex(machine)),
        libraries=frozenset(each.dll.decode() for each in getattr(file, "DIRECTORY_ENTRY_IMPORT", ())),
        code=code,
        symbols=file.FILE_HEADER.NumberOfSymbols > 0,
    )


def _mach_o(data: bytes) -> Binary:
    from macholib import mach_o
    from macholib.MachO import MachO

    with tempfile.TemporaryDirectory() as folder:  # it reads files only
        path = pathlib.Path(folder) / "binary"
        path.write_bytes(data)
        (file,) = MachO(str(path)).headers
    processors = {0x01000007: "x86_64", 0x0100000C: "aarch64"}
    loads = (mach_o.LC_LOAD_DYLIB, mach_o.LC_LOAD_WEAK_DYLIB)
    commands: list[tuple[int, Any, Any]] = [(load.cmd, command, rest) for load, command, rest in file.commands]
    sections = [each for number, _, rest in commands if number == mach_o.LC_SEGMENT_64 for each in rest]
    text = next((each for each in sections if each.sectname.rstrip(b"\0") == b"__text"), None)
    names = {mach_o.LC_BUILD_VERSION: "minos", mach_o.LC_VERSION_MIN_MACOSX: "version"}  # the second before macOS 10.14
    oldest = next((int(getattr(command, names[number])) for number, command, _ in commands if number in names), 0)
    return Binary(
        format="Mach-O",
        arch=processors.get(file.header.cputype, hex(file.header.cputype)),
        libraries=frozenset(rest.rstrip(b"\0").decode() for number, _, rest in commands if number in loads),
        code=data[text.offset : text.offset + text.size] if text else b"",
        oldest=f"{oldest >> 16}.{oldest >> 8 & 0xFF}",
        own_folders=any(number == mach_o.LC_RPATH for number, _, _ in commands),
    )
