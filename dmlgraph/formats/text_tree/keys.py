"""The keys of a mapping in a graph file: which are known, and which are meant."""

from __future__ import annotations

from collections.abc import Collection

from dmlgraph.base.errors import listing, nearest, suggestion
from dmlgraph.base.report import Report
from dmlgraph.formats.text_tree.tree import Tree

# Names in other libraries and formats → keys here.
ELSEWHERE = {"shape": "sizes", "type": "dtype", "data_type": "dtype", "value": "data", "path": "file", "operator": "op"}


def known_keys(
    tree: Tree, known: Collection[str], report: Report, *, node: str | None = None, within: str = ""
) -> Tree:
    """The tree of a dict without its unknown keys, each of which is a problem.

    A key that is similar to a missing one is read as that, so that the mistake is reported only once.

    Args:
        tree: of a dict.
        known: the keys that it may have.
        report: gets the problems.
        node: for the problems.
        within: the field path of the dict, for the problems.
    """
    unknown = [key for key in tree.value if key not in known]
    if not unknown:
        return tree
    tree = tree.copy()  # aliases may refer to it elsewhere
    for key in unknown:
        item, place = tree.value.pop(key), tree.keys.pop(key)
        absent = [each for each in known if each not in tree.value]
        meant = next((each for each in absent if each == ELSEWHERE.get(key)), None) or nearest(key, absent)
        if meant is not None:
            tree.value[meant], tree.keys[meant] = item, place
        path = f"{within}.{key}" if within else key
        hint = suggestion(key, known, {key: ELSEWHERE[key]} if ELSEWHERE.get(key) in known else None)
        report.problem("is not known here", place, "unknown-field", path, node=node, allowed=listing(known), hint=hint)
    return tree
