"""Native code that tests make is kept apart from the user's."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite", reason="the software adapter needs the extra `software`")


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    """A cache folder of the test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("DMLGRAPH_CACHE_DIR", str(folder))
    return folder
