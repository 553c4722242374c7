"""Notes what refuses the nodes of a model, so that all of them are reported."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import onnx_ir as ir

from dmlgraph.base.errors import DmlGraphError, Problem
from dmlgraph.formats.onnx.refusals import AlreadyNotedError, Refusal


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
