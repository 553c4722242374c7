"""The folder in which dmlgraph keeps what it can make or fetch again: per user, shared by processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "DMLGRAPH_CACHE_DIR"


def user_cache_folder() -> Path:
    """DMLGRAPH_CACHE_DIR, or the `dmlgraph` folder where the system keeps caches; it may not exist yet."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "dmlgraph"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dmlgraph"
