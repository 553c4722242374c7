"""Every code block of the documentation runs, and prints what the page says."""

from __future__ import annotations

import pathlib

import pytest
from support import pages

PATHS = {path.relative_to(pages.DOCS).as_posix(): path for path in pages.paths()}


@pytest.mark.parametrize("name", PATHS)
def test_blocks_run_and_print_what_is_shown(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    text = PATHS[name].read_text(encoding="utf-8")
    if "directml:software" in text:
        request.getfixturevalue("directml_path")
    for answer in pages.run(text, tmp_path, monkeypatch):
        answer.check()


@pytest.mark.parametrize("name", PATHS)
def test_every_block_says_what_it_is(name: str) -> None:
    for block in pages.blocks(PATHS[name].read_text(encoding="utf-8")):
        assert block.language in pages.LANGUAGES, f"line {block.line}"


class TestIsShown:
    @pytest.mark.parametrize(
        ("shown", "printed"),
        [
            ("a\nb\n", "a\nb\n"),
            ("took … ms\n", "took 1.25 ms\n"),
            ("a\n…\nz\n", "a\nb\nc\nz\n"),
            ("a\n…\n", "a\nb\n"),
            ("a\n", "a  \n\n"),
        ],
    )
    def test_same(self, shown: str, printed: str) -> None:
        assert pages.is_shown(shown, printed)

    @pytest.mark.parametrize(
        ("shown", "printed"),
        [
            ("a\n", "b\n"),
            ("a\n", "a\nb\n"),
            ("a\nb\n", "a\n"),
            ("took … ms\n", "took 1 s\n"),
            ("took … ms\n", "took 1\n ms\n"),
            ("", "a\n"),
        ],
    )
    def test_different(self, shown: str, printed: str) -> None:
        assert not pages.is_shown(shown, printed)

    def test_numbers_that_vary(self) -> None:
        assert pages.is_shown("run   1.5 ms\n", "run 12.25 ms\n", numbers=False)
        assert not pages.is_shown("run 1.5 ms\n", "walk 1.5 ms\n", numbers=False)


class TestBlocks:
    def test_output_stands_right_below(self) -> None:
        first, _, second, _ = pages.blocks(
            "```python\na\n```\n\n```text\n1\n```\n```python\nb\n```\n\nwords\n\n```text\n2\n```\n"
        )
        assert first.output == "1\n"
        assert second.output is None

    def test_titles_and_notes(self) -> None:
        (block,) = pages.blocks('<!-- refused: a tab -->\n\n```yaml title="a.yaml" hl_lines="2"\nx\n```\n')
        assert (block.language, block.title, block.note, block.line) == ("yaml", "a.yaml", "refused", 3)
