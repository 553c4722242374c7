"""The pages in docs/ are what their script makes of the classes."""

from __future__ import annotations

import importlib.util
import pathlib

ROOT = pathlib.Path(__file__).parent.parent


def test_operator_pages_are_up_to_date():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "tools" / "generate_operator_docs.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    folder = ROOT / "docs" / "operators"
    assert {path.name: path.read_text() for path in folder.glob("*.md")} == generate.pages()
