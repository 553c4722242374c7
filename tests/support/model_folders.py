"""Folders of a model that generates, as tools write them: of the decoder in `decoders`, whose tokens are characters."""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

from support.decoders import VOCABULARY, decoder

import dmlgraph as dg

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "generate_text"
END = VOCABULARY - 1  # "~" in the texts, which stands for a token that ends one


def write_tokenizer(folder: pathlib.Path) -> None:
    shutil.copy(EXAMPLE / "tokenizer.json", folder)


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
