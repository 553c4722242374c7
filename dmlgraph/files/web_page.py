"""Self-contained pages of HTML: data as JSON, and a program that shows it.  They need no network.

The content security policy of a page allows only its own program and style.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any


def page(package: str, title: str, data: Any, *, style: str = "", programs: Sequence[str] = ("page.js",)) -> str:
    """The page of a package's files `page.html`, which is inside the body, `page.css`, and those of the program.

    Args:
        package: the name of the package.
        title: of the page, as plain text.
        data: what JSON can express, for the program.
        style: CSS before that of the file.
        programs: the files of the program, which is one: each knows what those before it declare.
    """
    style += _file(package, "page.css")
    program = "\n".join(_file(package, name) for name in programs)
    # Characters that could end the enclosing element, or a line of a script, are escaped.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    parts = {
        "title": escape(title),
        "policy": f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(program)}'; img-src data:",
        "style": style,
        "program": program,
        "data": text.translate({ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}),
    }
    body = _filled(_file(package, "page.html"), parts)
    return _filled(_file("dmlgraph.files", "web_page.html"), parts | {"body": body})


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """A template with a part in the place of each `{{name}}`."""
    before, *pieces = template.split("{{")
    return before + "".join(parts[name] + rest for name, _, rest in (piece.partition("}}") for piece in pieces))


def _file(package: str, name: str) -> str:
    return importlib.resources.files(package).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
