"""Notes what refuses the nodes of a model, so that all of them are reported."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import onnx_ir as ir

from dmlgraph.base.errors import DmlGraphError, Problem
from dmlgraph.formats.onnx.refusals import AlreadyNotedError, Refusal

# What Python raises in rules for numbers that do not fit one another.  Each is a check that the rule lacks; the
# campaign `onnx_schemas` finds them.
_DAMAGED = (ArithmeticError, LookupError, ValueError, ir.serde.SerdeError)
# Of operators without a schema the attributes and inputs are not checked: any may have another type or be missing.
_UNCHECKED = (AttributeError, TypeError)


class Notes:
    """The problems of a model, and the values that therefore do not exist.

    Attributes:
        problems: those found.
        broken: the values.
        cause: the first error of Python's own among what was noted; None as it should be.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.cause: Exception | None = None
        self.broken: set[ir.Value] = set()

    @contextlib.contextmanager
    def noting(self, label: str, *outputs: ir.Value, said: str = "", checked: bool = True) -> Iterator[None]:
        """Notes what refuses something inside.

        Args:
            label: of the node, the input or the weight.
            outputs: what is broken then.
            said: put in front of messages.
            checked: whether a schema was checked; then a TypeError or an AttributeError is a mistake of ours.
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
        except (*_DAMAGED, *_UNCHECKED) as error:
            if checked and not isinstance(error, _DAMAGED):
                raise
            self.cause = self.cause or error
            self._note(label, said, Problem("the node does not fit its inputs or attributes", code="model"))
        self.broken.update(outputs)

    def _note(self, label: str, said: str, problem: Problem) -> None:
        if problem.code in ("dtype", "level") and str(problem.got) == "float64":
            problem = dataclasses.replace(problem, hint="convert={'double': 'float32'} converts it")
        self.problems.append(dataclasses.replace(problem, node=label, message=f"{said}{problem.message}"))
