"""Hooks of MkDocs for building the documentation (mkdocs.yml names this file under `hooks`).

Pictures: the site has them as SVG (`tools/generators/pictures.py`).

Examples: the files of examples/ are part of the site, and their README is a page of it.

Navigation: the families of operators are listed as they are found.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from generators import pictures

ROOT = pathlib.Path(__file__).parent.parent


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation, with the families of operators."""
    families = sorted(path.name for path in (ROOT / "docs" / "operators").glob("*.md") if path.name != "README.md")
    for entry in config.nav or []:
        if isinstance(entry, dict) and "Operators" in entry:
            entry["Operators"] += [f"operators/{name}" for name in families]
    return config


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """The site's files, with those of the examples."""
    for path in sorted((ROOT / "examples").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            name = path.relative_to(ROOT).as_posix()
            files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """A page with its pictures drawn, and with links that fit the site's folders."""
    if page.file.src_uri == "examples/README.md":
        markdown = markdown.replace("](../README.md)", "](../tutorial.md)")
    return pictures.with_svg(markdown.replace("](../examples/", "](examples/"))
