"""Steps of training on the device `cpu`, beside JAX and, if it is installed, PyTorch.

    python benchmarks/training.py [--threads 2] [--steps mlp-32 …] [--rounds 15] [--json FILE]

A step is forward, backward and Adam, of float32; JAX's is jitted, and its weights are donated; PyTorch's is eager, and
compiled where its compiler can (a minute for each network, and a C++ compiler).  All
begin with the same weights, and their losses are compared for some steps before anything is timed.  beside.py tells how
times are taken and what a line says; training_memory.py measures the memory of the same steps.  JAX takes a thread for
each processor that the process may use, so `--threads 1` needs `taskset -c 0`.  A step's name ends with its batch.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import os
from collections.abc import Callable, Mapping
from typing import Any

import beside
import jax
import jax.numpy as jnp
import numpy as np

import dmlgraph as dg

Array = np.ndarray
Weights = Mapping[str, Any]
CLASSES, RATE, COMPARED, BATCHES = 10, 1e-3, 4, (1, 32)
TORCH = {"torch": False, "compiled": True} if importlib.util.find_spec("torch") is not None else {}
_GATES = ["activation_sigmoid", "activation_tanh", "activation_tanh"]


@dataclasses.dataclass(frozen=True)
class Network:
    """A network of one input, without its batch, to logits {N, CLASSES}; `device` and `jax` compute the same.

    Attributes:
        weights: sizes by name; those of one dimension begin with 0, or with 1 where the name ends with "scale".
    """

    inputs: tuple[int, ...]
    weights: Mapping[str, tuple[int, ...]]
    device: Callable[[Weights, Any], Any]
    jax: Callable[[Weights, Any], Any]


def _mlp(relu: Callable[[Any], Any], w: Weights, x: Any) -> Any:
    h = relu(x @ w["0"] + w["0.bias"])
    h = relu(h @ w["1"] + w["1.bias"])
    return h @ w["2"] + w["2.bias"]


MLP = Network(
    (784,),
    {"0": (784, 256), "0.bias": (256,), "1": (256, 256), "1.bias": (256,), "2": (256, CLASSES), "2.bias": (CLASSES,)},
    functools.partial(_mlp, dg.activation_relu),
    functools.partial(_mlp, jax.nn.relu),
)


def _dg_convolution(w: Weights, name: str, x: Any, stride: int = 1) -> Any:
    padding = w[name].sizes[2] // 2
    bias = w.get(f"{name}.bias")
    return dg.convolution(
        x, w[name], bias, strides=[stride] * 2, start_padding=[padding] * 2, end_padding=[padding] * 2
    )


def _jax_convolution(w: Weights, name: str, x: Any, stride: int = 1) -> Any:
    padding = w[name].shape[2] // 2
    y = jax.lax.conv_general_dilated(x, w[name], (stride, stride), ((padding, padding),) * 2)
    return y + w[f"{name}.bias"].reshape(1, -1, 1, 1) if f"{name}.bias" in w else y


def _dg_digits(w: Weights, x: Any) -> Any:
    h = dg.activation_relu(_dg_convolution(w, "first", x))
    h = dg.activation_relu(_dg_convolution(w, "second", h))
    return dg.max_pooling(h, window_size=[2, 2], strides=[2, 2]).flatten() @ w["last"] + w["last.bias"]


def _jax_digits(w: Weights, x: Any) -> Any:
    h = jax.nn.relu(_jax_convolution(w, "first", x))
    h = jax.nn.relu(_jax_convolution(w, "second", h))
    h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return h.reshape(h.shape[0], -1) @ w["last"] + w["last.bias"]


DIGITS = Network(
    (1, 8, 8),
    {
        "first": (16, 1, 3, 3),
        "first.bias": (16,),
        "second": (32, 16, 3, 3),
        "second.bias": (32,),
        "last": (512, CLASSES),
        "last.bias": (CLASSES,),
    },
    _dg_digits,
    _jax_digits,
)
def _dg_normal(w: Weights, name: str, x: Any) -> Any:
    scale, bias = (w[f"{name}.{each}"].reshape(1, -1, 1, 1) for each in ("scale", "bias"))
    return dg.batch_normalization_training(x, scale, bias, epsilon=1e-5).output


def _jax_normal(w: Weights, name: str, x: Any) -> Any:
    mean, variance = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
    scale, bias = (w[f"{name}.{each}"].reshape(1, -1, 1, 1) for each in ("scale", "bias"))
    return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + bias


def blocks(w: Weights) -> list[tuple[int, bool]]:
    """Of a residual network: the numbers of its blocks, and whether a block halves the picture, with more channels."""
    return [(at, f"{at}.around" in w) for at in range(len(w)) if f"{at}.a" in w]


def _resnet(relu: Any, convolution: Any, normal: Any, mean: Any, w: Weights, x: Any) -> Any:
    h = relu(normal(w, "stem", convolution(w, "stem", x)))
    for index, halves in blocks(w):
        inner = relu(normal(w, f"{index}.a", convolution(w, f"{index}.a", h, 2 if halves else 1)))
        inner = normal(w, f"{index}.b", convolution(w, f"{index}.b", inner))
        h = relu(inner + (convolution(w, f"{index}.around", h, 2) if halves else h))
    return mean(h) @ w["last"] + w["last.bias"]


def _resnet_weights(*channels: int) -> dict[str, tuple[int, ...]]:
    """Of blocks with so many channels."""
    before = channels[0]
    convolutions = {"stem": (before, 3, 3, 3)}
    for index, each in enumerate(channels):
        convolutions |= {f"{index}.a": (each, before, 3, 3), f"{index}.b": (each, each, 3, 3)}
        if each != before:
            convolutions[f"{index}.around"] = (each, before, 1, 1)
        before = each
    normal = [name for name in convolutions if not name.endswith("around")]
    vectors = {f"{name}.{each}": convolutions[name][:1] for name in normal for each in ("scale", "bias")}
    # A convolution has no bias where a normalization follows.
    return {**convolutions, **vectors, "last": (before, CLASSES), "last.bias": (CLASSES,)}


def _plain(convolution: Any) -> Any:
    return lambda w, name, x, stride=1: convolution({name: w[name]}, name, x, stride)


RESNET = Network(
    (3, 32, 32),
    _resnet_weights(16, 32, 64),
    functools.partial(
        _resnet,
        dg.activation_relu,
        _plain(_dg_convolution),
        _dg_normal,
        lambda x: dg.reduce(x, function="average", axes=[2, 3]).flatten(),
    ),
    functools.partial(_resnet, jax.nn.relu, _plain(_jax_convolution), _jax_normal, lambda x: x.mean((2, 3))),
)
RESNET_18 = dataclasses.replace(RESNET, weights=_resnet_weights(64, 64, 128, 128, 256, 256, 512, 512))
TOKENS, WIDTH, HEADS = 64, 128, 4


def _dg_layer_norm(w: Weights, name: str, x: Any) -> Any:
    lines = x.reshape(-1, 1, 1, WIDTH)
    normal = dg.mean_variance_normalization1(lines, axes=[3], normalize_variance=True, epsilon=1e-5)
    return normal.reshape(x.sizes) * w[f"{name}.scale"] + w[f"{name}.bias"]


def _jax_layer_norm(w: Weights, name: str, x: Any) -> Any:
    normal = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return normal * w[f"{name}.scale"] + w[f"{name}.bias"]


def _dg_transformer(w: Weights, x: Any) -> Any:
    q, k, v = dg.split(_dg_layer_norm(w, "before", x) @ w["qkv"], axis=2, outputs=3)
    x = x + dg.multihead_attention(q, k, v, scale=(WIDTH // HEADS) ** -0.5, head_count=HEADS) @ w["out"]
    x = x + dg.activation_gelu(_dg_layer_norm(w, "between", x) @ w["up"] + w["up.bias"]) @ w["down"]
    return dg.reduce(x, function="average", axes=[1]).reshape(-1, WIDTH) @ w["last"]


def _jax_transformer(w: Weights, x: Any) -> Any:
    several = jnp.split(_jax_layer_norm(w, "before", x) @ w["qkv"], 3, 2)
    q, k, v = (each.reshape(*x.shape[:2], HEADS, -1).transpose(0, 2, 1, 3) for each in several)
    weights = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) * (WIDTH // HEADS) ** -0.5)
    x = x + (weights @ v).transpose(0, 2, 1, 3).reshape(x.shape) @ w["out"]
    x = x + jax.nn.gelu(_jax_layer_norm(w, "between", x) @ w["up"] + w["up.bias"], approximate=False) @ w["down"]
    return x.mean(1) @ w["last"]


TRANSFORMER = Network(
    (TOKENS, WIDTH),
    {
        **{f"{name}.{each}": (WIDTH,) for name in ("before", "between") for each in ("scale", "bias")},
        "qkv": (WIDTH, 3 * WIDTH),
        "out": (WIDTH, WIDTH),
        "up": (WIDTH, 4 * WIDTH),
        "up.bias": (4 * WIDTH,),
        "down": (4 * WIDTH, WIDTH),
        "last": (WIDTH, CLASSES),
    },
    _dg_transformer,
    _jax_transformer,
)
TIMES, GIVEN, HIDDEN = 16, 64, 128


def _dg_lstm(w: Weights, x: Any) -> Any:
    steps = x.transpose(1, 0, 2).reshape(1, TIMES, -1, GIVEN)
    given, before = (w[name].reshape(1, 1, 4 * HIDDEN, -1) for name in ("input", "hidden"))
    h = dg.lstm(steps, given, before, direction="forward", activation_descs=_GATES, output_single=True)
    return h.output_single.reshape(-1, HIDDEN) @ w["last"]


def _jax_lstm(w: Weights, x: Any) -> Any:
    def step(carry: Any, now: Any) -> Any:
        h, c = carry
        i, o, f, new = jnp.split(now + h @ w["hidden"].T, 4, 1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(new)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), None

    zeros = jnp.zeros((x.shape[0], HIDDEN))
    (h, _), _ = jax.lax.scan(step, (zeros, zeros), x.transpose(1, 0, 2) @ w["input"].T)
    return h @ w["last"]


LSTM = Network(
    (TIMES, GIVEN),
    {"input": (4 * HIDDEN, GIVEN), "hidden": (4 * HIDDEN, HIDDEN), "last": (HIDDEN, CLASSES)},
    _dg_lstm,
    _jax_lstm,
)
# A U-Net of two halvings: each block has two convolutions, and the way up is joined with the way down.
_BLOCKS = {"down0": (3, 16), "down1": (16, 32), "middle": (32, 64), "up1": (64, 32), "up0": (32, 16)}
_WIDER = {"up1": (64, 32), "up0": (32, 16)}  # transposed convolutions


def _unet_weights() -> dict[str, tuple[int, ...]]:
    sizes: dict[str, tuple[int, ...]] = {}
    for name, (before, channels) in _BLOCKS.items():
        sizes |= {f"{name}.a": (channels, before, 3, 3), f"{name}.a.bias": (channels,)}
        sizes |= {f"{name}.b": (channels, channels, 3, 3), f"{name}.b.bias": (channels,)}
    sizes |= {f"{name}.wider": (*pair, 2, 2) for name, pair in _WIDER.items()}
    return {**sizes, "last": (CLASSES, 16, 1, 1), "last.bias": (CLASSES,)}


def _unet(relu: Any, convolution: Any, halve: Any, widen: Any, join: Any, mean: Any, w: Weights, x: Any) -> Any:
    def block(name: str, x: Any) -> Any:
        return relu(convolution(w, f"{name}.b", relu(convolution(w, f"{name}.a", x))))

    first = block("down0", x)
    second = block("down1", halve(first))
    h = block("middle", halve(second))
    for name, around in (("up1", second), ("up0", first)):
        h = block(name, join(around, widen(h, w[f"{name}.wider"])))
    return mean(convolution(w, "last", h))


UNET = Network(
    (3, 32, 32),
    _unet_weights(),
    functools.partial(
        _unet,
        dg.activation_relu,
        _dg_convolution,
        lambda x: dg.max_pooling(x, window_size=[2, 2], strides=[2, 2]),
        lambda x, w: dg.convolution(x, w, direction="backward", strides=[2, 2]),
        lambda one, other: dg.join([one, other], axis=1),
        lambda x: dg.reduce(x, function="average", axes=[2, 3]).flatten(),
    ),
    functools.partial(
        _unet,
        jax.nn.relu,
        _jax_convolution,
        lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
        lambda x, w: jax.lax.conv_transpose(
            x, w, (2, 2), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW"), transpose_kernel=True
        ),
        lambda one, other: jnp.concatenate([one, other], 1),
        lambda x: x.mean((2, 3)),
    ),
)
NETWORKS = {
    "mlp": MLP,
    "digits": DIGITS,
    "resnet": RESNET,
    "resnet18": RESNET_18,
    "unet": UNET,
    "transformer": TRANSFORMER,
    "lstm": LSTM,
}


def initial(network: Network) -> dict[str, Array]:
    """He's initialisation, of all but vectors."""
    random = np.random.default_rng(0)
    weights = {}
    for name, sizes in network.weights.items():
        if len(sizes) == 1:
            weights[name] = np.full(sizes, float(name.endswith("scale")), np.float32)
        else:
            inputs = sizes[0] if len(sizes) == 2 and network is not LSTM else np.prod(sizes[1:])
            weights[name] = (random.standard_normal(sizes) * np.sqrt(1 / inputs)).astype(np.float32)
    return weights


def training_graph(network: Network, batch: int) -> dg.Graph:
    g = dg.Graph("training")
    x = g.input("x", sizes=[batch, *network.inputs], dtype="float32")
    labels = g.input("labels", sizes=[batch], dtype="int32")
    weights = {
        name: g.state(name, sizes=array.shape, dtype="float32", initial=array)
        for name, array in initial(network).items()
    }
    loss = dg.losses.softmax_cross_entropy(network.device(weights, x), labels)
    g.output("loss", loss)
    g.minimize(loss, list(weights.values()), optimizer=dg.Adam(RATE))
    return g


def device_step(network: Network, arrays: Mapping[str, Array], threads: int) -> Callable[[], float]:
    executable = training_graph(network, len(arrays["x"])).compile("cpu", threads=threads)
    results = executable.run(arrays)
    executable.states.reset()
    run = executable.bind(arrays, results)

    def step() -> float:
        run()
        return float(results["loss"][0])

    return step


def jax_step(network: Network, arrays: Mapping[str, Array]) -> Callable[[], float]:
    def loss(weights: Weights, x: Any, labels: Any) -> Any:
        logs = jax.nn.log_softmax(network.jax(weights, x))
        return -jnp.take_along_axis(logs, labels[:, None], 1).mean()

    def change(state: Any, x: Any, labels: Any) -> Any:
        weights, first, second, step = state
        step = step + 1
        found, gradients = jax.value_and_grad(loss)(weights, x, labels)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
        share, root = RATE / (1 - 0.9**step), 1 - 0.999**step
        after = jax.tree.map(lambda w, m, v: w - share * m / (jnp.sqrt(v / root) + 1e-8), weights, first, second)
        return (after, first, second, step), found

    jitted = jax.jit(change, donate_argnums=0)
    zeros = {name: np.zeros_like(array) for name, array in initial(network).items()}
    state = jax.tree.map(jnp.array, (initial(network), zeros, zeros, np.float32(0)))

    def step() -> float:
        nonlocal state
        state, found = jitted(state, arrays["x"], arrays["labels"])
        jax.block_until_ready(state)
        return float(found)

    return step


def torch_step(name: str, arrays: Mapping[str, Array], threads: int, compiled: bool) -> Callable[[], float]:
    from pytorch_training import make_step

    return make_step(name, initial(NETWORKS[name]), arrays, RATE, threads, compiled)


def data(network: Network, batch: int) -> dict[str, Array]:
    random = np.random.default_rng(1)
    return {
        "x": random.standard_normal((batch, *network.inputs)).astype(np.float32),
        "labels": random.integers(0, CLASSES, batch).astype(np.int32),
    }


def steps_of(name: str, batch: int, threads: int) -> dict[str, Callable[[], Callable[[], float]]]:
    """What makes the step of each library."""
    network, arrays = NETWORKS[name], data(NETWORKS[name], batch)
    found = {
        "cpu": functools.partial(device_step, network, arrays, threads),
        "jax": functools.partial(jax_step, network, arrays),
    }
    return found | {
        library: functools.partial(torch_step, name, arrays, threads, compiled) for library, compiled in TORCH.items()
    }


def case(name: str, batch: int, threads: int) -> beside.Case:
    if threads != len(os.sched_getaffinity(0)):
        raise SystemExit(f"JAX takes {len(os.sched_getaffinity(0))} threads, not {threads}: see the first lines")
    steps: dict[str, Callable[[], float]] = {}
    losses: dict[str, list[float]] = {}
    for library, make in steps_of(name, batch, threads).items():
        step = make()
        try:
            losses[library] = [step() for _ in range(COMPARED)]
        except Exception:
            if library != "compiled":  # PyTorch's compiler fails at some networks, such as its own LSTM
                raise
            continue
        steps[library] = step
        np.testing.assert_allclose(losses["cpu"], losses[library], rtol=1e-2, atol=1e-3)
    return beside.Case(steps)


CASES = {f"{name}-{batch}": functools.partial(case, name, batch) for name in NETWORKS for batch in BATCHES}

if __name__ == "__main__":
    beside.main((__doc__ or "").splitlines()[0], {"steps": CASES}, ("jax", *TORCH), 15)
