"""The pytest plugin: runs the tests in graph files, and has the fixture `dmlgraph_device`.

    [tool.pytest.ini_options]
    dmlgraph_files = ["examples/**/*.yaml"]

`dmlgraph_files` lists globs, relative to the folder of the ini file.  Without it nothing is collected, and nothing of
dmlgraph is imported except this module: every pytest run of an environment with dmlgraph imports it.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dmlgraph.testing.run import Case, Runner

FILES, DEVICES, FIXTURE = "dmlgraph_files", "dmlgraph_devices", "dmlgraph_device"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        FILES, "globs of graph files whose tests are run, relative to the folder of this file", "linelist", []
    )
    parser.addini(DEVICES, f"devices of the fixture {FIXTURE}; by default every device that has a name", "args", [])


def pytest_collect_file(file_path: pathlib.Path, parent: pytest.Collector) -> GraphFile | None:
    globs = parent.config.getini(FILES)
    if not globs or file_path.suffix.lower() not in (".yaml", ".yml"):
        return None
    folder = parent.config.rootpath if parent.config.inipath is None else parent.config.inipath.parent
    if any(_pattern(folder, glob).fullmatch(file_path.as_posix()) for glob in globs):
        return GraphFile.from_parent(parent, path=file_path)
    return None


def _pattern(folder: pathlib.Path, glob: str) -> re.Pattern[str]:
    """A glob as an expression for paths: `**` is any number of folders, `*` and `?` do not match `/`."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^]]+\])", f"{folder.as_posix().rstrip('/')}/{glob}")
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    text = "".join(
        known.get(part) or (part.replace("[!", "[^") if index % 2 else re.escape(part))
        for index, part in enumerate(parts)
    )
    return re.compile(text, re.IGNORECASE if os.name == "nt" else re.NOFLAG)


class GraphFile(pytest.File):
    """A graph file: its tests, each on its devices."""

    _runner: Runner | None = None

    def collect(self) -> Iterator[GraphItem]:
        from dmlgraph.base.errors import DmlGraphError
        from dmlgraph.formats.yaml import load
        from dmlgraph.testing.run import Runner, cases

        try:
            graph = load(self.path)
        except DmlGraphError as error:
            raise self.CollectError(str(error)) from None
        self._runner = Runner(graph)
        for case in cases(graph):
            yield GraphItem.from_parent(self, name=case.name, case=case)

    @property
    def runner(self) -> Runner:
        assert self._runner is not None
        return self._runner

    def teardown(self) -> None:
        self.runner.close()


class TestFailedError(Exception):
    """A test of a graph file failed; the text is the report."""

    __test__ = False  # pytest would take it for a class of tests


class GraphItem(pytest.Item):
    """A test of a graph file on one device."""

    parent: GraphFile

    def __init__(self, *, case: Case, **more: Any) -> None:
        super().__init__(**more)
        self.case = case

    def runtest(self) -> None:
        from dmlgraph.testing.records import Outcome

        result = self.parent.runner.run(self.case)
        if result.outcome is Outcome.SKIPPED:
            raise pytest.skip.Exception(result.report, _use_item_location=True)  # the place of the test, not this one
        if result.outcome is Outcome.FAILED:
            raise TestFailedError(result.report)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *more: Any) -> Any:
        if isinstance(excinfo.value, TestFailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, *more)

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        return self.path, self.case.test.location.line - 1, self.name


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrizes the fixture `dmlgraph_device`, unless the test does that itself."""
    if FIXTURE not in metafunc.fixturenames:
        return
    given = (mark.args[0] for mark in metafunc.definition.iter_markers("parametrize") if mark.args)
    names = {name.strip() for each in given for name in (each.split(",") if isinstance(each, str) else each)}
    if FIXTURE not in names:
        from dmlgraph.devices import FIXED_NAMES

        devices = metafunc.config.getini(DEVICES) or [name for name in FIXED_NAMES if name != "auto"]
        metafunc.parametrize(FIXTURE, devices, indirect=True)


@pytest.fixture
def dmlgraph_device(request: pytest.FixtureRequest) -> str:
    """The name of a device that is here; for another the test is skipped, with the device's own reason."""
    from dmlgraph.base.errors import DeviceError
    from dmlgraph.devices import check_name, choose

    name: str = request.param
    check_name(name)
    try:
        choose(name)
    except DeviceError as error:
        pytest.skip(f"'{name}' is not here: {error.problems[0].message}")
    return name
