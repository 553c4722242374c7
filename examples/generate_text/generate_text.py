"""Text from a small transformer, with what it knows of the text so far in states.

    python examples/generate_text/generate_text.py

One graph reads the prompt, another makes token after token of the one before: both use one set of states, which has the
keys and values of every layer, the last token, and the state of the random numbers.  tools/train_text.py trains it, on
the help topics of Python: 116,000 weights.  It prints the prompt and 300 characters more, 50 to a call.
"""

import math
import pathlib

import numpy as np

import dmlgraph as dg
from dmlgraph.formats import safetensors

FOLDER = pathlib.Path(__file__).parent
FIRST = 31  # the code of token 0, which stands for the end of a line; the others are " " to "~"
LAYERS, HEADS, DEPTH = 2, 4, 12
CHOICES, TEMPERATURE = 5, 0.7
NAMES = ["embedding", "head", *(f"layer.{n}.{name}" for name in ("qkv", "out", "up", "down") for n in range(LAYERS))]


def tokens_of(text: str) -> np.ndarray:
    return np.array([max(ord(each), FIRST) - FIRST for each in text], np.uint32)


def text_of(tokens: np.ndarray) -> str:
    return "".join(chr(token + FIRST) if token else "\n" for token in tokens.ravel().tolist())


def biases(length: dg.Value, count: int) -> dg.Value:
    """What is added to scores, [1, heads, count, capacity + count]: past tokens by their distance, then new ones."""
    g, kind = length.graph, "float32"
    step = -math.log(4)
    slope = dg.exp(g.fill_value_sequence(sizes=[1, HEADS, 1, 1], dtype=kind, value_start=step, value_delta=step))
    place = g.fill_value_sequence(sizes=["capacity"], dtype=kind, value_start=0, value_delta=1)
    from_now = place - dg.cast(length, dtype=kind)
    is_there = from_now < g.fill_value_constant(sizes=[1], dtype=kind, value=0)
    falls = slope * from_now
    past = dg.if_(is_there, falls, g.fill_value_constant(sizes=[1], dtype=kind, value=-math.inf))
    past = past.broadcast_to([1, HEADS, "count", "capacity"])
    rises = slope * g.fill_value_sequence(sizes=["count"], dtype=kind, value_start=0, value_delta=1)
    later = {"value": -math.inf, "diagonal_fill_begin": 1, "diagonal_fill_end": count}
    new = rises + g.diagonal_matrix1(sizes=["count", "count"], dtype=kind, **later)
    return dg.join([past, new], axis=3)


def norm(x: dg.Value) -> dg.Value:
    return dg.mean_variance_normalization1(x, axes=[1], normalize_variance=True, epsilon=1e-5)


def layer(x: dg.Value, biases: dg.Value, cache: tuple[dg.Value, dg.Value], weights: dict[str, dg.Value]) -> dg.Value:
    """[count, width] → the same; appends keys and values to the cache."""
    g = x.graph
    by_token = dg.gemm(norm(x), weights["qkv"]).reshape("count", 3, HEADS, DEPTH)
    by_head = by_token.transpose(1, 2, 0, 3)
    q, k, v = by_head[:1], by_head[1:2], by_head[2:]
    for state, rows in zip(cache, (k, v), strict=True):
        g.append(state, rows)
    keys = dg.join([cache[0], k], axis=2)
    score = dg.gemm(q, keys, biases, trans_b="transpose", alpha=1 / math.sqrt(DEPTH))
    shares = dg.activation_softmax1(score, axes=[-1])
    seen = dg.gemm(shares, dg.join([cache[1], v], axis=2))
    rows = seen.transpose(0, 2, 1, 3).reshape("count", HEADS * DEPTH)
    attended = dg.gemm(rows, weights["out"], x)
    hidden = dg.gemm(norm(attended), weights["up"], fused_activation="activation_gelu")
    return dg.gemm(hidden, weights["down"], attended)


def sample(logits: dg.Value, random: dg.Value) -> dg.Value:
    """A token by chance, [1]: of the scores divided by the temperature, plus Gumbel noise, the greatest."""
    g = logits.graph
    best = dg.top_k1(logits, axis=1, k=CHOICES, axis_direction="decreasing")
    bits = dg.random_generator(random, output={"sizes": [1, CHOICES]})
    g.update(random, bits.output_state)
    upper = dg.bit_shift_right(bits.output, g.fill_value_constant(sizes=[1], dtype="uint32", value=9))
    waited = dg.log(dg.cast(upper, dtype="float32"), scale_bias={"scale": 2**-23, "bias": 2**-24})
    noise = dg.log(waited, scale_bias={"scale": -1, "bias": 0})
    score = dg.identity(best.output_value, scale_bias={"scale": 1 / TEMPERATURE, "bias": 0}) - noise
    choice = dg.reduce(score, function="argmax", axes=[1])
    return dg.gather_elements(best.output_index, choice, axis=1).reshape(1)


def new_caches(g: dg.Graph) -> list[tuple[dg.Value, dg.Value]]:
    """The keys and values of every layer: states that are empty at first."""
    caches = []
    for number in range(LAYERS):
        with g.scope(f"layers/{number}"):
            sizes = [1, HEADS, "capacity", DEPTH]
            keys, values = (g.state(name, sizes=sizes, dtype="float32", grows=2) for name in ("keys", "values"))
            caches.append((keys, values))
    return caches


def read(tokens: dg.Value, caches: list[tuple[dg.Value, dg.Value]], count: int, every: bool = False) -> dg.Value:
    """The logits after the last token, [1, 96], or after every token, [count, 96]."""
    g = tokens.graph
    arrays = safetensors.load(FOLDER / "weights.safetensors", NAMES)
    weights = {name: g.constant(name, array) for name, array in arrays.items()}
    x = dg.gather(weights["embedding"], tokens, axis=0)
    added = biases(caches[0][0].length, count)
    for number, cache in enumerate(caches):
        x = layer(x, added, cache, {name: weights[f"layer.{number}.{name}"] for name in ("qkv", "out", "up", "down")})
    return dg.gemm(norm(x if count == 1 or every else x[-1:]), weights["head"])


def sampling(count: int | None = None, capacity: int = 1100) -> dg.Graph:
    """The graph that reads a prompt of so many tokens; without it, the one that goes on by one token."""
    name, dims = "decode" if count is None else "prefill", {"count": count or 1, "capacity": capacity}
    g = dg.Graph(name, target="5.1", dims=dims)
    tokens = None if count is None else g.input("tokens", sizes=["count"], dtype="uint32")
    token = g.state("token", sizes=[1], dtype="uint32")
    caches = new_caches(g)
    random = g.state("sample/random", sizes=[6], dtype="uint32", initial=[0, 0, 0, 0, 1, 0])
    chosen = sample(read(token if tokens is None else tokens, caches, count or 1), random)
    g.update(token, chosen)
    g.output("token", chosen)
    return g


def decoder(count: int = 1, capacity: int = 1100) -> dg.Graph:
    """The graph that `dmlgraph generate` goes on with: tokens, and the logits after each of them."""
    g = dg.Graph("decoder", target="5.1", dims={"count": count, "capacity": capacity})
    ids = g.input("input_ids", sizes=[1, "count"], dtype="uint32")
    logits = read(ids.reshape("count"), new_caches(g), count, every=True)
    g.output("logits", logits.reshape(1, "count", 96))
    return g


def candidates(count: int = 12, capacity: int = 64, choices: int = 4) -> dg.Graph:
    """The graph that reads so many tokens and gives the likeliest next ones, with log probabilities."""
    g = dg.Graph("candidates", target="5.1", dims={"count": count, "capacity": capacity})
    tokens = g.input("tokens", sizes=["count"], dtype="uint32")
    scores = dg.activation_log_softmax1(read(tokens, new_caches(g), count), axes=[1])
    best = dg.top_k1(scores, axis=1, k=choices, axis_direction="decreasing")
    g.output("tokens", best.output_index)
    g.output("scores", best.output_value)
    return g


if __name__ == "__main__":
    prompt = "The statement"
    decode = sampling().compile()
    states = decode.new_states()
    prefill = sampling(len(prompt)).compile()
    tokens = [prefill.run({"tokens": tokens_of(prompt)}, states=states)["token"]]
    tokens += [decode.run(states=states, steps=50, collect=["token"])["token"] for _ in range(6)]
    print(prompt + "".join(map(text_of, tokens)))
