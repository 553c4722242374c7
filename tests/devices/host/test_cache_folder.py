"""Only its owner can use the cache: how its folders are made, and what is refused."""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess
import sys

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from dmlgraph.base.errors import DeviceError
from dmlgraph.cli.commands import main
from dmlgraph.devices import choose
from dmlgraph.devices.directml import install, library
from dmlgraph.devices.directml.errors import LibraryError
from dmlgraph.devices.directml.software import cache as kernels
from dmlgraph.devices.host.cache_folder import (
    NoFolderError,
    UnsafeError,
    check_owner,
    check_private,
    make_private,
    user_cache_folder,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the user's profile is the user's alone on Windows")

TRUSTED = {0, os.geteuid() if os.name == "posix" else 0}
STRANGER = 54321


@pytest.fixture
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("DMLGRAPH_CACHE_DIR", str(tmp_path / "parent" / "cache"))
    return tmp_path / "parent" / "cache"


def mode(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o027, 0o277])
def test_folders_are_the_owners_alone_whatever_the_umask(cache: pathlib.Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        make_private(cache / "a" / "b")
    finally:
        os.umask(before)
    assert [mode(each) for each in (cache.parent, cache, cache / "a", cache / "a" / "b")] == [0o700] * 4


def test_folders_that_are_there_are_closed_and_those_above_the_cache_are_left(cache: pathlib.Path) -> None:
    (cache / "a").mkdir(parents=True)
    cache.parent.chmod(0o755)
    for folder in (cache, cache / "a"):
        folder.chmod(0o777)
    make_private(cache / "a")
    assert [mode(each) for each in (cache.parent, cache, cache / "a")] == [0o755, 0o700, 0o700]


def test_a_folder_above_the_cache_that_others_may_write_to_is_refused(cache: pathlib.Path) -> None:
    make_private(cache)
    cache.parent.chmod(0o777)
    with pytest.raises(UnsafeError, match=f"others may write to the folder {cache.parent}"):
        check_private(cache)
    with pytest.raises(UnsafeError):
        make_private(cache / "more")
    cache.parent.chmod(0o1777)
    check_private(cache)


@pytest.mark.parametrize("where", ["the cache", "a folder above it"])
def test_what_a_link_leads_to_is_looked_at(cache: pathlib.Path, tmp_path: pathlib.Path, where: str) -> None:
    real = tmp_path / "open" / "real"
    real.mkdir(parents=True)
    if where == "the cache":
        cache.parent.mkdir()
        cache.symlink_to("../open/real")
    else:
        cache.parent.symlink_to(real, target_is_directory=True)
    make_private(cache / "a")
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(UnsafeError, match=f"others may write to the folder {tmp_path}.*open"):
        check_private(cache / "a")


def test_a_file_and_a_missing_one(cache: pathlib.Path) -> None:
    make_private(cache)
    (cache / "file").write_bytes(b"")
    check_private(cache / "file")
    (cache / "file").chmod(0o602)
    with pytest.raises(UnsafeError, match=f"others may write to the file {cache / 'file'}"):
        check_private(cache / "file")
    with pytest.raises(FileNotFoundError):
        check_private(cache / "none")


def test_links_in_a_ring_are_an_error(cache: pathlib.Path) -> None:
    cache.parent.mkdir()
    cache.symlink_to(cache)
    with pytest.raises(OSError, match=r"links|level"):
        check_private(cache / "a")


@given(
    kind=st.sampled_from([stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK]),
    bits=st.integers(0, 0o7777),
    owner=st.sampled_from([*TRUSTED, STRANGER]),
)
def test_what_others_own_or_may_write_is_refused(kind: int, bits: int, owner: int) -> None:
    status = os.stat_result((kind | bits, 1, 1, 1, owner, STRANGER, 0, 0, 0, 0))
    written = bool(bits & 0o022) and kind != stat.S_IFLNK and not (kind == stat.S_IFDIR and bits & stat.S_ISVTX)
    if owner == STRANGER or written:
        with pytest.raises(UnsafeError, match="belongs to another user" if owner == STRANGER else "others may write"):
            check_owner(status, pathlib.Path("x"))
    else:
        check_owner(status, pathlib.Path("x"))


# Where there is no home folder.


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable names a folder, and the user has no entry in /etc/passwd, as in a container with a random user."""
    import pwd

    for variable in ("HOME", "XDG_CACHE_HOME", "DMLGRAPH_CACHE_DIR", "DMLGRAPH_DIRECTML"):
        monkeypatch.delenv(variable, raising=False)

    def no_entry(user: object) -> None:
        raise KeyError(f"getpwuid(): uid not found: {user}")

    monkeypatch.setattr(pwd, "getpwuid", no_entry)


@pytest.mark.usefixtures("homeless")
def test_a_user_without_home_is_told_which_variables_help(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoFolderError) as caught:
        user_cache_folder()
    assert caught.value.strerror == "the user has no home folder: neither HOME nor XDG_CACHE_HOME is set"
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert user_cache_folder() == pathlib.Path("/caches/dmlgraph")
    monkeypatch.setenv("DMLGRAPH_CACHE_DIR", "/own")
    assert user_cache_folder() == pathlib.Path("/own")


@pytest.mark.usefixtures("homeless")
def test_commands_without_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "SYSTEM_FOLDERS", ())
    runner = CliRunner()
    listed = runner.invoke(main, ["devices"])
    assert (listed.exit_code, listed.exception) == (0, None)
    assert "cpu " in listed.output
    with pytest.raises(LibraryError) as caught:
        install.install()
    assert caught.value.code == "install"
    assert caught.value.hint == "DMLGRAPH_CACHE_DIR names another folder"
    assert "the user has no home folder" in str(caught.value)
    with pytest.raises(DeviceError) as missing:
        choose("directml:software")
    assert "there is no DirectML library here" in str(missing.value)
    assert kernels.read("0" * 64) is None  # a kernel is compiled again
    kernels.write("0" * 64, b"code")


@pytest.mark.skipif(not hasattr(os, "setuid") or os.geteuid() != 0, reason="only root can become another user")
def test_a_user_without_an_entry() -> None:
    program = (
        "import os\nfrom dmlgraph.devices.directml import install\n"
        f"os.setuid({STRANGER})\n"
        "try:\n    install.install()\nexcept install.LibraryError as error:\n    print(error)\n"
    )
    environment = {"PATH": os.environ.get("PATH", "")}
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert "the user has no home folder: neither HOME nor XDG_CACHE_HOME is set" in done.stdout


@pytest.mark.usefixtures("homeless")
@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME", "DMLGRAPH_CACHE_DIR"])
def test_a_file_in_place_of_the_folder(variable: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv(variable, str(tmp_path / "file"))
    with pytest.raises(LibraryError, match=f"cannot install DirectML into {tmp_path / 'file'}.*File exists") as caught:
        install.install(tmp_path / "file")
    assert caught.value.code == "install"
    assert kernels.read("0" * 64) is None
    kernels.write("0" * 64, b"code")


@pytest.mark.usefixtures("homeless")
def test_the_folder_on_windows_without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    with pytest.raises(NoFolderError, match="neither USERPROFILE nor LOCALAPPDATA is set"):
        user_cache_folder()
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert user_cache_folder() == pathlib.Path("/local/dmlgraph")
