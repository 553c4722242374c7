"""Makes the wheels of a release on this machine, for all platforms, and checks them.

    python tools/release                                     # all; wheels are in dist/
    python tools/release win_amd64 win_arm64 --python 3.13   # some
    python tools/release --headers 3.12=/opt/python/include/python3.12
    python tools/release --check dist/*.whl                  # only checks
    python tools/release --notes v1.2.0                      # prints the text of the release with this tag

It needs Linux, git, and `pip install ".[release]"`, which brings the compiler.  The headers of CPython 3.12 come from
python3.12 on PATH, as pyenv and uv put it there, else from Debian's packages, or from a folder that is given.  What was
compiled stays in the folder DMLGRAPH_RELEASE, by default
~/.cache/dmlgraph-release, and is used again.  A wheel that is not what it says ends the command with the status 1, and
so does one that cannot be made; the others are made.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from release import build, checks, headers, notes, wheels
from release.errors import ReleaseError
from release.platforms import PLATFORMS, PYTHONS


def folder_of_release(text: str) -> tuple[str, pathlib.Path]:
    python, _, folder = text.partition("=")
    if python not in PYTHONS or not folder:
        raise argparse.ArgumentTypeError(f"{text}: write RELEASE=FOLDER, with one of {', '.join(PYTHONS)}")
    return python, pathlib.Path(folder).resolve()


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="PLATFORM", help=f"by default all: {', '.join(PLATFORMS)}")
    parser.add_argument("--python", nargs="+", choices=PYTHONS, default=list(PYTHONS), help="by default all")
    parser.add_argument("--headers", nargs="+", type=folder_of_release, default=[], metavar="RELEASE=FOLDER")
    parser.add_argument("--to", type=pathlib.Path, default=pathlib.Path("dist"), help="the folder of the wheels")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes that compile")
    parser.add_argument("--check", nargs="+", type=pathlib.Path, default=[], metavar="WHEEL", help="only check wheels")
    parser.add_argument("--notes", metavar="TAG", help="only print what the changelog says of a release")
    read = parser.parse_args(given)
    unknown = [name for name in read.what if name not in PLATFORMS]
    if unknown:
        parser.error(f"no such platform: {', '.join(unknown)}; there are {', '.join(PLATFORMS)}")
    return read


def check(paths: list[pathlib.Path]) -> bool:
    """Says what is wrong with wheels; returns whether nothing is."""
    fine = True
    for path in paths:
        try:
            found = checks.problems(path)
        except OSError as error:
            found = [str(error)]
        print(f"{path.name}: {'fine' if not found else ''}", *found, sep="\n    " if found else "")
        fine = fine and not found
    return fine


def make(read: argparse.Namespace) -> bool:
    """Makes and checks wheels; returns whether all that were asked for are there and fine."""
    kept = os.environ.get("DMLGRAPH_RELEASE") or pathlib.Path.home() / ".cache" / "dmlgraph-release"
    fine, work, found = True, pathlib.Path(kept).resolve(), {}
    for python in read.python:
        try:
            found[python] = headers.prepare(python, work / "headers", dict(read.headers))
        except ReleaseError as error:
            print(f"not made for CPython {python}: {error}")
            fine = False
    wheels.set_time()
    with tempfile.TemporaryDirectory() as folder:
        plain = wheels.without_binaries(pathlib.Path(folder))
        for name in read.what or PLATFORMS:
            compiled = work / name
            try:
                build.compiled(PLATFORMS[name], found, compiled, read.jobs)
            except subprocess.CalledProcessError as error:
                print(f"not made for {name}: {' '.join(error.cmd[:2])} … ended with the status {error.returncode}")
                fine = False
                continue
            for python in found:
                files = build.binaries(PLATFORMS[name], python, compiled)
                release = f"cp{python.replace('.', '')}"
                fine = check([wheels.pack(plain, f"{release}-{release}-{name}", files, read.to)]) and fine
    return fine


def main(given: list[str] | None = None) -> int:
    read = arguments(given)
    if read.notes:
        try:
            print(notes.of_tag(read.notes), end="")
        except ReleaseError as error:
            print(error, file=sys.stderr)
            return 1
        return 0
    return int(not (check(read.check) if read.check else make(read)))


if __name__ == "__main__":
    sys.exit(main())
