"""What wheels are made for: systems, processors and releases of CPython."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class System:
    """A system, whatever its processor.  In texts {arch} is the compiler's name of the processor.

    Attributes:
        zig: the second half of the compiler's target.
        cmake: CMake's name.
        binary: the format of its binaries.
        tag: the name of its wheels; {wheel} is the system's own name of the processor.
        suffix: the end of a module's file name; {python} is the release of CPython without its dot, as in 311.
        libraries: what the system and Python bring, as a regular expression for each.
        flags: for the linker, for modules and for the rest.
        module: what makes a module of object files.
    """

    zig: str
    cmake: str
    binary: str
    tag: str
    suffix: str
    libraries: tuple[str, ...]
    flags: str = ""
    module: str = "-shared"


_LINUX_LIBRARIES = (r"lib(c|m)\.so\.6", r"libdl\.so\.2", r"libpthread\.so\.0", r"librt\.so\.1", r"ld-linux-.*")
_WINDOWS_LIBRARIES = (r"kernel32\.dll", r"advapi32\.dll", r"ntdll\.dll", r"api-ms-win-.*\.dll", r"python{python}\.dll")

GLIBC = System(
    zig="linux-gnu.2.28",
    cmake="Linux",
    binary="ELF",
    tag="manylinux_2_28_{arch}",
    suffix=".cpython-{python}-{arch}-linux-gnu.so",
    libraries=_LINUX_LIBRARIES,
)
MUSL = System(
    zig="linux-musl",
    cmake="Linux",
    binary="ELF",
    tag="musllinux_1_2_{arch}",
    suffix=".cpython-{python}-{arch}-linux-musl.so",
    libraries=(r"libc\.so", r"libc\.musl-.*"),
)
WINDOWS = System(
    zig="windows-gnu",
    cmake="Windows",
    binary="PE",
    tag="win_{wheel}",
    suffix=".cp{python}-win_{wheel}.pyd",
    libraries=_WINDOWS_LIBRARIES,
)
MACOS = System(
    zig="macos.{macos}",
    cmake="Darwin",
    binary="Mach-O",
    tag="macosx_{macos_}_{wheel}",
    suffix=".cpython-{python}-darwin.so",
    libraries=(r"/usr/lib/libSystem\.B\.dylib",),
    module="-shared -Wl,-undefined,dynamic_lookup",
)


@dataclasses.dataclass(frozen=True)
class Platform:
    """A system on a processor.

    Attributes:
        system: its system.
        arch: the compiler's and CMake's name of the processor.
        wheel: the system's own name of it.
        macos: the oldest macOS.
    """

    system: System
    arch: str
    wheel: str = ""
    macos: str = ""

    def text(self, of: str, python: str = "") -> str:
        """A text of the system for this processor and a release of CPython such as 3.11."""
        names = {"arch": self.arch, "wheel": self.wheel, "macos": self.macos, "macos_": self.macos.replace(".", "_")}
        for name, value in (names | {"python": python.replace(".", "")}).items():
            of = of.replace("{" + name + "}", value)
        return of

    @property
    def tag(self) -> str:
        return self.text(self.system.tag)

    @property
    def zig(self) -> str:
        return f"{self.arch}-{self.text(self.system.zig)}"

    @property
    def has_adapter(self) -> bool:
        """Whether Microsoft's DirectML for Linux runs there, which the software adapter is for."""
        return self.system is GLIBC and self.arch == "x86_64"


PLATFORMS = {
    each.tag: each
    for each in (
        Platform(GLIBC, "x86_64"),
        Platform(WINDOWS, "x86_64", "amd64"),
        Platform(GLIBC, "aarch64"),
        Platform(MUSL, "x86_64"),
        Platform(MUSL, "aarch64"),
        Platform(WINDOWS, "aarch64", "arm64"),
        Platform(MACOS, "aarch64", "arm64", "11.0"),
        Platform(MACOS, "x86_64", "x86_64", "10.13"),
    )
}

# The releases of CPython, and the release of Debian that has the headers of each.  No release of Debian had 3.12.
PYTHONS = {"3.11": "bookworm", "3.12": None, "3.13": "trixie", "3.14": "sid"}
