"""The operators as functions of their tensors; functions.pyi holds their signatures for type checkers and editors."""

from dmlgraph.operators.functions import all_functions, all_outputs_types

_functions = all_functions()
globals().update(_functions, **{each.__name__: each for each in all_outputs_types()})
__all__ = sorted(_functions)  # noqa: PLE0605 - a list of text
