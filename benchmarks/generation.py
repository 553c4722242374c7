"""Tokens a second of a decoder, next to onnxruntime-genai or, where that is missing, ONNX Runtime with bound buffers.

    python benchmarks/generation.py [--bits 32 4] [--lengths 16 512 2048] [--threads 1 2] [--layers 12] [--rounds 5]

The script writes a model of random weights, as onnxruntime-genai's builder writes Llama: grouped attention with rotary
positions over a buffer that past and present share, gated products, weights of float32 or of 4 bits in blocks of 32.

At every length, both read a prompt of as many tokens, and then take turns: each makes eight tokens and goes back to the
length, and begins when no thread of the other looks for work any more.  A row says for both the tokens a second of the
fastest turn, and their ratio: above 1 dmlgraph is faster; then the time to the first token, with its ratio, and what a
token of dmlgraph takes beyond its kernels, with one and with eight tokens to a wait.  The last column says how many of
the eight tokens are the same, since roundings differ.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import math
import pathlib
import tempfile
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import onnx
from beside import rest
from onnx import TensorProto as Types
from onnx import helper

from dmlgraph.generation import Generator
from dmlgraph.generation.generator import Text

Array = np.ndarray[Any, Any]
TURN = 8  # tokens
BLOCK = 32  # weights of 4 bits that share a scale
PLACES = 4096  # positions for which there are angles
MICROSOFT = "com.microsoft"


@dataclasses.dataclass(frozen=True)
class Size:
    """The sizes of a model."""

    layers: int
    hidden: int
    heads: int
    shared: int
    inner: int
    vocabulary: int
    bits: int

    @property
    def depth(self) -> int:
        return self.hidden // self.heads

    @property
    def weights(self) -> int:
        own = 2 * self.hidden * self.hidden + 2 * self.hidden * self.shared * self.depth + 3 * self.hidden * self.inner
        return self.layers * own + 2 * self.vocabulary * self.hidden


# The model.


class Writer:
    """Collects nodes and weights."""

    def __init__(self, size: Size) -> None:
        self.size, self.rng = size, np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def call(self, operator: str, inputs: list[str], *outputs: str, domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, inputs, list(outputs), outputs[0], domain=domain, **attributes))
        return outputs[0]

    def constant(self, name: str, array: Array) -> str:
        self.weights.append(onnx.numpy_helper.from_array(array, name))
        return name

    def product(self, x: str, name: str, rows: int, columns: int) -> str:
        """Rows times random weights."""
        weights = self.rng.standard_normal((columns, rows), np.float32) / math.sqrt(rows)
        if self.size.bits == 32:
            return self.call("MatMul", [x, self.constant(f"{name}.weight", weights.T.copy())], name)
        parts = weights.reshape(columns, -1, BLOCK)
        scales = np.abs(parts).max(axis=2) / 7
        numbers = np.clip(np.rint(parts / scales[..., None]) + 8, 0, 15).astype(np.uint8)
        packed = self.constant(f"{name}.qweight", numbers[..., ::2] | numbers[..., 1::2] << 4)
        fields = {"K": rows, "N": columns, "bits": 4, "block_size": BLOCK, "accuracy_level": 4}
        return self.call(
            "MatMulNBits", [x, packed, self.constant(f"{name}.scales", scales)], name, domain=MICROSOFT, **fields
        )

    def norm(self, x: str, name: str) -> str:
        weight = self.constant(f"{name}.weight", np.ones(self.size.hidden, np.float32))
        return self.call("SimplifiedLayerNormalization", [x, weight], name, axis=-1, epsilon=1e-6, stash_type=1)

    def layer(self, x: str, base: str, number: int) -> str:
        size, width = self.size, self.size.shared * self.size.depth
        normed = self.norm(x, f"{base}/norm_1")
        parts = [
            self.product(normed, f"{base}/{part}", size.hidden, columns)
            for part, columns in (("q", size.hidden), ("k", width), ("v", width))
        ]
        past, present = (
            [f"{name}.{number}.{part}" for part in ("key", "value")] for name in ("past_key_values", "present")
        )
        attended = self.call(
            "GroupQueryAttention",
            [*parts, *past, "last", "total", "cosines", "sines"],
            f"{base}/attention",
            *present,
            domain=MICROSOFT,
            num_heads=size.heads,
            kv_num_heads=size.shared,
            do_rotary=1,
        )
        x = self.call("Add", [x, self.product(attended, f"{base}/out", size.hidden, size.hidden)], f"{base}/added_1")
        normed = self.norm(x, f"{base}/norm_2")
        gate, up = (self.product(normed, f"{base}/{part}", size.hidden, size.inner) for part in ("gate", "up"))
        gate = self.call("Mul", [gate, self.call("Sigmoid", [gate], f"{base}/sigmoid")], f"{base}/silu")
        gated = self.call("Mul", [gate, up], f"{base}/gated")
        return self.call("Add", [x, self.product(gated, f"{base}/down", size.inner, size.hidden)], f"{base}/added_2")


def write(size: Size, folder: pathlib.Path) -> None:
    """Writes the model, and what onnxruntime-genai reads beside it."""
    w = Writer(size)
    angles = np.arange(PLACES)[:, None] * 10_000.0 ** (-np.arange(size.depth // 2) / (size.depth // 2))
    w.constant("cosines", np.cos(angles).astype(np.float32))
    w.constant("sines", np.sin(angles).astype(np.float32))
    w.constant("one", np.array([1], np.int64))
    w.constant("index", np.array(1, np.int64))
    counted = w.call("ReduceSum", ["attention_mask", "one"], "counted", keepdims=0)
    w.call("Cast", [w.call("Sub", [counted, "one"], "less")], "last", to=Types.INT32)
    whole = w.call("Gather", [w.call("Shape", ["attention_mask"], "shape"), "index"], "whole", axis=0)
    w.call("Cast", [whole], "total", to=Types.INT32)
    table = w.rng.standard_normal((size.vocabulary, size.hidden), np.float32)
    x = w.call("Gather", [w.constant("embeddings", table), "input_ids"], "embedded")
    for number in range(size.layers):
        x = w.layer(x, f"layer.{number}", number)
    w.call("Identity", [w.product(w.norm(x, "norm"), "head", size.hidden, size.vocabulary)], "logits")
    info = helper.make_tensor_value_info
    caches = [f"{number}.{part}" for number in range(size.layers) for part in ("key", "value")]
    batch, rows = "batch_size", "sequence_length"
    inputs = [info("input_ids", Types.INT64, [batch, rows]), info("attention_mask", Types.INT64, [batch, "all"])]
    shape = [batch, size.shared, "past_sequence_length", size.depth]
    inputs += [info(f"past_key_values.{each}", Types.FLOAT, shape) for each in caches]
    outputs = [info("logits", Types.FLOAT, [batch, rows, size.vocabulary])]
    outputs += [info(f"present.{each}", Types.FLOAT, [batch, size.shared, "all", size.depth]) for each in caches]
    graph = helper.make_graph(w.nodes, "decoder", inputs, outputs, w.weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.save_model(model, folder / "model.onnx", save_as_external_data=True, location="model.onnx.data")
    (folder / "genai_config.json").write_text(json.dumps(configuration(size)), "utf-8")


def configuration(size: Size) -> dict[str, Any]:
    def names(name: str, what: str) -> dict[str, str]:
        return {f"{name}_{part}_names": f"{what}.%d.{part}" for part in ("key", "value")}

    decoder = {
        "session_options": {"provider_options": []},
        "filename": "model.onnx",
        "head_size": size.depth,
        "hidden_size": size.hidden,
        "num_attention_heads": size.heads,
        "num_hidden_layers": size.layers,
        "num_key_value_heads": size.shared,
        "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", **names("past", "past_key_values")},
        "outputs": {"logits": "logits", **names("present", "present")},
    }
    model = {"type": "llama", "bos_token_id": 0, "eos_token_id": size.vocabulary - 1, "pad_token_id": 0}
    model |= {"context_length": PLACES, "vocab_size": size.vocabulary, "decoder": decoder}
    return {"model": model, "search": {"max_length": PLACES, "past_present_share_buffer": True}}


# Who generates.


class Way(Protocol):
    """Reads a prompt, and goes on with it."""

    def begin(self, prompt: list[int]) -> int:
        """Reads the prompt anew; returns the first token."""

    def go_on(self) -> list[int]:
        """Makes the tokens of a turn, from the prompt on."""


class Ours:
    def __init__(self, folder: pathlib.Path, threads: int, capacity: int) -> None:
        path = folder / "model.onnx"
        self.generator = Generator(path, device="cpu", capacity=capacity, threads=threads, steps=TURN)
        self.text: Text | None = None

    def begin(self, prompt: list[int]) -> int:
        self.text = self.generator(prompt, max_new_tokens=1)
        return next(self.text)

    def go_on(self) -> list[int]:
        assert self.text is not None
        self.text.rewind(len(self.text.tokens) - self.length, max_new_tokens=TURN)
        return list(self.text)

    length = 0

    def beyond_kernels(self, steps: int, rounds: int) -> float:
        """The seconds of a token without those that the kernels take, with so many tokens to a wait."""
        assert self.text is not None
        self.generator.steps = steps
        executable = self.text._stepper(self.length, self.text.states)
        found = []
        for _ in range(rounds + 1):
            start, before = time.perf_counter(), executable.stats["all_run_seconds"]
            self.go_on()
            found.append(time.perf_counter() - start - (executable.stats["all_run_seconds"] - before))
        self.generator.steps = TURN
        return min(found) / TURN


class GenAi:
    """onnxruntime-genai."""

    def __init__(self, folder: pathlib.Path, threads: int, capacity: int) -> None:
        import onnxruntime_genai as genai

        config = genai.Config(str(folder))
        options = {"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}
        config.overlay(json.dumps(options))
        self._genai, self._model, self._capacity = genai, genai.Model(config), capacity

    def begin(self, prompt: list[int]) -> int:
        parameters = self._genai.GeneratorParams(self._model)
        parameters.set_search_options(max_length=self._capacity, do_sample=False)
        self._own, self._length = self._genai.Generator(self._model, parameters), len(prompt)
        self._own.append_tokens(np.array([prompt], np.int32))
        return self._next()

    def _next(self) -> int:
        self._own.generate_next_token()
        return int(self._own.get_next_tokens()[0])

    def go_on(self) -> list[int]:
        last = int(self._own.get_sequence(0)[self._length - 1])
        self._own.rewind_to(self._length - 1)
        self._own.append_tokens(np.array([[last]], np.int32))
        return [self._next() for _ in range(TURN)]


class Bound:
    """ONNX Runtime with buffers that past and present share."""

    def __init__(self, folder: pathlib.Path, threads: int, capacity: int) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = ort.InferenceSession(str(folder / "model.onnx"), options, ["CPUExecutionProvider"])
        self._ort, self._capacity = ort, capacity

    def begin(self, prompt: list[int]) -> int:
        names = [each for each in self._session.get_inputs() if each.name.startswith("past")]
        sizes = (1, names[0].shape[1], self._capacity, names[0].shape[3])
        make = self._ort.OrtValue.ortvalue_from_numpy
        self._caches = {each.name: make(np.zeros(sizes, np.float32)) for each in names}
        self._prompt = prompt
        return self._run(prompt, len(prompt))

    def _run(self, tokens: list[int], whole: int) -> int:
        binding = self._session.io_binding()
        binding.bind_cpu_input("input_ids", np.array([tokens]))
        binding.bind_cpu_input("attention_mask", np.ones((1, whole), np.int64))
        for name, value in self._caches.items():
            binding.bind_ortvalue_input(name, value)
            binding.bind_ortvalue_output(name.replace("past_key_values", "present"), value)
        binding.bind_output("logits")
        self._session.run_with_iobinding(binding)
        return int(binding.copy_outputs_to_cpu()[0][0, -1].argmax())

    def go_on(self) -> list[int]:
        tokens, length = [self._prompt[-1]], len(self._prompt)
        for step in range(TURN):
            tokens.append(self._run(tokens[-1:], length + step))
        return tokens[1:]


def beside() -> type[GenAi] | type[Bound]:
    try:
        import onnxruntime_genai  # noqa: F401 - is it here?
    except ImportError:
        return Bound
    return GenAi


def measure(size: Size, lengths: list[int], threads: int, rounds: int) -> list[float]:
    """Prints the rows of a model; returns the ratios of decoding."""
    ratios = []
    capacity = max(lengths) + TURN + 1
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write(size, folder)
        ours, theirs = Ours(folder, threads, capacity), beside()(folder, threads, capacity)
        for length in lengths:
            prompt = np.random.default_rng(length).integers(0, size.vocabulary, length).tolist()
            ours.length = length
            begin = (functools.partial(each.begin, prompt) for each in (ours, theirs))
            first = least(tuple(begin), max(2, rounds // 2))
            same = sum(one == other for one, other in zip(ours.go_on(), theirs.go_on(), strict=True))
            turn = least((ours.go_on, theirs.go_on), rounds)
            ratios.append(turn[1] / turn[0])
            print(
                f"{size.bits:4} bits {threads} threads {length:6}  {TURN / turn[0]:8.1f} {TURN / turn[1]:8.1f}  "
                f"{ratios[-1]:5.2f}×   {1e3 * first[0]:8.1f} {1e3 * first[1]:8.1f} ms  {first[1] / first[0]:5.2f}×   "
                f"{1e6 * ours.beyond_kernels(1, rounds):5.0f} {1e6 * ours.beyond_kernels(TURN, rounds):5.0f} µs   "
                f"{same} of {TURN}",
                flush=True,
            )
    return ratios


def least(calls: tuple[Callable[[], object], ...], rounds: int) -> list[float]:
    """The least seconds of each call, which take turns."""
    found = [math.inf] * len(calls)
    for _ in range(rounds + 1):  # the first compiles
        for at, call in enumerate(calls):
            rest()
            start = time.perf_counter()
            call()
            found[at] = min(found[at], time.perf_counter() - start)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bits", type=int, nargs="+", default=[32, 4], choices=[4, 32])
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 512, 2048])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--vocabulary", type=int, default=32_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    inner = 32 * round(given.hidden * 8 / 3 / 32)
    print(
        f"dmlgraph, {beside().__name__}: tokens a second and their ratio; to the first token; beyond kernels; the same"
    )
    found: list[float] = []
    for bits in given.bits:
        heads = given.hidden // 64, max(given.hidden // 256, 1)
        size = Size(given.layers, given.hidden, *heads, inner, given.vocabulary, bits)
        print(f"{size.weights / 1e6:,.0f} million weights")
        for threads in given.threads:
            found += measure(size, given.lengths, threads, given.rounds)
    print(f"geometric mean {math.exp(sum(map(math.log, found)) / len(found)):.2f}, least {min(found):.2f}")
