"""A page in a browser, for the tests of pages."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import numpy as np


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

    def colour_in(self, name: str) -> tuple[int, ...]:
        """The colour in a screenshot in the lower right corner of a box, where no text is."""
        where = f"""(() => {{ const view = views[0], box = everyBox(view.scene).find((each) => each.name === {name!r});
            const [dx, dy] = origin(box);
            const right = box.x + dx + box.w / 2, bottom = box.y + dy + box.h / 2;
            return [right - 5 - view.x, bottom - 5 - view.y].map((at) => at * view.scale);
            }})()"""
        x, y = map(round, self.page.evaluate(where))
        return tuple(map(int, pixels(self.look())[y, x]))

    def look(self, view: int = 0) -> bytes:
        """A screenshot of a view."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        picture: bytes = self.page.locator("canvas").nth(view).screenshot()
        return picture


def pixels(screenshot: bytes) -> np.ndarray[Any, Any]:
    """Red, green and blue of each pixel: row, column, colour."""
    from PIL import Image  # only needed with a browser

    return np.asarray(Image.open(io.BytesIO(screenshot)).convert("RGB"))
