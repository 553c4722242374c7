"""What goes wrong in the software adapter."""

from __future__ import annotations

from dmlgraph.errors import DmlGraphError


class SoftwareAdapterError(DmlGraphError):
    """The software adapter cannot be used here: a library or a package is missing or does not fit."""

    CODE = "software-adapter"


class ShaderError(DmlGraphError):
    """A shader is damaged, or uses something the compiler does not translate; the text names it."""

    CODE = "shader"
