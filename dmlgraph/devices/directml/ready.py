"""What `dmlgraph directml install` does besides fetching the library: installs llvmlite, and proves that a graph runs.

If the system does not have Direct3D 12, DirectML runs on this package's software adapter, which compiles shaders with
llvmlite.  A plain `pip install` of dmlgraph does not install llvmlite, since Windows and WSL2 do not need it.
"""

from __future__ import annotations

import importlib
import importlib.util
import shlex
import subprocess
import sys

from dmlgraph.devices.directml import install, library
from dmlgraph.devices.directml.errors import LibraryError
from dmlgraph.devices.directml.software import llvm

# The trial runs in a separate process: so a driver crash is reported like any other failure, and packages installed
# just now are found. `-P`: use the installed package, not sources in the current folder.
_PYTHON = (sys.executable, "-P")
_RUN = "-m", "dmlgraph.devices.directml.trial"


def bring_llvmlite(*, download: bool = True) -> bool:
    """Installs llvmlite with this interpreter's pip, if the software adapter needs it and it is missing or too old.

    Args:
        download: if False, nothing is downloaded; if llvmlite is missing, the error contains the command to install it.

    Returns:
        Whether it was installed just now.

    Raises:
        LibraryError: the library does not support this system; or llvmlite is missing and pip could not install it.
        SoftwareAdapterError: the processor cannot run the software adapter.
    """
    install.package()
    if library.system_has_direct3d():
        return False
    unfit = llvm.lacking()
    if unfit is None:
        llvm.binding()
        return False
    if not download or importlib.util.find_spec("pip") is None:
        raise LibraryError(str(unfit.problems[0].headline), code="software-adapter", hint=_by_hand())
    pip = _pip("--no-input", "--disable-pip-version-check", "--quiet", "--only-binary=llvmlite")
    done = subprocess.run(pip, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        said = done.stdout.strip().splitlines()
        errors = [line for line in said if line.startswith("ERROR")] or said[-3:]
        raise LibraryError(
            f"pip could not install {llvm.requirement()}: " + " ".join(errors), code="install", hint=_by_hand()
        )
    importlib.invalidate_caches()
    return True


def prove(device: str) -> None:
    """Compiles and runs a small graph on a device, in a separate process, and compares its values.

    Raises:
        LibraryError: it does not work; the message says what happened.
    """
    done = subprocess.run([*_PYTHON, *_RUN, device], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    said = done.stderr.strip().splitlines()
    if any(line.startswith("Traceback ") for line in said):
        said = said[-1:]
    if done.returncode < 0:  # minus the number of a signal
        said = [*said[-1:], f"the process ended by signal {-done.returncode}"]
    raise LibraryError(
        f"DirectML is installed, but a graph does not run on '{device}': {' '.join(said[-3:])}",
        code="install",
        hint="'dmlgraph directml info' shows which libraries are used; graphs still run on 'cpu'",
    )


def device() -> str:
    """The device that uses the installed library: the system's Direct3D 12, or else the software adapter."""
    return "directml" if library.system_has_direct3d() else "directml:software"


def _pip(*options: str) -> list[str]:
    return [sys.executable, "-m", "pip", "install", *options, llvm.requirement()]


def _by_hand() -> str:
    return f"run  {shlex.join(_pip())}  and then this command again"
