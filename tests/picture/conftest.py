"""A headless Chromium for the tests of the page."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.picture.browser import Tab

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


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

        def complain(dialog: Any) -> None:
            tab.complaints.append(dialog.message)
            dialog.dismiss()

        page.on("dialog", complain)
        page.goto(file.as_uri())
        page.wait_for_selector("body[data-drawn]")
        tabs.append(tab)
        return tab

    yield open_
    for number, tab in enumerate(tabs):
        assert tab.complaints == []
        assert tab.requests == [(tmp_path / f"page{number}.html").as_uri()]
        tab.page.close()
