"""Makes docs/passes.md: how each rule of the passes changes a graph; from the rules and their examples in docs/rules/.
"""

from __future__ import annotations

import inspect
import itertools
import pathlib
from collections.abc import Iterator

from dmlgraph.devices.cpu import target as cpu
from dmlgraph.devices.directml.target import PASSES
from dmlgraph.passes import RULES, Rule
from generators import pictures
from generators.pictures import DOCS

PAGE = DOCS / "passes.md"
ON_CPU = [rule for each in cpu.PASSES for rule in each.rules]

BEFORE = """\
# How each pass changes a graph

Before a graph is lowered, passes rewrite it: numbers go into the operators that use them, activations into the
operators before them, and duplicate computations are removed. The results stay the same, to the bit or within the
bounds that the rule states.

A pass is a list of rules. The passes run in the order of this page, each until none of its rules applies, and all of
them until nothing changes. `dmlgraph lower FILE --explain` shows which rules applied and why others did not;
`exe.fusion` holds the same in Python.

```python
import numpy as np
import dmlgraph as dg

g = dg.load("rules/swish.yaml")
exe = g.compile(device="cpu")
for entry in exe.fusion:
    print(entry)
```

```text
swish: y, gate → y: it is activation_swish of 'x'
```

`fuse=False` turns fusion off, and a list names the rules to use. Rules that are off by default are used only if they
are named:

```python
from dmlgraph.passes import RULES

by_default = [name for name, rule in RULES.items() if rule.default]
exe = g.compile(device="cpu", fuse=[*by_default, "reassociate"])
exe = g.compile(device="cpu", fuse=[name for name in by_default if name != "swish"])
print([node.name for node in exe.graph.nodes])
```

```text
['gate', 'y']
```

Each device has passes of its own. The page shows those of DirectML, which `reference` runs too. `cpu` leaves out the
rules that make an operator that is no faster there: a product and a sum of tensors do not become a BATCH_NORMALIZATION,
for example. No device runs a rule that it leaves out, even if `fuse` names it.
`dmlgraph lower FILE --explain --device cpu` shows what a device gets.

`ULP` is a unit in the last place of the named value. "Bit-exact" means that every bit of every output is the same on
every device, except for the payloads of NaN.

Each rule below has a small graph to which it applies, drawn before and after that rule alone.
"""


def page() -> str:
    return pictures.with_mermaid("\n".join(_page()))


def _page() -> Iterator[str]:
    yield BEFORE
    yield "| pass | rules |\n|---|---|"
    for each in PASSES:
        yield f"| {each.name} | {', '.join(f'[{rule.name}](#{rule.name})' for rule in each.rules)} |"
    for each in PASSES:
        yield f"\n## {each.name}"
        for module, rules in itertools.groupby(each.rules, key=lambda rule: inspect.getmodule(rule.function)):
            yield f"\n{inspect.getdoc(module)}"
            for rule in rules:
                yield from _rule(rule)
    yield ""


def _rule(rule: Rule) -> Iterator[str]:
    summary, _, more = inspect.cleandoc(rule.function.__doc__ or "").partition("\n")
    yield f"\n### {rule.name}\n"
    yield f"{summary}\n"
    if more.strip():
        yield f"{more.strip()}\n"
    yield f"- What it does to the numbers: {rule.effect}."
    yield f"- {'On' if rule.default else 'Off'} by default."
    yield "" if rule in ON_CPU else "- Not a rule of `cpu`.\n"
    source = f"rules/{rule.name}.yaml"
    yield f"```yaml\n{(DOCS / source).read_text(encoding='utf-8')}```\n"
    yield f"<!-- picture: {source} {rule.name} -->"


def files() -> dict[pathlib.Path, str]:
    unknown = {path.stem for path in (DOCS / "rules").glob("*.yaml")} ^ set(RULES)
    if unknown:
        raise SystemExit(f"docs/rules has too many, or no example, of {', '.join(sorted(unknown))}")
    return {PAGE: page()}
