"""The keys of a mapping in a graph file: which are known, and which are meant."""

from __future__ import annotations

from collections.abc import Collection

from dmlgraph.base.errors import listing
from dmlgraph.base.report import Report
from dmlgraph.formats.text_tree.tree import Tree
from dmlgraph.operators.catalog.foreign_fields import Meant, meant_field

MERGE = "<<"  # of YAML 1.1
MERGED = Meant(None, "YAML 1.2 has no merge keys: write the entries here; a template repeats nodes")


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
        path = f"{within}.{key}" if within else key
        meant = MERGED if key == MERGE else meant_field(key, known, item.plain)
        if key == MERGE and isinstance(item.value, dict):  # read as it is meant, too
            tree.value |= {each: tree.value.get(each, merged) for each, merged in item.value.items() if each in known}
            tree.keys |= {each: tree.keys.get(each, place) for each in item.value if each in known}
        if meant.field is not None and meant.field not in tree.value:
            tree.value[meant.field], tree.keys[meant.field] = item, place
        allowed = listing(known)
        report.problem("is not known here", place, "unknown-field", path, node=node, allowed=allowed, hint=meant.hint)
    return tree
