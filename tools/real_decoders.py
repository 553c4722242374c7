"""Decoders as their tools write them: the tokens beside those of ONNX Runtime.

    python tools/real_decoders.py make genai FOLDER     # with torch, transformers, onnx-ir and onnxruntime-genai
    python tools/real_decoders.py make optimum FOLDER   # with torch, transformers below 4.58 and optimum-onnx
    python tools/real_decoders.py compare FOLDER [--device cpu]   # with dmlgraph[generate,onnx,test]

The models are small, of each family, with random weights.  Tools are in environments of their own, since they want
different versions of transformers.  Tokens of float16 may differ where two are nearly as likely.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

VOCABULARY, WIDTH, NEW = 512, 16, 20
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
WINDOW = {"sliding_window": 32, "head_dim": WIDTH}
GPT = {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256}
ENDS = {"bos_token_id": 0, "eos_token_id": 1}
FEW = {name: SIZES[name] for name in SIZES if name not in ("num_key_value_heads", "pad_token_id")}
FAMILIES: dict[str, dict[str, dict[str, Any]]] = {
    "genai": {
        "Llama": SIZES,
        "Qwen2": SIZES | {"tie_word_embeddings": True},
        "Qwen3": SIZES | {"head_dim": WIDTH},
        "Mistral": SIZES | WINDOW,
        "Gemma2": SIZES | WINDOW | {"query_pre_attn_scalar": WIDTH},
        "SmolLM3": SIZES,
        "Olmo": SIZES,
        "Granite": SIZES,
        "Nemotron": SIZES,
    },
    "optimum": {
        "GPT2": GPT | ENDS,
        "Llama": SIZES,
        "Qwen3": SIZES | {"head_dim": WIDTH},
        "Gemma": SIZES | {"head_dim": WIDTH},
        "Phi3": SIZES,
        "Mistral": SIZES | WINDOW,
        "GPTNeoX": FEW,
        "Bloom": {"vocab_size": VOCABULARY, "hidden_size": 64, "n_layer": 2, "n_head": 4} | ENDS,
        "Falcon": FEW | {"alibi": False, "new_decoder_architecture": False},
    },
}
HEADS = {"GPT2": "GPT2LMHeadModel"}  # the others are …ForCausalLM
PRECISIONS = (("fp32", "cpu"), ("int4", "cpu"), ("fp16", "dml"), ("int4", "dml"))


def make(tool: str, folder: pathlib.Path) -> None:
    """Writes models of all families by a tool, each in a folder of its own."""
    import torch
    import transformers

    torch.manual_seed(0)
    for family, sizes in FAMILIES[tool].items():
        with tempfile.TemporaryDirectory() as source:
            config = getattr(transformers, f"{family}Config")(**sizes)
            model = getattr(transformers, HEADS.get(family, f"{family}ForCausalLM"))(config).float()
            with torch.no_grad():
                for weights in model.parameters():
                    if weights.ndim > 1:
                        weights.normal_(0, 0.15)  # so large that tokens are not nearly as likely
            model.save_pretrained(source)
            _tokenizer(transformers).save_pretrained(source)
            _TOOLS[tool](source, folder / family.lower())


def _tokenizer(transformers: Any) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    ends = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=[*ends.values()], initial_alphabet=alphabet)
    made.train_from_iterator([__doc__] * 10, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **ends)


def _with_genai(source: str, target: pathlib.Path) -> None:
    import onnxruntime_genai

    builder = pathlib.Path(onnxruntime_genai.__file__).parent / "models" / "builder.py"
    for precision, provider in PRECISIONS:
        with tempfile.TemporaryDirectory() as cache:
            out = f"{target}-{precision}-{provider}"
            given = ["-i", source, "-o", out, "-p", precision, "-e", provider, "-c", cache]
            subprocess.run([sys.executable, str(builder), *given], check=True)


def _with_optimum(source: str, target: pathlib.Path) -> None:
    from optimum.exporters.onnx import main_export

    task = "text-generation-with-past"
    main_export(source, output=str(target), task=task, library_name="transformers", do_validation=False)


_TOOLS = {"genai": _with_genai, "optimum": _with_optimum}


def compare(folder: pathlib.Path, device: Any) -> int:
    """Prints for each model whether its tokens are ONNX Runtime's; returns how many are not."""
    from dmlgraph.generation import Generator

    prompt = np.random.default_rng(1).integers(3, 290, 40).tolist()
    different = 0
    for path in sorted(folder.iterdir()):
        is_genai = (path / "genai_config.json").exists()
        try:
            expected = (of_genai if is_genai else of_onnx_runtime)(path, prompt)
        except RuntimeError as error:
            print(f"{path.name:24} is not run by its own tool: {str(error)[:200]}", flush=True)
            continue
        generator = Generator(path if is_genai else path / "model.onnx", device=device)
        got = list(generator(prompt, max_new_tokens=NEW, temperature=0, stop=[]))
        different += got != expected
        print(f"{path.name:24}", "the same" if got == expected else f"{got} in place of {expected}", flush=True)
    return different


def of_genai(path: pathlib.Path, prompt: list[int]) -> list[int]:
    """The tokens by onnxruntime-genai, on the processor whatever the folder was made for."""
    import onnxruntime_genai as genai

    with tempfile.TemporaryDirectory() as other:
        shutil.copytree(path, other, dirs_exist_ok=True)
        config = pathlib.Path(other) / "genai_config.json"
        said = json.loads(config.read_text("utf-8"))
        said["model"]["decoder"]["session_options"]["provider_options"] = []
        config.write_text(json.dumps(said), "utf-8")
        model = genai.Model(other)
        parameters = genai.GeneratorParams(model)
        length = len(prompt) + NEW
        parameters.set_search_options(max_length=length, min_length=length, do_sample=False)
        generator = genai.Generator(model, parameters)
        generator.append_tokens(np.array([prompt], np.int32))
        while not generator.is_done():
            generator.generate_next_token()
        return [int(token) for token in generator.get_sequence(0)[len(prompt) :]]


def of_onnx_runtime(path: pathlib.Path, prompt: list[int]) -> list[int]:
    """The tokens by ONNX Runtime, which is given the caches."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path / "model.onnx"))
    names = [each.name for each in session.get_outputs()]
    inputs = {each.name: each for each in session.get_inputs()}
    caches = {
        name: np.zeros([1, each.shape[1], 0, each.shape[3]], np.float32)
        for name, each in inputs.items()
        if name.startswith("past_key_values")
    }
    tokens, made, length = [prompt], list[int](), 0
    while len(made) < NEW:
        after = length + len(tokens[0])
        fed = {
            "input_ids": np.array(tokens, np.int64),
            "attention_mask": np.ones((1, after), np.int64),
            "position_ids": np.arange(length, after)[None],
        }
        found = session.run(None, {name: each for name, each in (fed | caches).items() if name in inputs})
        outputs = dict(zip(names, found, strict=True))
        caches = {name: outputs[name.replace("past_key_values", "present")] for name in caches}
        made.append(int(outputs["logits"][0, -1].argmax()))
        tokens, length = [made[-1:]], after
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    made = what.add_parser("make")
    made.add_argument("tool", choices=FAMILIES)
    compared = what.add_parser("compare")
    compared.add_argument("--device", default="cpu")
    for each in (made, compared):
        each.add_argument("folder", type=pathlib.Path)
    given = parser.parse_args()
    if given.what == "make":
        make(given.tool, given.folder)
        return 0
    return compare(given.folder, given.device)


if __name__ == "__main__":
    sys.exit(main())
