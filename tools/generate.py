"""Makes the files that are generated: from the operators' classes, the rules, the commands, the reference data, ….

    python tools/generate.py                    # all of them
    python tools/generate.py passes_docs        # those of one generator: tools/generators/ has them
    python tools/generate.py --check            # writes nothing; exit status 1 if a file would change

The tests run the check.  A generator is a module with `files()`: path → text, or None where no file may be.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pathlib
import pkgutil
import sys

import generators

TOOLS = pathlib.Path(__file__).parent

FIRST = ("operator_data", "operator_index")  # the package reads what they make: the others run in a new process
HELPERS = ("error_examples",)
NAMES = sorted(
    (each.name for each in pkgutil.iter_modules(generators.__path__) if each.name not in HELPERS),
    key=lambda name: (name not in FIRST, name),
)


def stale(name: str) -> dict[pathlib.Path, str | None]:
    """The files of a generator that differ from what it makes, with what they should be."""
    made: dict[pathlib.Path, str | None] = importlib.import_module(f"generators.{name}").files()
    return {
        path: text
        for path, text in made.items()
        if text != (path.read_text(encoding="utf-8") if path.exists() else None)
    }


def write(files: dict[pathlib.Path, str | None]) -> None:
    for path, text in files.items():
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes the files that are generated.")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *NAMES], help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--check", action="store_true", help="only say which files would change")
    given = parser.parse_args()
    found = False
    for name in given.names or NAMES:
        files = stale(name)
        for path in files:
            print(f"{path.relative_to(TOOLS.parent).as_posix()} {'is not up to date' if given.check else 'is made'}")
        if files and not given.check:
            write(files)
            if name in FIRST:
                os.execv(sys.executable, [sys.executable, *sys.argv])
        found = found or bool(files)
    return int(found and given.check)


if __name__ == "__main__":
    sys.exit(main())
