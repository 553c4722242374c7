"""`dmlgraph export`: a graph as a model for other programs, or as C++."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from dmlgraph.base.report import Report
from dmlgraph.cli.array_options import ArrayFile, as_declared, with_inputs
from dmlgraph.cli.graph_files import load_graph
from dmlgraph.cli.model_options import each_size, with_sizes
from dmlgraph.cli.options import with_force, with_output, writing
from dmlgraph.cli.parameter_types import GRAPH

if TYPE_CHECKING:
    from dmlgraph.base.levels import FeatureLevel
    from dmlgraph.compiler.ir import IrGraph
    from dmlgraph.graph.graph import Graph

JSON = ".json"
SUFFIXES = (".onnx", JSON)
FUSED_SUFFIXES = (JSON, ".yaml", ".yml")
CPP = "cpp"


def _parse_level(_: click.Context, __: click.Parameter, given: str | None) -> FeatureLevel | None:
    from dmlgraph.base.errors import GraphError
    from dmlgraph.base.levels import FeatureLevel

    if given is None:
        return None
    try:
        return FeatureLevel.parse(given)
    except GraphError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("files", metavar="FILE…", type=GRAPH, nargs=-1, required=True)
@with_output(
    "The model to write: .onnx, .json for DxDispatch, with --fuse also .yaml; with --to cpp a folder.",
    type=click.Path(path_type=pathlib.Path),
    required=True,
)
@click.option("--to", type=click.Choice([CPP]), help="Write C++ for Direct3D 12 into a folder.")
@click.option(
    "--fuse/--no-fuse", default=None, help="Fuse the nodes, or not: by default C++ is fused, and a model is not."
)
@click.option(
    "--level",
    metavar="LEVEL",
    callback=_parse_level,
    help="With --to cpp: the highest feature level of the machines that will run it; by default the graph's.",
)
@click.option(
    "--self-check",
    is_flag=True,
    help="With --to cpp: make every node an output, and add a program that prints the first one that is wrong.",
)
@with_force
@with_inputs
@with_sizes("with --to cpp make a graph")
def export(
    files: tuple[pathlib.Path, ...],
    output: pathlib.Path,
    to: str | None,
    fuse: bool | None,
    level: FeatureLevel | None,
    self_check: bool,
    force: bool,
    inputs: dict[str, ArrayFile],
    dims: dict[str, list[int]],
) -> None:
    """Convert a graph file to a model for other programs, or to C++.

    The suffix of the output says which: .onnx for ONNX, .json for DxDispatch, DirectML's command-line runner.  In an
    ONNX model constants above 1 MB are in a file beside it.  All nodes that ONNX cannot express are reported, with
    reasons.  ONNX needs the extra onnx: pip install "dmlgraph[onnx]".

    In a model for DxDispatch every operator is a dispatchable and every value a buffer, and the outputs are printed.
    Inputs are zeros, except those of --input; large arrays go into .npy files beside it.

    --fuse writes what DirectML would run: every node after fusion, with its fields.  A .json has it for DxDispatch; a
    .yaml is a graph file with the key 'fused', which is not fused again.

    With --to cpp the output is a folder: a class that records the graph on a command list of Direct3D 12, its weights,
    a program that runs it, and a README.md with the steps.  Several files, or several sizes of a dim, become graphs
    over the same weights, a folder each.  --self-check takes --input, or random numbers.

    \b
    Examples:
      dmlgraph export examples/ramp.yaml -o ramp.onnx
      dmlgraph export examples/ramp.yaml -o ramp.json --dim N=1 --input x=examples/ramp.x.npy
      dmlgraph export examples/ramp.yaml -o fused.yaml --fuse
      dmlgraph export examples/digits/digits.yaml --to cpp -o digits_cpp
      dmlgraph export examples/ramp.yaml --to cpp --self-check -o ramp_check
      dmlgraph export examples/digits/digits.yaml --to cpp -o digits_cpp --dim N=1,4
    """
    if to == CPP:
        choices = _Choices(fuse is not False, level, self_check, inputs, force)
        _export_cpp(files, output, choices, dims)
        return
    for given, option in ((level is not None, "--level"), (self_check, "--self-check")):
        if given:
            raise click.BadParameter("is for --to cpp", param_hint=option)
    _check_model(files, output, dims, fuse=bool(fuse), has_inputs=bool(inputs))
    from dmlgraph.formats.dxdispatch import writer
    from dmlgraph.formats.load_save import save

    graph = load_graph(files[0], {name: sizes[0] for name, sizes in dims.items()})
    write: Callable[..., object] = save
    if inputs:
        write = functools.partial(writer.save, inputs=as_declared(graph, inputs))
    with writing(output), Report(place=graph.origin.located):
        write(_fused(graph) if fuse else graph, output, force=force)


def _check_model(
    files: Sequence[pathlib.Path],
    output: pathlib.Path,
    dims: Mapping[str, Sequence[int]],
    *,
    fuse: bool,
    has_inputs: bool,
) -> None:
    """Refuses what a model in one file cannot have.

    Raises:
        BadParameter: it is given.
    """
    if has_inputs and output.suffix.lower() != JSON:
        raise click.BadParameter(f"is for {JSON} and --to cpp", param_hint="--input")
    allowed = FUSED_SUFFIXES if fuse else SUFFIXES
    if output.suffix.lower() not in allowed:
        what = f"'{output}' must end in {' or '.join(allowed)}{' with --fuse' if fuse else ''}"
        raise click.BadParameter(what, param_hint="--output")
    if output.is_dir():
        raise click.BadParameter(f"'{output}' is a folder", param_hint="--output")
    if len(files) > 1:
        raise click.BadParameter("several are for --to cpp", param_hint="FILE")
    if any(len(sizes) > 1 for sizes in dims.values()):
        raise click.BadParameter("several sizes are for --to cpp", param_hint="--dim")


def _fused(graph: Graph) -> IrGraph:
    from dmlgraph.passes import fuse

    return fuse(graph).graph


@dataclasses.dataclass(frozen=True, slots=True)
class _Choices:
    """The options of C++."""

    fuse: bool
    level: FeatureLevel | None
    self_check: bool
    inputs: Mapping[str, ArrayFile]
    force: bool


def _export_cpp(
    files: Sequence[pathlib.Path], folder: pathlib.Path, choices: _Choices, dims: Mapping[str, Sequence[int]]
) -> None:
    from dmlgraph.formats import cpp

    if folder.exists() and not folder.is_dir():
        raise click.BadParameter(f"'{folder}' is a file, and C++ needs a folder", param_hint="--output")
    if choices.inputs and not choices.self_check:
        raise click.BadParameter("is for --self-check", param_hint="--input")
    graphs = _named(files, dims)
    several = len(graphs) > 1
    if several and choices.inputs:
        raise click.BadParameter("is for one graph", param_hint="--input")
    graph = next(iter(graphs.values()))
    inputs = as_declared(graph, choices.inputs)
    place = graph.origin.located if len(files) == 1 else None
    with writing(folder), Report(place=place):
        cpp.save(
            graphs if several else graph,
            folder,
            fuse=choices.fuse,
            level=choices.level,
            self_check=choices.self_check,
            inputs=inputs,
            force=choices.force,
        )
    click.echo(f"{folder}: written; {folder / 'README.md'} says how to build and use it")


def _named(files: Sequence[pathlib.Path], dims: Mapping[str, Sequence[int]]) -> dict[str, Graph]:
    """A graph of each file and each combination of sizes, by its name and the sizes that there are several of."""
    several = [name for name, sizes in dims.items() if len(sizes) > 1]
    found: dict[str, Graph] = {}
    for file in files:
        for chosen, _ in each_size(dims):
            graph = load_graph(file, chosen)
            name = "_".join([graph.name, *(f"{dim}_{chosen[dim]}" for dim in several)])
            if name in found:
                raise click.BadParameter(f"two graphs have the name '{name}'", param_hint="FILE")
            found[name] = graph
    return found
