"""A page in a browser, for the tests of pages."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass
class Tab:
    """A page in the browser, and the messages on its console."""

    page: Any
    complaints: list[str]
    requests: list[str]

    @property
    def fields(self) -> dict[str, str]:
        """What the panel shows about the selected node or edge."""
        whats, texts = (self.page.locator(f"#panel {tag}").all_inner_texts() for tag in ("dt", "dd"))
        return dict(zip(whats, texts, strict=True))

    @property
    def heading(self) -> str:
        return self.page.locator("#panel h1").inner_text() if self.page.locator("#panel h1").count() else ""

    def find(self, words: str) -> None:
        self.page.keyboard.press("/")
        self.page.keyboard.type(words)
        self.page.keyboard.press("Enter")

    def click(self, right: float = 0, down: float = 0, view: int = 0) -> None:
        """Clicks at this distance from the middle of a view."""
        box = self.page.locator("canvas").nth(view).bounding_box()
        self.page.mouse.click(box["x"] + box["width"] / 2 + right, box["y"] + box["height"] / 2 + down)

    def look(self, view: int = 0) -> bytes:
        """A screenshot of a view."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        picture: bytes = self.page.locator("canvas").nth(view).screenshot()
        return picture
