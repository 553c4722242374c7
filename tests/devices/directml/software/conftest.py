"""Native code that tests compile is kept in separate folders."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite", reason="the software adapter needs the extra `software`")


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    """A cache folder for one test."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("DMLGRAPH_CACHE_DIR", str(folder))
    return folder
