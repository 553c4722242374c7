"""`dmlgraph train`: trains a graph or an ONNX model as a file says."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from dmlgraph.base.errors import DmlGraphError, plural
from dmlgraph.base.report import Report
from dmlgraph.cli.array_options import split_pairs
from dmlgraph.cli.graph_files import load_graph
from dmlgraph.cli.messages import tell
from dmlgraph.cli.model_options import with_dims
from dmlgraph.cli.options import chosen, with_device, with_force, with_permissions, writing
from dmlgraph.cli.parameter_types import FILE, GRAPH, NEW_FILE, Whole
from dmlgraph.files.mark import check_ours
from dmlgraph.files.whole import write_text

if TYPE_CHECKING:
    from dmlgraph.devices import Choice
    from dmlgraph.devices.executable import Executable
    from dmlgraph.devices.states import States
    from dmlgraph.formats.batches import Batches
    from dmlgraph.graph.graph import Graph

LINES = 20  # how often the loss is shown
IN_FLIGHT = 2  # steps whose data is read while the device works
WEIGHTS = ".safetensors"
SAVED = (WEIGHTS, ".onnx", ".yaml", ".yml")
_OWN = "dmlgraph.checkpoint/"  # before the names of what a checkpoint has beside the states


def _paths(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, pathlib.Path]:
    return {name: pathlib.Path(path) for name, path in split_pairs(values, "NAME=FILE.npy or NAME=FOLDER")}


def _check_suffix(_: click.Context, __: click.Parameter, value: pathlib.Path | None) -> pathlib.Path | None:
    if value is not None and value.suffix.lower() not in SAVED:
        raise click.BadParameter(f"the name '{value}' must end in one of {', '.join(SAVED)}")
    return value


@click.command()
@click.argument("file", type=GRAPH)
@click.option(
    "--training",
    "described",
    type=FILE,
    metavar="FILE.yaml",
    help="A file with a section 'training', in the place of the graph's; an ONNX model needs it.",
)
@with_device("Where to train; 'dmlgraph devices' lists them.", default="auto", show_default=True)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    callback=_paths,
    metavar="NAME=FILE.npy|FOLDER",
    help="An input's rows: an array, or a folder of arrays or single rows.",
)
@click.option(
    "--evaluate",
    "held_out",
    multiple=True,
    callback=_paths,
    metavar="NAME=FILE.npy|FOLDER",
    help="An input's rows for an evaluation after the training.",
)
@click.option("--steps", type=Whole(min=1), default=1000, show_default=True, help="The number of steps.")
@click.option("--seed", type=Whole(min=0), default=0, show_default=True, help="Of the order of the rows.")
@click.option(
    "--save", type=NEW_FILE, callback=_check_suffix, help="Write the weights, .safetensors, or the model, .onnx, .yaml."
)
@with_force
@click.option("--checkpoint", type=NEW_FILE, help="Write everything here, and go on from here if the file is there.")
@click.option("--every", type=Whole(min=1), default=100, show_default=True, help="Steps from checkpoint to checkpoint.")
@click.option("--picture", type=NEW_FILE, metavar="FILE.svg", help="Draw the loss.")
@click.option("--json", "as_json", is_flag=True, help="Print the loss of every step as JSON.")
@with_permissions
@with_dims
def train(
    file: pathlib.Path,
    described: pathlib.Path | None,
    device: str,
    dims: dict[str, int],
    as_json: bool,
    **options: Any,
) -> None:
    """Train a graph or an ONNX model as a file says.

    The section 'training' of the file, or of that which --training names, has the loss, what is trained and the
    optimizer.  Each step takes as many rows as the inputs have, in an order that is another one in each epoch and
    follows from --seed.  With --checkpoint, a training that was stopped or killed goes on from its last checkpoint,
    with the same numbers.

    \b
    Examples:
      dmlgraph train model.yaml --input x=x.npy --input target=target.npy --save weights.safetensors
      dmlgraph train model.yaml --input x=images --input label=labels.npy --steps 5000 --picture loss.svg
      dmlgraph train model.yaml --input x=x.npy --checkpoint run.safetensors --every 500
      dmlgraph train model.onnx --training how.yaml --dim batch=32 --input image=images --input label=labels.npy \
        --save tuned.onnx
    """
    if options["save"] is not None and options["save"].suffix.lower() != WEIGHTS and not options["force"]:
        check_ours(options["save"])  # before the training rather than after it
    choice = chosen(device)
    graph = load_graph(file, dims, [choice], described)
    with Report(place=graph.origin.located):
        run = _Run(graph, choice, options)
        run.train(quiet=as_json)
        results = run.evaluate()
    run.write()
    if as_json:
        click.echo(
            json.dumps({"steps": len(run.losses), "losses": list(map(_plain, run.losses)), "evaluated": results})
        )
    else:
        for name, mean in results.items():
            click.echo(f"held out: {name} {mean:.6g}")


def _plain(number: float) -> float | str:
    return number if math.isfinite(number) else str(number)


class _Run:
    """One training.

    Attributes:
        losses: of all steps so far.
    """

    def __init__(self, graph: Graph, choice: Choice, options: dict[str, Any]) -> None:
        from dmlgraph.devices.compile import compile_graph
        from dmlgraph.formats.batches import Batches

        self.options, self.training = options, graph.origin.training
        if self.training is None:
            from dmlgraph.formats.yaml.training import EXAMPLE

            where = "--training takes a file with" if graph.origin.is_model else "add"
            message = "the file does not say how the graph is trained"
            raise DmlGraphError(message, code="missing", field="training", hint=f"{where} {EXAMPLE}")
        self.model: Graph = self.training.model(graph)
        self.step, self.loss = self.training.step(self.model)
        self.batches: Batches = Batches(self.step, options["inputs"], options["seed"])
        self.held_out = Batches(self.step, options["held_out"]) if options["held_out"] else None
        tell(self.step.warnings())
        self.exe: Executable = compile_graph(self.step, choice)
        self.losses: list[float] = []
        click.echo(f"device: {self.exe.device} ({self.exe.reason})", err=True)

    @property
    def states(self) -> States:
        return self.exe.states

    def train(self, *, quiet: bool) -> None:
        """Takes the steps, from the last checkpoint on."""
        steps, checkpoint, every = (self.options[name] for name in ("steps", "checkpoint", "every"))
        if checkpoint is not None and checkpoint.exists():
            self._load(checkpoint)
            click.echo(f"goes on after step {len(self.losses)}: '{checkpoint}'", err=True)
        shown, since = max(1, steps // LINES), len(self.losses)
        while len(self.losses) < steps:
            end = min(steps, (len(self.losses) // every + 1) * every) if checkpoint is not None else steps
            for number in self._steps(len(self.losses), end):
                self.losses.append(number)
                if len(self.losses) % shown == 0 or len(self.losses) == steps:
                    part = self.losses[since:]
                    click.echo(f"step {len(self.losses)}: {self.loss} {sum(part) / len(part):.6g}", err=quiet)
                    since = len(self.losses)
            if checkpoint is not None:
                self._save(checkpoint)
        self._check()

    def _steps(self, begin: int, end: int) -> Iterator[float]:
        """The losses of some steps; each is one run."""
        batches = map(self.batches.at, range(begin, end))
        for result in self.exe.map(batches, in_flight=IN_FLIGHT):
            yield float(result[self.loss].ravel()[0])

    def _check(self) -> None:
        wrong = next((step for step, number in enumerate(self.losses, 1) if not math.isfinite(number)), None)
        if wrong is not None:
            click.echo(f"the loss is not finite at step {wrong}: a smaller rate, or clip_norm, may help", err=True)

    def evaluate(self) -> dict[str, float]:
        """The means of the outputs of one number over the rows that are held out, on the trained states."""
        from dmlgraph.devices.compile import compile_graph

        if self.held_out is None:
            return {}
        graph, _ = self.training.evaluation(self.model)
        names = [name for name, desc in graph.output_descs.items() if desc.element_count == 1]
        exe = compile_graph(graph, chosen(self.exe.device))
        results = [exe.run(batch, states=self.states) for batch in self.held_out.epoch()]
        return {name: sum(float(each[name].ravel()[0]) for each in results) / len(results) for name in names}

    def write(self) -> None:
        """Writes what the options ask for."""
        from dmlgraph.formats import safetensors
        from dmlgraph.formats.load_save import save
        from dmlgraph.picture.curve import curve

        target, picture = self.options["save"], self.options["picture"]
        if target is not None:
            with writing(target):
                if target.suffix.lower() == WEIGHTS:
                    safetensors.save(target, {node.name: self.states[node.name] for node in self.model.states})
                else:
                    tuned = self.training.tuned(self.model, self.states)
                    keep = target.suffix.lower() == ".onnx"
                    fixed = save(tuned, target, keep_dims=keep, force=self.options["force"])
                    for dim, why in fixed.items():
                        click.echo(f"{dim} stays {tuned.dims[dim]}: it is in {why}", err=True)
        if picture is not None:
            title = f"{self.model.name}: {self.loss} of {plural(len(self.losses), 'step')}"
            with writing(picture):
                write_text(picture, curve(title, self.losses))

    # Checkpoints.

    @functools.cached_property
    def _content(self) -> Any:
        """What a checkpoint is of: the graph, the number of rows and their order."""
        import numpy as np

        from dmlgraph.formats.yaml.portable import digest_of, parts

        text = f"{digest_of(*parts(self.step))} {self.batches.rows} {self.options['seed']}"
        return np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8)

    def _save(self, path: pathlib.Path) -> None:
        import numpy as np

        from dmlgraph.formats import safetensors

        own = {"content": self._content, "losses": np.array(self.losses, np.float32)}
        arrays = {name: self.states[name] for name in self.states} | {_OWN + name: each for name, each in own.items()}
        with writing(path):
            safetensors.save(path, arrays)

    def _load(self, path: pathlib.Path) -> None:
        from dmlgraph.formats import safetensors

        own = safetensors.load(path, [_OWN + name for name in ("content", "losses")])
        if not (own[f"{_OWN}content"] == self._content).all():
            hint = "remove it, or name another file"
            message = f"'{path}' is the checkpoint of another training: its graph, its data or its seed differ"
            raise DmlGraphError(message, code="other-graph", field="checkpoint", hint=hint)
        self.states.load(path)
        self.losses = own[f"{_OWN}losses"].tolist()
