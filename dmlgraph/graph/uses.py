"""What is done with a graph that is built: compiling, training, saving, showing.

Higher folders do it.  Nothing here imports them.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from dmlgraph.base.by_name import above
from dmlgraph.base.errors import Problem
from dmlgraph.graph import lint
from dmlgraph.graph.hinted import Hinted
from dmlgraph.graph.value import Value

if TYPE_CHECKING:
    from dmlgraph.compiler.desc import GraphDesc
    from dmlgraph.devices.executable import Executable
    from dmlgraph.devices.names import DeviceName
    from dmlgraph.graph.graph import Graph
    from dmlgraph.training.optimizers import Optimizer


class UsableGraph(Hinted):
    """The part of a `Graph` that hands it to others."""

    @property
    def _graph(self) -> Graph:
        return cast("Graph", self)

    def __reduce__(self) -> tuple[Any, ...]:
        """The canonical document: other processes, and other versions of dmlgraph, know nothing else of a graph."""
        restore, content = above("formats.yaml.portable:pickled", self._graph)
        return restore, content

    def warnings(self) -> list[Problem]:
        """Probable mistakes that are legal, such as a node on which no output depends; see `dmlgraph.graph.lint`."""
        return lint.warnings(self._graph)

    def lower(self, *, fuse: bool | Iterable[str] = True) -> GraphDesc:
        """The graph in the form that DirectML gets; see `dmlgraph.compiler.lowering`.  `fuse` is as in `compile`."""
        _, desc = above("devices.compile:lower_graph", self._graph, fuse=fuse)
        lowered: GraphDesc = desc
        return lowered

    def compile(
        self,
        device: DeviceName = "auto",
        *,
        fuse: bool | Iterable[str] = True,
        dims: Mapping[str, int] | None = None,
        threads: int | None = None,
        debug: bool = False,
        metacommands: bool = True,
        half_precision: bool = False,
    ) -> Executable:
        """Compiles the graph for a device: "auto", "cpu", "reference", "directml", "directml:1", "directml:software".

        Args:
            device: where to run; `auto` chooses a hardware DirectML adapter if there is one, else `cpu`.
            fuse: whether to fuse nodes first (`dmlgraph.compiler.passes`): True: all rules that are on by default;
                False: no rules; else the rules of these names.
            dims: other values for the graph's dims.
            threads: the number of threads for a run on `cpu`; by default DMLGRAPH_THREADS, or one per processor.
            debug: require the device's own checks and messages.  Those of Direct3D 12 can only be switched on before
                the process first uses it: by the first compilation, or by DMLGRAPH_DEBUG=1.
            metacommands: whether DirectML may use the driver's own implementations of operators, which are faster, and
                differ from driver to driver.
            half_precision: whether DirectML may compute float32 in float16 where the hardware is faster so.  `cpu` and
                `reference` have neither: they compute the same with all permissions.
        """
        graph = self._graph if dims is None else self._graph.with_dims(dims)
        permissions = {"metacommands": metacommands, "half_precision": half_precision}
        choice = above("devices:choose", device, threads=threads, debug=debug, **permissions)
        executable: Executable = above("devices.compile:compile_graph", graph, choice, fuse=fuse, debug=debug)
        return executable

    def minimize(
        self,
        loss: Value,
        parameters: Sequence[Value | str],
        optimizer: Optimizer,
        *,
        straight_through: bool = False,
        recompute: Literal["cheap"] | None = None,
    ) -> None:
        """Makes each run a step of training: parameters go where the loss is less.

        Args:
            loss: one float.
            parameters: states, of float32 or float16, without next values, or their names, in which `*` stands for any
                text; what the loss needs besides stays as it is.  Those of float16 are float32 together with what the
                optimizer keeps beside them.
            optimizer: `dg.SGD`, `dg.Adam` or `dg.AdamW`.  What it keeps are states too, in the scope `optimizer`.
            straight_through: whether rounding counts as the identity, as in `dg.gradient`.
            recompute: "cheap": less memory for more work, as in `dg.gradient`.

        Raises:
            GraphError: a parameter is not such a state, the optimizer's rate does not fit, or `dg.gradient` refuses.
        """
        given = {"straight_through": straight_through, "recompute": recompute}
        above("training.minimize:minimize", self._graph, loss, parameters, optimizer, **given)

    def save(self, path: str | pathlib.Path, *, force: bool = False) -> None:
        """Writes the graph as a graph file, an ONNX model or a model for DxDispatch: `.yaml`, `.onnx`, `.json`.

        Large constants go into files beside it.  `force` overwrites a graph file that somebody has changed, too.
        """
        above("formats.load_save:save", self._graph, path, force=force)

    def _repr_svg_(self) -> str:
        """The picture that Jupyter shows; large graphs are folded.  See `dmlgraph.picture`."""
        return str(above("picture:notebook", self._graph))
