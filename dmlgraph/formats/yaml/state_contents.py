"""What a test beside a graph says of states: what they hold before its runs, or after them.

    count: {value: 3}          keys: {data: [[1, 2], [3, 4]]}          values: {random: {seed: 0}, length: 10}

A growing state has as many rows as the numbers or the file have; `length` says it for contents of any size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from dmlgraph.base.errors import GraphError, plural
from dmlgraph.base.report import Report
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.formats.arrays import Array, Folder, load_file
from dmlgraph.formats.text_tree.tree import Tree
from dmlgraph.formats.yaml.contents import KINDS, Content, placing, read_content
from dmlgraph.graph.dims import Dims

LENGTH = "length"
SAY_ROWS = ("data", "file")  # contents that have a number of rows


@dataclasses.dataclass(frozen=True, slots=True)
class StateContent:
    """The content of a state.

    Attributes:
        content: of all of it, or of the rows of a growing state.
        tree: its mapping, with `length` where that is given.
    """

    content: Content
    tree: Tree

    @property
    def length(self) -> Tree | None:
        """How many rows the content has; None if its numbers or its file say it."""
        given: Tree | None = self.tree.value.get(LENGTH)
        return given

    def array(self, desc: TensorDesc, grows: int | None, dims: Mapping[str, int], name: str) -> Array:
        """The array of a state of this description, which grows along an axis or does not.

        Raises:
            GraphError: the content does not fit the state, or its file cannot be read.
        """
        rows = self._rows(desc, grows, dims)
        if rows is None or grows is None:
            return self.content.array(desc, dims, name)
        sizes = (*desc.sizes[:grows], rows, *desc.sizes[grows + 1 :])
        if not rows:
            return np.zeros(sizes, desc.dtype.numpy)
        return self.content.array(TensorDesc(dtype=desc.dtype, sizes=sizes), dims, name)

    def check(self, desc: TensorDesc, grows: int | None, dims: Mapping[str, int]) -> None:
        """Checks whether the content fits a state, without a look at files; raises as `array`."""
        if self.content.kind == "data":
            self.array(desc, grows, dims, "")
        elif self.content.kind != "file":
            self._rows(desc, grows, dims)
            self.content.check(desc, dims)

    def _rows(self, desc: TensorDesc, grows: int | None, dims: Mapping[str, int]) -> int | None:
        """The number of rows of a growing state; None for another state."""
        with placing(self.tree, self.content.field):
            if grows is None:
                if self.length is not None:
                    raise GraphError("the state does not grow", code="conflict", field=LENGTH, got=self.length.plain)
                return None
            capacity = desc.sizes[grows]
            rows = self._of_content(desc, grows) if self.length is None else self._given(self.length, dims)
            if isinstance(rows, bool) or not isinstance(rows, int) or not 0 <= rows <= capacity:
                field = self.content.kind if self.length is None else LENGTH
                message = "is not a number of rows of the state"
                raise GraphError(message, code="range", field=field, got=rows, allowed=f"0 to {capacity}")
            if self.length is not None and self.content.kind in SAY_ROWS:
                self._check_rows(self._of_content(desc, grows), rows)
            return rows

    def _check_rows(self, has: int, length: int) -> None:
        if has != length:
            got, allowed = plural(has, "row"), f"{length}, as 'length' says"
            raise GraphError(
                "has another number of rows", code="sizes", field=self.content.kind, got=got, allowed=allowed
            )

    def _given(self, length: Tree, dims: Mapping[str, int]) -> object:
        with Report(GraphError) as report:
            return Dims(dims).resolve(length.plain, LENGTH, report, whole=True)

    def _of_content(self, desc: TensorDesc, grows: int) -> int:
        """How many rows the numbers or the file have."""
        kind = self.content.kind
        if kind not in SAY_ROWS:
            hint = "such as length: 2"
            raise GraphError("must be given: the number of rows", code="missing", field=LENGTH, hint=hint)
        if kind == "file":
            shape = load_file(self.content.file, self.content.folder).shape
            return shape[grows] if len(shape) == desc.rank else desc.sizes[grows]  # else `array` refuses it
        numbers, row = _count(self.content.tree.value["data"]), desc.element_count // desc.sizes[grows]
        if numbers % row:
            got, allowed = plural(numbers, "number"), f"a multiple of {row}"
            raise GraphError(
                "the data does not fill its last row", code="sizes", field="data", got=got, allowed=allowed
            )
        return numbers // row


def read_state_content(
    tree: Tree, field: str, kinds: tuple[str, ...], folder: Folder, report: Report
) -> StateContent | None:
    """The content in a tree; where it has no content, adds a problem and returns None; see `read_content`."""
    rest = tree
    if isinstance(tree.value, dict) and LENGTH in tree.value and not tree.value.keys().isdisjoint(KINDS):
        rest = tree.copy()
        del rest.value[LENGTH], rest.keys[LENGTH]
    content = read_content(rest, field, kinds, folder, report)
    return None if content is None else StateContent(content, tree)


def _count(tree: Tree) -> int:
    """The numbers in nested lists."""
    return sum(map(_count, tree.value)) if isinstance(tree.value, list) else 1
