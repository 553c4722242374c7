"""What goes wrong in the software adapter."""

from __future__ import annotations

from dmlgraph.base.errors import DmlGraphError


class SoftwareAdapterError(DmlGraphError):
    """The software adapter cannot be used here: a library or package is missing or not supported."""

    CODE = "software-adapter"


class ShaderError(DmlGraphError):
    """A shader is damaged, or uses something that the compiler does not translate; the message names it."""

    CODE = "shader"
