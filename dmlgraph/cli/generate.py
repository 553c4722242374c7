"""`dmlgraph generate`: goes on with a text."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import click

from dmlgraph.base.errors import GraphError
from dmlgraph.cli.model_options import with_dim
from dmlgraph.cli.options import chosen, permissions, with_device, with_permissions
from dmlgraph.cli.parameter_types import Whole
from dmlgraph.cli.standard_input import read_stdin

if TYPE_CHECKING:
    from dmlgraph.devices.names import DeviceName
    from dmlgraph.generation.caches import CacheType
    from dmlgraph.generation.folder import Model
    from dmlgraph.generation.generator import Generator
    from dmlgraph.generation.tokens import Tokenizer

_MODEL = click.Path(exists=True, path_type=pathlib.Path)


@click.command()
@click.argument("model", type=_MODEL)
@click.option(
    "--prompt", "prompts", required=True, multiple=True, metavar="TEXT", help="What to go on with; '-': standard input."
)
@with_device("Where to run; 'dmlgraph devices' lists them.", default="auto", show_default=True)
@click.option("--max-tokens", type=Whole(min=1), metavar="N", help="How many tokens come at most.")
@click.option("--temperature", type=float, help="What logits are divided by; 0: always the likeliest token.")
@click.option("--top-k", type=int, help="Choose among the likeliest tokens, so many.")
@click.option("--top-p", type=float, help="Choose among the likeliest tokens that have this probability together.")
@click.option("--min-p", type=float, help="Choose among tokens at least this times as likely as the likeliest.")
@click.option("--repetition-penalty", type=float, help="Makes tokens that the text has less likely, if above 1.")
@click.option("--seed", type=int, help="Of the random numbers.")
@click.option("--stop", "stops", multiple=True, metavar="TEXT", help="End where this text would come.")
@click.option("--beams", type=Whole(min=1), metavar="N", help="Follow so many texts, and print the likeliest.")
@click.option("--draft", type=_MODEL, metavar="MODEL", help="A smaller model with the same tokens, which guesses them.")
@click.option("--drafts", type=Whole(min=0), metavar="N", help="How many tokens are guessed and verified at once.")
@click.option(
    "--cache", type=click.Choice(["float16", "int8"]), help="Hold what is known of the text in fewer bits than float32."
)
@with_permissions
@with_dim
def generate(
    model: pathlib.Path,
    prompts: tuple[str, ...],
    device: str,
    max_tokens: int | None,
    stops: tuple[str, ...],
    beams: int | None,
    draft: pathlib.Path | None,
    drafts: int | None,
    cache: CacheType | None,
    dims: dict[str, int],
    **sampling: float | None,
) -> None:
    """Go on with a text, and print it as it comes.

    MODEL is the folder of a decoder with genai_config.json and tokenizer.json, as onnxruntime-genai's builder writes
    it, or a graph file or an ONNX model with tokenizer.json beside it.  Tokens are chosen as the folder says, else the
    likeliest.  --dim capacity=4096 makes room for longer texts.  With --drafts, several tokens are guessed and
    verified at once, by what the text says, or by the model of --draft: the tokens stay the same, and may come faster.
    Several prompts share runs; each text is a line with its number, once all are there.  This needs the extra generate:
    pip install "dmlgraph[generate]".

    \b
    Examples:
      dmlgraph generate qwen --prompt "The capital of France is" --max-tokens 20
      dmlgraph generate qwen --prompt "Once" --temperature 0.8 --top-p 0.95 --seed 7 --stop "The end"
      dmlgraph generate qwen --prompt "Once" --beams 4 --device directml
      dmlgraph generate qwen-7b --prompt "Once" --draft qwen-0.5b
    """
    from dmlgraph.generation.folder import opened
    from dmlgraph.generation.generator import Generator
    from dmlgraph.generation.tokens import Tokenizer, until

    choice = chosen(device)
    texts = [read_stdin("the prompt").decode("utf-8", "replace") if each == "-" else each for each in prompts]
    known = opened(model, dims=dims, target=choice.device.level)
    assert known.tokenizer is not None
    tokenizer = Tokenizer(known.tokenizer)
    helper = None if draft is None else _same_tokens(opened(draft, dims=dims, target=choice.device.level), tokenizer)
    generator = Generator(
        known, device=cast("DeviceName", choice.name), draft=helper, drafts=drafts, cache=cache, **permissions()
    )
    settings: dict[str, Any] = {name: given for name, given in sampling.items() if given is not None}
    others = [*settings, *(name for name, given in (("draft", draft), ("drafts", drafts)) if given is not None)]
    beams = beams or (1 if others else known.beams)
    if beams > 1 and others:
        raise click.UsageError(f"--beams takes the likeliest texts: leave out --{others[0].replace('_', '-')}")
    given = [tokenizer.tokens(text) for text in texts]
    written: Iterator[Iterator[str]]
    if beams > 1:
        written = (_searched(generator, tokenizer, ids, beams, max_tokens) for ids in given)
    elif len(given) > 1:
        written = _together(generator, tokenizer, given, max_tokens, settings)
    else:
        written = (tokenizer.pieces(generator(ids, max_new_tokens=max_tokens, **settings), ids) for ids in given)
    for number, pieces in enumerate(written, 1):
        click.echo(f"{number}: " if len(given) > 1 else "", nl=False)
        for piece in until(pieces, [each for each in stops if each]):
            click.echo(piece, nl=False)
            sys.stdout.flush()
        click.echo()
    generator.close()


def _same_tokens(draft: Model, tokenizer: Tokenizer) -> Model:
    """The model that drafts, if its tokens are those of the tokenizer.

    Raises:
        GraphError: they are others.
    """
    from dmlgraph.generation.tokens import Tokenizer

    if draft.tokenizer is not None and draft.tokenizer.exists():
        differs = tokenizer.differs(Tokenizer(draft.tokenizer))
        if differs is not None:
            raise GraphError("drafts must be of the same tokens", code="conflict", field="draft", got=differs)
    return draft


def _together(
    generator: Generator, tokenizer: Tokenizer, prompts: list[list[int]], most: int | None, settings: dict[str, Any]
) -> Iterator[Iterator[str]]:
    """The texts of several prompts, once all are there."""
    found: list[list[int]] = [[] for _ in prompts]
    for number, token in generator.together(prompts, at_once=len(prompts), max_new_tokens=most, **settings):
        found[number].append(token)
    for ids, tokens in zip(prompts, found, strict=True):
        yield tokenizer.pieces(iter(tokens), ids)


def _searched(
    generator: Generator, tokenizer: Tokenizer, ids: list[int], beams: int, most: int | None
) -> Iterator[str]:
    """The likeliest text, at once."""
    best = generator.beams(ids, count=beams, max_new_tokens=most)[0]
    yield from tokenizer.pieces(best.tokens, ids)
