"""Text as it comes: whole characters, up to the text that ends it."""

from __future__ import annotations

import pathlib
import sys

import pytest
import tokenizers
from support.model_folders import write_tokenizer
from support.problems import expect, raises

import dmlgraph as dg
from dmlgraph.generation.tokens import Tokenizer, until


@pytest.mark.parametrize(
    ("pieces", "stops", "expected"),
    [
        (["one ", "two ", "three"], [], ["one ", "two ", "three"]),
        (["one ", "two ", "three"], ["two"], ["one ", ""]),
        (["one t", "w", "o three"], ["two"], ["one ", ""]),
        (["one t", "w", "elve"], ["two"], ["one ", "twelve"]),
        (["aab"], ["ab", "b"], ["a"]),
        (["end t"], ["two"], ["end ", "t"]),
        (["t", "t", "tw", "o"], ["two"], ["t", "t", ""]),
    ],
)
def test_up_to_what_stops_it(pieces: list[str], stops: list[str], expected: list[str]) -> None:
    found = list(until(pieces, stops))
    assert "".join(found) == "".join(expected)
    assert [each for each in found if each] == [each for each in expected if each]


def test_characters_of_several_tokens_come_whole(tmp_path: pathlib.Path) -> None:
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    made.decoder = tokenizers.decoders.Sequence([tokenizers.decoders.ByteFallback(), tokenizers.decoders.Fuse()])
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer(tmp_path / "tokenizer.json")
    text = "aä→b"
    assert tokenizer.tokens(text) == list(text.encode())
    assert tokenizer.text(list(text.encode())) == text
    assert list(tokenizer.pieces(text.encode())) == list(text)
    assert list(tokenizer.pieces(text.encode()[1:], text.encode()[:1])) == list(text[1:])


def test_what_is_missing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokenizer.json"
    for code in ("unreadable", "file-kind", "file-kind"):
        with raises(dg.DmlGraphError, code):
            Tokenizer(path)
        path.write_text("{" if code == "unreadable" else "{}", "utf-8")
    path.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(dg.DmlGraphError) as binary:
        Tokenizer(path)
    assert binary.value.code == "unreadable"
    write_tokenizer(tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(dg.DmlGraphError) as extra:
        Tokenizer(path)
    expect(extra.value, "extra", hint='pip install "dmlgraph[generate]"')
