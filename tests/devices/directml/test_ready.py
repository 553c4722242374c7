"""`dmlgraph directml install` installs or names llvmlite, and ends with a run that proves that DirectML works."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import subprocess
import sys
import sysconfig
import zipfile

import pytest
from support.problems import raises

from dmlgraph import functions
from dmlgraph.devices.directml import install as installer
from dmlgraph.devices.directml import library, ready, trial
from dmlgraph.devices.directml.errors import LibraryError
from dmlgraph.devices.directml.software import llvm
from dmlgraph.devices.names import DeviceName

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Windows has DirectML and Direct3D 12")


def environment_without(project: str, folder: pathlib.Path) -> pathlib.Path:
    """A virtual environment with everything in this one except a project; returns its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    own = {"purelib", "platlib"}
    standard = {pathlib.Path(path) for name, path in sysconfig.get_paths().items() if name not in own}
    others = []
    for path in map(pathlib.Path, sys.path):
        if path.name not in {"site-packages", "dist-packages"}:
            others += [path] if path.is_dir() and not standard & {path, *path.parents} else []
            continue
        for each in path.iterdir():
            taken = each.name == project or each.name.startswith((f"{project}-", f"{project}."))
            paths_alone = each.suffix == ".pth" and not each.read_text(encoding="utf-8").startswith("import")
            if not taken and not paths_alone and not (packages / each.name).exists():
                (packages / each.name).symlink_to(each)
    (packages / "others.pth").write_text("".join(f"{path}\n" for path in others), encoding="utf-8")
    return folder / "bin" / "python"


def wheel_of(project: str, folder: pathlib.Path) -> pathlib.Path:
    """The wheel of an installed project, made again from its files."""
    installed = importlib.metadata.distribution(project)
    tag = next(line.split()[1] for line in (installed.read_text("WHEEL") or "").splitlines() if line.startswith("Tag:"))
    path = folder / f"{project}-{installed.version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file in installed.files or ():
            if not file.parts[0].startswith("..") and "__pycache__" not in file.parts:
                archive.write(str(file.locate()), str(file))
    return path


def install(python: pathlib.Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in an environment; pip may not use the network."""
    return subprocess.run(
        [python, "-P", "-m", "dmlgraph.cli", "directml", "install", *map(str, arguments)],
        env=os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def plain_linux(directml_path: pathlib.Path) -> pathlib.Path:
    """The library, if it runs on the software adapter here."""
    if library.system_has_direct3d():
        pytest.skip("this system has Direct3D 12, so that llvmlite is not needed")
    return directml_path


@pytest.fixture
def python(plain_linux: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """The interpreter of an environment without llvmlite."""
    assert plain_linux.exists()
    python = environment_without("llvmlite", tmp_path / "environment")
    has = subprocess.run([python, "-P", "-c", "import dmlgraph, llvmlite"], capture_output=True, text=True, check=False)
    assert "No module named 'llvmlite'" in has.stderr
    return python


@pytest.fixture
def wheel(plain_linux: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """A wheel of torch-directml with the real library."""
    path = tmp_path / "torch_directml.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(installer.LINUX.licence, "the licence")
        archive.write(plain_linux, installer.LINUX.library)
    return path


def test_llvmlite_is_brought_where_it_is_needed_and_a_graph_runs(python: pathlib.Path, tmp_path: pathlib.Path) -> None:
    wheel_of("llvmlite", tmp_path)
    done = install(python, PIP_FIND_LINKS=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    first, *_, last = done.stdout.splitlines()
    assert first == "installed: llvmlite"
    assert last == "works: a graph ran on directml:software"
    again = install(python)
    assert again.stdout.splitlines()[0].startswith("already installed: ")


@pytest.mark.parametrize("offline", [True, False], ids=["with --from", "pip finds none"])
def test_without_llvmlite_the_command_for_it_is_named_before_anything_is_installed(
    offline: bool, python: pathlib.Path, wheel: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    cache = tmp_path / "cache"
    done = install(python, *(["--from", wheel] if offline else []), DMLGRAPH_CACHE_DIR=str(cache))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{python} -m pip install 'llvmlite>=" in done.stderr
    assert ("pip could not install llvmlite" in done.stderr) != offline
    assert not cache.exists()


def test_works_without_a_network_from_a_wheel(wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = install(pathlib.Path(sys.executable), "--from", wheel, DMLGRAPH_CACHE_DIR=str(tmp_path / "cache"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0].startswith(f"installed: {tmp_path}")
    licence, works = done.stdout.splitlines()[1:]
    assert licence.startswith(f"licence: {tmp_path}")
    assert works == "works: a graph ran on directml:software"


def test_a_graph_that_does_not_run_is_told_and_the_library_stays(wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cache = tmp_path / "cache"
    done = install(
        pathlib.Path(sys.executable), "--from", wheel, DMLGRAPH_CACHE_DIR=str(cache), DMLGRAPH_DIRECTML="/nowhere.so"
    )
    assert done.returncode == 1
    assert "DirectML is installed, but a graph does not run on 'directml:software': " in done.stderr
    assert "/nowhere.so (the environment variable DMLGRAPH_DIRECTML) does not exist" in done.stderr
    assert "works" not in done.stdout
    assert len(list(cache.rglob("libdirectml.so"))) == 1


def test_a_run_that_ends_by_a_signal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "_RUN", ("-c", "import os; os.abort()"))
    with pytest.raises(LibraryError, match=r"on 'directml': the process ended by signal 6 .*graphs still run"):
        ready.prove("directml")


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_the_trial_works_on_devices_that_work(device: DeviceName) -> None:
    assert trial.trial(device) is None


def test_the_trial_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is not a device" in (trial.trial("cu") or "")
    monkeypatch.setattr(functions, "activation_relu", functions.identity)
    said = "it gives [-3.0, 0.0, 7.0, 18.0, -33.0, 6.5], not [0.0, 0.0, 7.0, 18.0, 0.0, 6.5]"
    assert trial.trial("cpu") == said


def test_a_system_with_direct3d_needs_no_llvmlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "system_has_direct3d", lambda: True)
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    assert llvm.lacking() is not None
    assert not ready.bring_llvmlite()
    assert ready.device() == "directml"


def test_other_systems_get_no_llvmlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with raises(LibraryError, "install", got="linux on aarch64"):
        ready.bring_llvmlite()


def test_the_project_asks_for_the_same_llvmlite() -> None:
    """The extra `software` and what the command installs are one requirement."""
    text = (pathlib.Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'software = ["{llvm.requirement()}"]' in text
