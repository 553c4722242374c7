"""The transformer of examples/generate_text in NumPy, token by token and head by head, in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LAYERS, HEADS, CHOICES, TEMPERATURE = 2, 4, 5, 0.7
KEY = (1, 0)  # of the random numbers: their seed
WORD = 0xFFFFFFFF


def philox(counter: int, key: tuple[int, int] = KEY) -> list[int]:
    """The four words of a counter: Philox 4x32-10 as in Salmon et al. (2011)."""
    c, k = [counter >> shift & WORD for shift in (0, 32, 64, 96)], list(key)
    for _ in range(10):
        left, right = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [right >> 32 ^ c[1] ^ k[0], right & WORD, left >> 32 ^ c[3] ^ k[1], left & WORD]
        k = [k[0] + 0x9E3779B9 & WORD, k[1] + 0xBB67AE85 & WORD]
    return c


def norm(x: Array) -> Array:
    return (x - x.mean()) / math.sqrt(x.var() + 1e-5)


def gelu(x: Array) -> Array:
    return x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


class Model:
    """What is known of one text."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self.weights = {name: array.astype(np.float64) for name, array in weights.items()}
        self.keys: list[list[Array]] = [[] for _ in range(LAYERS)]
        self.values: list[list[Array]] = [[] for _ in range(LAYERS)]
        self.counter = 0

    def read(self, token: int) -> Array:
        """The logits after one more token."""
        x = self.weights["embedding"][token]
        for layer, (keys, values) in enumerate(zip(self.keys, self.values, strict=True)):
            qkv, out, up, down = (self.weights[f"layer.{layer}.{name}"] for name in ("qkv", "out", "up", "down"))
            q, k, v = (norm(x) @ qkv).reshape(3, HEADS, -1)
            keys.append(k)
            values.append(v)
            x = x + np.concatenate([self._seen(head, q[head], layer) for head in range(HEADS)]) @ out
            x = x + gelu(norm(x) @ up) @ down
        return np.asarray(norm(x) @ self.weights["head"])

    def _seen(self, head: int, q: Array, layer: int) -> Array:
        """What a head sees of all tokens."""
        keys, values = (np.array(rows)[:, head] for rows in (self.keys[layer], self.values[layer]))
        distance = np.arange(len(keys))[::-1]
        score = keys @ q / math.sqrt(len(q)) - 0.25 ** (head + 1) * distance
        shares = np.exp(score - score.max())
        return np.asarray(shares @ values / shares.sum())

    def choose(self, logits: Array) -> int:
        """A token by chance among the likeliest."""
        words = [word for count in range(2) for word in philox(self.counter + count)][:CHOICES]
        self.counter += 2
        evenly = (np.array(words) // 512 + 0.5) / 2**23
        best = np.argsort(-logits)[:CHOICES]
        return int(best[np.argmax(logits[best] / TEMPERATURE - np.log(-np.log(evenly)))])

    def go_on(self, prompt: Sequence[int]) -> Iterator[int]:
        """The tokens after a prompt, without end."""
        for token in prompt[:-1]:
            self.read(token)
        token = prompt[-1]
        while True:
            token = self.choose(self.read(token))
            yield token
