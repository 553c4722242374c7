"""Values recorded elsewhere: on another machine, by another library, by an exported program.

    golden = record(graph, "reference", inputs)     # all values, or those that are named
    golden.save("values.npz")
    finding = find(graph, "directml", golden.inputs(graph), against=Golden.load("values.npz"))

A file of ours is a .npz whose arrays have the names of references in the graph, and in `dmlgraph` the graph's digest.
One of another library is a .npz, a .safetensors file or a folder of .npy files with the names of values or outputs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.base.errors import DocumentError, GraphError, listing, suggestion
from dmlgraph.devices import Choice, choose
from dmlgraph.devices.compile import compile_ir, fuse_graph
from dmlgraph.doctor.finding import Finding, Kind
from dmlgraph.doctor.judge import RUNS, Judge
from dmlgraph.doctor.measures import Measures
from dmlgraph.doctor.values import Values, arguments, at_first, evaluate, given, operators, rounded_otherwise, written
from dmlgraph.files.mark import NOT_WRITTEN, not_ours
from dmlgraph.files.untrusted import reason
from dmlgraph.files.whole import NewFiles
from dmlgraph.formats.arrays import read_array
from dmlgraph.formats.safetensors import Archive
from dmlgraph.formats.yaml.portable import digest_of, parts
from dmlgraph.measure.exposing import batches, exposing, values_of

if TYPE_CHECKING:
    from dmlgraph.compiler.ir_node import Source
    from dmlgraph.devices.names import DeviceName
    from dmlgraph.graph.graph import Graph

Array = np.ndarray[Any, Any]

META = "dmlgraph"  # the member with the graph's digest


@dataclasses.dataclass(frozen=True, slots=True)
class Golden:
    """Values by name.

    Attributes:
        values: by reference in a graph, or by the names that another library gives them.
        digest: of the graph; empty if nothing says it.
        place: the file, for messages.
    """

    values: Mapping[str, Array]
    digest: str = ""
    place: str = ""

    @classmethod
    def load(cls, path: str | pathlib.Path) -> Golden:
        """The values in a file or a folder.  Never unpickles anything.

        Raises:
            DocumentError: it cannot be read.
        """
        path = pathlib.Path(path)
        try:
            if path.is_dir():
                files = sorted(path.rglob("*.npy"))
                found = {each.relative_to(path).with_suffix("").as_posix(): read_array(str(each)) for each in files}
            elif path.suffix == ".safetensors":
                archive = Archive(path, str(path))
                found = {name: archive.read(name) for name in archive.entries}
            else:
                with np.load(path, allow_pickle=False) as file:
                    found = {name: file[name] for name in file.files}
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            why = reason(error) if isinstance(error, OSError) else str(error)
            message = f"cannot read '{path}' as recorded values: {why}"
            hint = "a .npz, a .safetensors file, or a folder of .npy files"
            raise DocumentError(message, code="array-file", hint=hint) from None
        meta = found.pop(META, None)
        return cls(found, "" if meta is None else str(json.loads(str(meta))["digest"]), str(path))

    def save(self, path: str | pathlib.Path) -> None:
        """Writes a .npz."""
        meta = np.array(json.dumps({"digest": self.digest}))
        with NewFiles() as files, files.open(path) as stream:
            np.savez(stream, **{META: meta}, **self.values)  # type: ignore[arg-type]

    def inputs(self, graph: Graph) -> dict[str, Array]:
        """The arrays of the inputs that were recorded."""
        known = dict(self.named(graph))
        return {node.name: known[node.name] for node in graph.inputs if node.name in known}

    def check(self, graph: Graph) -> None:
        """Refuses values of another graph.

        Raises:
            GraphError: the digest is that of another graph, no name is known, or a value has another shape.
        """
        if self.digest and self.digest != digest(graph):
            hint = "record them again with 'dmlgraph golden', or leave the digest out to compare by names"
            raise GraphError(f"'{self.place}' has the values of another graph", code="other-graph", hint=hint)
        known = dict(self.named(graph))
        if not known:
            names = [graph.reference(node.name, 0) for node in graph.nodes]
            near = next((found for name in self.values if (found := suggestion(name, names))), None)
            message = f"no value in '{self.place}' has the name of one of the graph"
            raise GraphError(message, code="unknown-array", got=listing(self.values), hint=near)
        for name, value in known.items():
            sizes = graph.value(name).desc.sizes
            if value.shape != sizes:
                message = f"is recorded in '{self.place}' with another shape"
                raise GraphError(message, code="sizes", node=name, got=list(value.shape), allowed=str(list(sizes)))

    def named(self, graph: Graph) -> Iterator[tuple[str, Array]]:
        """The values that the graph has, by reference; tensors of a model have their sizes in the graph."""
        outputs = {name: value.reference for name, value in graph.outputs.items()}
        for name, value in self.values.items():
            tensor = graph.origin.tensors.get(name, "")
            if tensor and _has(graph, tensor):
                desc = graph.value(tensor).desc
                yield tensor, value.reshape(desc.sizes) if value.size == desc.element_count else value
                continue
            reference = name if _has(graph, name) else outputs.get(name)
            if reference is not None:
                yield reference, value


def check_recorded(path: pathlib.Path) -> None:
    """Refuses to overwrite a file that holds something else than recorded values.

    Raises:
        DmlGraphError: it does.
        OSError: it cannot be read.
    """
    if not path.is_file() or not path.stat().st_size:
        return
    with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        if f"{META}.npy" in archive.namelist():
            return
    raise not_ours(path, NOT_WRITTEN)


def digest(graph: Graph) -> str:
    """What tells graphs apart: the SHA-256 of the canonical document and of all constants."""
    return digest_of(*parts(graph))


def record(
    graph: Graph, device: DeviceName | Choice, inputs: Mapping[str, Array], names: Iterable[str] | None = None
) -> Golden:
    """The inputs, the outputs and the values between nodes as a device computes them, without fusion.

    Args:
        graph: with its dims resolved.
        device: where to run.
        inputs: an array for every input.
        names: references of values between nodes; by default all of them.

    Raises:
        DmlGraphError: as when compiling and running the graph, or a value does not exist.
    """
    choice = device if isinstance(device, Choice) else choose(device)
    ir = fuse_graph(graph, choice.device, fuse=False).graph
    sources = [source for source, _ in values_of(ir)]
    if names is not None:
        wanted = {(value.node, value.port) for value in map(graph.value, names)}
        ends = {(value.node, value.port) for value in graph.outputs.values()}
        sources = [source for source in sources if tuple(source) in wanted | ends]
    found: dict[str, Array] = {name: np.asarray(value) for name, value in inputs.items()}
    chosen = set(sources)
    for batch in batches(pair for pair in values_of(ir) if pair[0] in chosen):
        with compile_ir(exposing(ir, batch), choice) as executable:
            results = executable.run({**at_first(ir), **inputs})
            found |= {name: np.array(value) for name, value in results.items()}
    return Golden(found, digest(graph))


def recorded(finding: Finding, graph: Graph, inputs: Mapping[str, Array], golden: Golden) -> Finding:
    """The first node whose recorded value is not that of the recorded values before it; else how many agree.

    The nodes between are computed by the reference, which the device agrees with.
    """
    ir = fuse_graph(graph, choose("reference").device, fuse=False).graph
    known = {graph.value(name).node: value for name, value in golden.named(graph) if graph.value(name).port == 0}
    judge = Judge("directml")  # the bounds for any other implementation
    runs: list[Values] = [given(ir, {**at_first(ir), **inputs}) for _ in range(RUNS + 1)]
    rngs = [np.random.default_rng(seed) for seed in range(RUNS + 1)]
    order = [node.name for node in operators(ir)]
    since: dict[Source, tuple[str, ...]] = {}  # the nodes between a value and the recorded ones before it
    for node in operators(ir):
        before = {name for source in node.sources if source is not None for name in since.get(source, ())}
        own = before | ({node.name} if node.computation.input_fields else set())
        group = tuple(name for name in order if name in own)
        read = arguments(ir, node, runs[0])
        for index, (values, rng) in enumerate(zip(runs, rngs, strict=True)):
            arrays = arguments(ir, node, values)
            exact = evaluate(node, arrays)
            results = rounded_otherwise(node, arrays, exact, rng) if index else exact
            values.update(zip(written(node), results, strict=True))
        right = known.get(node.name)
        for source in written(node):
            since[source] = () if right is not None else group
        if right is None:
            continue
        source = written(node)[0]
        right = right.astype(runs[0][source].dtype)
        got = runs[0][source]
        through = [ir[name].computation for name in group]
        if not judge.is_near(right, [values[source] for values in runs], through):
            alone = len(group) == 1
            why = "the device computes what the graph says; the value is from elsewhere, perhaps of other weights"
            reads = {str(port): value for port, value in enumerate(read) if value is not None}
            return dataclasses.replace(
                finding,
                kind=Kind.RECORDED,
                node=node.name,
                group=() if alone else group,
                inputs=reads,
                got=(got,),
                expected=(right,),
                measures=Measures.of(got, right),
                why=why,
            )
        for values in runs:
            values[source] = right
    compared = sum(name in known for name in order)
    agrees = "1 recorded value agrees" if compared == 1 else f"{compared} recorded values agree"
    return dataclasses.replace(finding, why="\n".join(filter(None, (finding.why, agrees))))


def _has(graph: Graph, reference: str) -> bool:
    try:
        graph.value(reference)
    except GraphError:
        return False
    return True
