"""A headless Chromium for the tests of the page."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


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


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser; tests that need it are skipped without one."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = os.environ.get("DMLGRAPH_CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"there is no Chromium here: none of {', '.join(PROGRAMS)} on the path")
    with playwright.sync_playwright() as driver:
        # Its sandbox does not start for root, who runs tests in containers; the pages are our own.
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium: Any, tmp_path: pathlib.Path) -> Iterator[Callable[[str], Tab]]:
    """Opens a page's text from a file; afterwards checks that it reported no errors and requested nothing else."""
    tabs: list[Tab] = []

    def open_(text: str, **options: Any) -> Tab:
        file = tmp_path / f"page{len(tabs)}.html"
        file.write_text(text, encoding="utf-8")
        page = chromium.new_page(viewport={"width": 1400, "height": 900}, **options)
        tab = Tab(page, [], [])
        page.on("console", lambda message: tab.complaints.append(message.text))
        page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        page.on("request", lambda request: tab.requests.append(request.url))
        page.on("dialog", lambda dialog: (tab.complaints.append(dialog.message), dialog.dismiss()))
        page.goto(file.as_uri())
        page.wait_for_selector("body[data-drawn]")
        tabs.append(tab)
        return tab

    yield open_
    for number, tab in enumerate(tabs):
        assert tab.complaints == []
        assert tab.requests == [(tmp_path / f"page{number}.html").as_uri()]
        tab.page.close()
