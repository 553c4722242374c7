"""The headers of CPython, and for Windows what a linker needs of its DLL, without that Python."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping

from release.errors import ReleaseError
from release.platforms import PYTHONS

HERE = pathlib.Path(__file__).parent
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_DECLARATION = re.compile(r"PyAPI_(FUNC|DATA)\(.*?\)\s*(\w+)\s*[(;\[]", re.DOTALL)
_MACHINES = {"x86_64": "i386:x86-64", "aarch64": "arm64"}  # by dlltool's names


def prepare(python: str, folder: pathlib.Path, given: Mapping[str, pathlib.Path]) -> pathlib.Path:
    """The folder of the headers of a release of CPython, which serve every platform.

    Args:
        python: as in 3.11.
        folder: where they are kept.
        given: folders of headers, by release, which are taken instead of those that can be found.

    Raises:
        ReleaseError: they cannot be had.
    """
    headers = folder / python
    source = given.get(python) or _of_interpreter(python) or _of_debian(python, folder / "debian")
    if not (source / "Python.h").exists():
        raise ReleaseError(f"{source} has no Python.h")
    found = re.search(r'PY_VERSION\s+"(\d+\.\d+)', (source / "patchlevel.h").read_text(encoding="utf-8"))
    if found is None or found[1] != python:
        raise ReleaseError(f"the headers in {source} are not those of CPython {python}")
    shutil.rmtree(headers, ignore_errors=True)
    shutil.copytree(source, headers)
    shutil.copy2(HERE / "pyconfig.h", headers)  # with its time, for which nothing is compiled again
    return headers


def import_library(python: str, arch: str, headers: pathlib.Path) -> pathlib.Path:
    """Writes python311.lib, from what the headers declare: each of its names is in the DLL if a program may use it."""
    name = f"python{python.replace('.', '')}"
    library = headers / arch / f"{name}.lib"
    library.parent.mkdir(exist_ok=True)
    definition = library.with_suffix(".def")
    lines = [f"{symbol} DATA" if data else symbol for symbol, data in sorted(dict(declared(headers)).items())]
    definition.write_text("\n".join([f"LIBRARY {name}.dll", "EXPORTS", *lines, ""]), encoding="utf-8")
    command = ["dlltool", "-m", _MACHINES[arch], "-D", f"{name}.dll", "-d", str(definition), "-l", str(library)]
    subprocess.run([sys.executable, "-m", "ziglang", *command], check=True)
    return library


def declared(headers: pathlib.Path) -> Iterator[tuple[str, bool]]:
    """The names that headers say a Python exports, and whether each is data."""
    for path in (*headers.glob("*.h"), *headers.glob("cpython/*.h")):
        text = path.read_text(encoding="utf-8")
        if path.name != "exports.h":  # which defines PyAPI_FUNC
            yield from ((name, kind == "DATA") for kind, name in _DECLARATION.findall(text))


def _of_interpreter(python: str) -> pathlib.Path | None:
    """The headers that belong to python3.12 on PATH.  None if that is not there, or has none."""
    ask = [f"python{python}", "-I", "-c", "import sysconfig; print(sysconfig.get_path('include'))"]
    if shutil.which(ask[0]) is None:
        return None
    done = subprocess.run(ask, capture_output=True, text=True, check=False)  # pyenv's may be a text that fails
    include = pathlib.Path(done.stdout.strip())
    return include if done.returncode == 0 and (include / "Python.h").exists() else None


def _of_debian(python: str, folder: pathlib.Path) -> pathlib.Path:
    """The headers in Debian's package, unpacked but not installed."""
    release = PYTHONS[python]
    if release is None or shutil.which("apt-get") is None:
        where = "Debian has none of that release" if release is None else "this is not Debian, whose packages have some"
        place = f"put a python{python} that has them on PATH, or give --headers {python}=FOLDER"
        raise ReleaseError(f"no headers of CPython {python}: {where}; {place}")
    include = folder / python / "usr" / "include" / f"python{python}"
    if not include.exists():
        shutil.rmtree(folder / release, ignore_errors=True)
        for each in ("lists/partial", "cache/archives/partial"):
            (folder / release / each).mkdir(parents=True)
        _download(f"libpython{python}-dev", release, folder / release)
        (package,) = (folder / release).glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", str(package), str(folder / python)], check=True)
    return include


def _download(package: str, release: str, folder: pathlib.Path) -> None:
    """Downloads a package of a release of Debian from this system's mirror, with lists in a folder of their own."""
    targets = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    mirrors = subprocess.run(targets, check=True, capture_output=True, text=True).stdout.split()
    mirror = next((each for each in mirrors if each.endswith("/debian/")), None)
    if mirror is None:
        raise ReleaseError("apt-get has no mirror of Debian")
    sources = folder / "sources.list"
    sources.write_text(f"deb [arch=amd64 signed-by={_KEYRING}] {mirror} {release} main\n", encoding="utf-8")
    (folder / "status").touch()
    options = {
        "Dir::Etc::SourceList": sources, "Dir::Etc::SourceParts": "/dev/null", "Dir::State::Lists": folder / "lists",
        "Dir::State::Status": folder / "status", "Dir::Cache": folder / "cache", "APT::Sandbox::User": "root",
    }  # fmt: skip
    apt = ["apt-get", "--quiet", *(f"--option={name}={value}" for name, value in options.items())]
    for command in (["update"], ["download", package]):
        subprocess.run([*apt, *command], check=True, cwd=folder, stdout=subprocess.DEVNULL)
