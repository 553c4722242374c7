"""`dmlgraph generate`: prints what comes after a prompt."""

from __future__ import annotations

import pathlib
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from support.decoders import greedy, text_of, tokens_of
from support.model_folders import config, write_config, write_graph, write_tokenizer

from dmlgraph.cli.commands import main

pytest.importorskip("tokenizers", reason="tokenizers, of the extra generate, is not installed")

PROMPT = "The expression list after it is "


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("model")
    write_graph(path)
    write_tokenizer(path)
    write_config(path, config())
    return path


@pytest.fixture(scope="module")
def expected() -> str:
    return text_of(np.array(greedy(tokens_of(PROMPT).tolist(), 20)))


def generate(*arguments: str | pathlib.Path, text: str | None = None) -> str:
    result = CliRunner().invoke(main, ["generate", *map(str, arguments)], input=text)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_text_of_numpy(folder: pathlib.Path, expected: str) -> None:
    options = "--device", "cpu", "--max-tokens", "20"
    assert generate(folder, "--prompt", PROMPT, *options) == f"{expected}\n"
    assert generate(folder / "model.yaml", "--prompt", "-", *options, text=PROMPT) == f"{expected}\n"
    stop = expected[7:10]
    assert generate(folder, "--prompt", PROMPT, *options, "--stop", stop, "--stop", "@") == f"{expected[:7]}\n"
    room = str(len(PROMPT) + 4)
    assert generate(folder, "--prompt", PROMPT, "--device", "cpu", "--dim", f"capacity={room}") == f"{expected[:4]}\n"


def test_several_prompts(folder: pathlib.Path, expected: str) -> None:
    other = "if the "
    options = folder, "--device", "cpu", "--max-tokens", "20"
    alone = generate(*options, "--prompt", other)
    both = generate(*options, "--prompt", PROMPT, "--prompt", other)
    assert both == f"1: {expected}\n2: {alone}"
    beams = [generate(*options, "--beams", "2", "--prompt", each) for each in (PROMPT, other)]
    assert generate(*options, "--beams", "2", "--prompt", PROMPT, "--prompt", other) == "1: {}2: {}".format(*beams)


def test_sampling_and_beams(folder: pathlib.Path) -> None:
    options = folder, "--prompt", PROMPT, "--device", "cpu", "--max-tokens", "12"
    sampling = "--temperature", "1.2", "--top-k", "30", "--top-p", "0.98", "--min-p", "0.001"
    texts = {seed: generate(*options, *sampling, "--seed", seed) for seed in ("1", "2", "1 ")}
    assert len(set(texts.values())) == 2
    assert texts["1"] == texts["1 "]
    assert len(generate(*options, "--repetition-penalty", "1.3")) == 13
    assert len(generate(*options, "--beams", "2")) == 13


def test_drafts(folder: pathlib.Path, expected: str, tmp_path: pathlib.Path) -> None:
    options = folder, "--prompt", PROMPT, "--device", "cpu", "--max-tokens", "20"
    assert generate(*options, "--draft", folder, "--drafts", "3") == f"{expected}\n"
    assert generate(*options, "--drafts", "3") == f"{expected}\n"
    write_graph(tmp_path)
    write_tokenizer(tmp_path)
    tokenizer = tmp_path / "tokenizer.json"
    text = tokenizer.read_text("utf-8").replace('"A": 34', '"A": 35').replace('"B": 35', '"B": 34')
    tokenizer.write_text(text, "utf-8")
    result = CliRunner().invoke(main, ["generate", *map(str, options), "--draft", str(tmp_path)])
    assert result.exit_code == 1
    assert "error[conflict]" in result.stderr
    assert "field 'draft'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--temperature", "-1"), 1, "temperature"),
        (("--beams", "2", "--seed", "1"), 2, "leave out --seed"),
        (("--beams", "2", "--drafts", "4"), 2, "leave out --drafts"),
        (("--max-tokens", "1000"), 1, "does not fit"),
        (("--max-tokens", "0"), 2, "max-tokens"),
        (("--dim", "unknown=1"), 1, "unknown"),
        (("--device", "gpu"), 2, "is not a device"),
    ],
)
def test_mistakes(folder: pathlib.Path, arguments: tuple[str, ...], status: int, message: str) -> None:
    result = CliRunner().invoke(main, ["generate", str(folder), "--prompt", PROMPT, "--device", "cpu", *arguments])
    assert result.exit_code == status
    assert message in result.stderr
    assert not result.stdout.strip()


def test_what_a_folder_lacks(folder: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(path: pathlib.Path) -> str:
        result = CliRunner().invoke(main, ["generate", str(path), "--prompt", "x", "--device", "cpu"])
        assert result.exit_code == 1
        return result.stderr

    assert "neither genai_config.json nor one model" in told(tmp_path)
    write_config(tmp_path, config())
    assert "genai_config.json:9:25: error[unreadable]: field 'model.decoder.filename'" in told(tmp_path)
    write_graph(tmp_path)
    assert "tokenizer.json" in told(tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert 'pip install "dmlgraph[generate]"' in told(folder)
