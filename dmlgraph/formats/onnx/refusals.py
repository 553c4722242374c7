"""Why nodes of a model cannot be imported, noted so that all of them are reported."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import onnx_ir as ir

from dmlgraph.base.errors import DmlGraphError, Problem


class ByDefinition(Exception):  # noqa: N818 - it is no error
    """Raised by the rules for a form of an operator that ONNX's definition by other operators serves better."""


class AlreadyNotedError(Exception):
    """A node of a function or subgraph could not be imported; its problem is noted."""


class Refusal(Exception):  # noqa: N818 - not an error of its own: it becomes a problem of a ModelError
    """Raised by the rules for a node that has no counterpart; takes the fields of a problem."""

    def __init__(self, message: str, *, code: str = "unsupported", **fields: Any) -> None:
        super().__init__(message)
        self.problem = Problem(message, code=code, **fields)


def unsupported(attribute: str, allowed: str, got: object) -> Refusal:
    """The refusal of an attribute's value."""
    return Refusal("has no counterpart in DirectML", code="unsupported", field=attribute, got=got, allowed=allowed)


def one_of(field: str, got: object, allowed: Collection[Any]) -> None:
    """Refuses an attribute's value that is not one of these."""
    if got not in allowed:
        raise unsupported(field, ", ".join(map(str, allowed)), got)


PAST = "\0"  # stands among the names of inputs for the size of a growing state's past, which is its capacity
PLACES = "\1"  # stands there for numbers that are places of rows, and not sizes
DATA = ""  # stands among the names of inputs for those that are data: a graph of known data computes nothing


def give_values(names: Iterable[str]) -> str:
    """The hint to give inputs of the model values; or why that does not help."""
    names = sorted(set(names) - {PAST, PLACES})
    if DATA in names:
        return "it is computed when the model runs"
    options = "".join(f", --value {shlex.quote(name)}=…" for name in names)
    values = ", ".join(f"'{name}': …" for name in names)
    return f"values={{{values}}}{options}" if names else "it is computed when the model runs"


class Notes:
    """The problems of a model, and the values that therefore do not exist.

    What Python itself raises in a rule is a mistake of ours, and no problem of the model: the campaign `onnx_schemas`
    finds them.

    Attributes:
        problems: those found.
        broken: the values.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.broken: set[ir.Value] = set()

    @contextlib.contextmanager
    def noting(self, label: str, *outputs: ir.Value, said: str = "") -> Iterator[None]:
        """Notes what refuses something inside.

        Args:
            label: of the node, the input or the weight.
            outputs: what is broken then.
            said: put in front of messages.
        """
        try:
            yield
            return
        except AlreadyNotedError:
            pass
        except Refusal as refusal:
            self._note(label, said, refusal.problem)
        except DmlGraphError as error:
            for problem in error.problems:
                self._note(label, said, problem)
        except ir.serde.SerdeError:
            self._note(label, said, Problem("the node does not fit its inputs or attributes", code="model"))
        self.broken.update(outputs)

    def _note(self, label: str, said: str, problem: Problem) -> None:
        if problem.code in ("dtype", "level") and str(problem.got) == "float64":
            problem = dataclasses.replace(problem, hint="convert={'double': 'float32'} converts it")
        self.problems.append(dataclasses.replace(problem, node=label, message=f"{said}{problem.message}"))
