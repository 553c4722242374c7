"""Generated documentation equals the output of its scripts; its lists are complete."""

from __future__ import annotations

import os
import pathlib
import pkgutil
import re
import subprocess
import sys
from typing import Any

import pytest
from support.pages import DOCS, ROOT, paths

sys.path.insert(0, str(ROOT / "tools"))

import generate
from generators import pictures

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType
from dmlgraph.cli.commands import COMMANDS
from dmlgraph.formats.yaml.schema import schema
from dmlgraph.passes import RULES

PAGES = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in paths()}


@pytest.mark.usefixtures("directml_path")  # some errors are DirectML's
def test_generated_files_are_up_to_date() -> None:
    """In a process of its own: tests declare operators and devices, too."""
    command = [sys.executable, "-P", str(ROOT / "tools" / "generate.py"), "--check"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tools")}
    environment.pop("DMLGRAPH_SOFTWARE_STRICT")  # messages of an adapter that validates are a part of errors
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), "python tools/generate.py makes them anew"


def test_the_readme_shows_its_picture() -> None:
    assert f"](docs/{pictures.README_PICTURE.name})" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_check_writes_nothing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    file = tmp_path / "made.txt"
    monkeypatch.setattr(generate, "TOOLS", tmp_path / "tools")
    monkeypatch.setattr(pictures, "files", lambda: {file: "new"})
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check", "pictures"])
    assert generate.main() == 1
    assert not file.exists()
    assert capsys.readouterr().out == "made.txt is not up to date\n"
    monkeypatch.setattr(sys, "argv", ["generate.py", "pictures"])
    assert generate.main() == 0
    assert file.read_text(encoding="utf-8") == "new"
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check", "pictures"])
    assert generate.main() == 0


def test_every_command_is_in_the_first_table_of_the_commands() -> None:
    for name in COMMANDS:
        assert f"| `dmlgraph {name}" in PAGES["commands.md"]


def test_pictures_become_svg() -> None:
    text = pictures.with_svg(PAGES["tutorial.md"])
    assert text.count("<svg") == 2
    assert "```mermaid" not in text


def test_every_rule_has_a_section_with_its_effect() -> None:
    for name, rule in RULES.items():
        section = PAGES["passes.md"].partition(f"\n### {name}\n")[2].partition("\n### ")[0]
        assert rule.summary in section
        assert rule.effect in section
        assert ("- On by default." in section) == rule.default


def test_every_command_has_a_section() -> None:
    for name in COMMANDS:
        assert f"\n## dmlgraph {name}\n" in PAGES["commands.md"]


def test_the_format_page_has_every_key_data_type_and_level() -> None:
    sections = schema()["properties"]
    constants = [set(form["properties"]) for form in sections["constants"]["additionalProperties"]["anyOf"]]
    keys = {*sections, *sections["inputs"]["additionalProperties"]["properties"], *set().union(*constants)}
    for word in (*keys, *map(str, DataType)):
        assert f"`{word}`" in PAGES["format.md"], word
    assert f'"{max(FeatureLevel)}"' in PAGES["format.md"]


def test_every_hresult_that_has_a_name_is_explained() -> None:
    values = dict(
        re.findall(r"HRESULT (\w+) = hresult\((0x\w+)\)", (ROOT / "native/abi/base.h").read_text(encoding="utf-8"))
    )
    named = re.findall(r"\{(\w+), \"\1\"\}", (ROOT / "native/directml/error.cpp").read_text(encoding="utf-8"))
    assert len(named) > 15
    for name in set(named) - {"S_OK", "E_ABORT"}:
        assert f"| `{values[name]}` | `{name}` |" in PAGES["troubleshooting.md"]


@pytest.mark.parametrize("name", re.findall(r"^::: ([\w.]+)$", PAGES["api.md"], re.MULTILINE))
def test_what_the_api_page_names_is_there(name: str) -> None:
    assert pkgutil.resolve_name(name) is not None


def links() -> list[tuple[str, str]]:
    return [(name, link) for name, text in PAGES.items() for link in re.findall(r"\]\(([^)\s]+)\)", text)]


@pytest.mark.parametrize(("name", "link"), sorted(set(links())))
def test_links_lead_to_files_that_are_there(name: str, link: str) -> None:
    """Links in the plain files; the site's links are checked when it is built."""
    target, _, anchor = link.partition("#")
    page = DOCS / name
    path = (page.parent / target) if target else page
    assert path.exists()
    if anchor:
        headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_site_names_every_page() -> None:
    listed = re.findall(r"^ +- (?:.*\[)?([\w/]+\.md)", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    written = {name for name in PAGES if pathlib.PurePath(name).parent.name != "operators"}
    assert set(listed) - {"examples/README.md", "operators/README.md"} == written
