"""Makes docs/errors.md: the meaning of each code of an error or a warning, with an example and its message.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping

from dmlgraph.base.codes import ERRORS, WARNINGS
from generators.error_examples import EXAMPLES, shown

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "errors.md"

BEFORE = """\
# Errors and warnings

Every error and every warning has a code for its kind. Commands print it in brackets. In Python it is the `code` of an
error and of each of its `problems`. Programs should use the code: the words of a message may change.

```python
import dmlgraph as dg

try:
    dg.Graph(target="4.1").fill_value_constant(sizes=[2], dtype="uint8", value=300)
except dg.DmlGraphError as error:
    print(error.code, error.node, error.field, error.got)
```

```text
does-not-fit fill_value_constant value 300
```

A warning is for something legal that is probably a mistake. `allow` lists the codes of warnings that are not reported,
in a graph file and in Python:

```yaml title="allowed.yaml"
dmlgraph: 1
allow: [unused-input]
inputs: {x: {dtype: float32, sizes: [2]}, later: {dtype: float32, sizes: [2]}}
outputs: [x]
```

```python
print(dg.load("allowed.yaml").warnings(), dg.Graph(allow=["unused-dim"], dims={"N": 4}).warnings())
```

```text
[] []
```

An error cannot be allowed. The examples below are graph files, Python and commands. In Python, `dg` is `dmlgraph` and
`np` is NumPy.
"""


def page() -> str:
    return "\n".join([BEFORE, *_section("Warnings", WARNINGS), *_section("Errors", ERRORS)])


def _section(title: str, codes: Mapping[str, str]) -> Iterator[str]:
    yield f"## {title}\n"
    for code, meaning in codes.items():
        example = EXAMPLES[code]
        language = "yaml" if example.startswith("dmlgraph:") else "console" if example.startswith("$") else "python"
        yield f"### {code}\n\n{meaning}\n"
        yield f"<!-- not run: it ends with the message -->\n\n```{language}\n{example}```\n"
        yield f"```text\n{shown(code)}```\n"


def files() -> dict[pathlib.Path, str]:
    return {PAGE: page()}
