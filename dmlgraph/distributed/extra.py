"""The extra `distributed`: the packages that this one needs beside those of dmlgraph."""

from __future__ import annotations

import importlib

from dmlgraph.base.errors import DmlGraphError


def need(*packages: str) -> None:
    """Imports packages of the extra, such as `dask.array`, `distributed` and `zarr`.

    Raises:
        DmlGraphError: one is missing; names the extra.
    """
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise DmlGraphError(
                f"this needs the package '{error.name or package}'",
                code="extra",
                hint='pip install "dmlgraph[distributed]"',
            ) from None
