"""Folders of a model that generates, as tools write them: of the decoder in `decoders`, whose tokens are characters."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import tokenizers
from support.decoders import VOCABULARY, decoder

import dmlgraph as dg

END = VOCABULARY - 1  # "~" in the texts, which stands for a token that ends one


def write_tokenizer(folder: pathlib.Path) -> None:
    vocabulary = {"\n": 0} | {chr(token + 31): token for token in range(1, VOCABULARY)}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    made.decoder = tokenizers.decoders.Fuse()
    made.save(str(folder / "tokenizer.json"))


def write_graph(folder: pathlib.Path, capacity: int = 128) -> pathlib.Path:
    path = folder / "model.yaml"
    dg.save(decoder(capacity), path)
    return path


def config(**search: Any) -> dict[str, Any]:
    """What onnxruntime-genai's builder writes, without the parts that say how ONNX Runtime runs it."""
    return {
        "model": {
            "bos_token_id": 1,
            "context_length": 512,
            "decoder": {"session_options": {"log_id": "onnxruntime-genai"}, "filename": "model.yaml"},
            "eos_token_id": [END],
            "pad_token_id": 0,
            "type": "llama",
            "vocab_size": VOCABULARY,
        },
        "search": {"do_sample": False, "max_length": 512, "num_beams": 1, "top_k": 50, "top_p": 1.0, **search},
    }


def write_config(folder: pathlib.Path, given: Any) -> None:
    (folder / "genai_config.json").write_text(json.dumps(given, indent=4), "utf-8")
