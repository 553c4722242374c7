"""References: how graph files name the outputs of nodes, such as `node.output_index` or `node.outputs.1`."""

from __future__ import annotations

from dmlgraph.base.errors import GraphError, listing, shorten, suggestion
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.graph.network import Network, Outputs
from dmlgraph.graph.nodes import readings, reference_hint

NO_NODE = "there is no node of this name"


def check_node(network: Network, name: str) -> None:
    """Raises a GraphError if there is no node of this name."""
    if name not in network:
        raise GraphError(NO_NODE, code="unknown-node", node=name, hint=suggestion(name, network.nodes))


def desc_of(network: Network, name: str, port: int) -> TensorDesc:
    """The description of an output of a node.

    Raises:
        GraphError: the node or the output does not exist, or the output is left out.
    """
    check_node(network, name)
    outputs = network.outputs_of(name)
    descs = outputs.descs
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < len(descs):
        allowed = f"0 to {len(descs) - 1}" if len(descs) > 1 else "0"
        raise GraphError(
            "there is no output of this number", code="unknown-output", node=name, got=port, allowed=allowed
        )
    desc = descs[port]
    if desc is None:
        path = outputs.paths[port]
        raise GraphError(
            "this optional output is left out",
            code="left-out",
            got=name + path,
            hint=f"ask for it: {path.lstrip('.')}: true",
        )
    return desc


def resolved(network: Network, reference: str) -> tuple[str, int, TensorDesc | None]:
    """The node, the port and the description of a reference; the latter is None for an output that is left out.

    Names may contain dots.  A reference has one meaning: `check_meaning` refuses ambiguous names.

    Raises:
        GraphError: the node does not exist, or has several outputs and the reference names none or an unknown one.
    """
    known: tuple[str, str] | None = None
    for name, path in readings(reference):
        outputs = network.find(name)
        if outputs is not None:
            port = outputs.ports.get(path)
            if port is not None:
                return name, port, outputs.descs[port]
            known = known or (name, path)
    if known is None:
        raise GraphError(NO_NODE, code="unknown-node", node=reference, hint=reference_hint(reference, network.nodes))
    name, path = known
    paths = network.outputs_of(name).paths
    has = "one output" if len(paths) == 1 else "no such output" if path else "several outputs"
    few = len(paths) <= 8
    allowed = listing(name + each for each in paths) if few else f"{name}{paths[0]} to {name}{paths[-1]}"
    raise GraphError(f"'{shorten(name)}' has {has}", code="unknown-output", got=reference, allowed=allowed)


def check_meaning(network: Network, name: str, outputs: Outputs) -> None:
    """Names may contain dots, but no reference may mean both a node and an output of another."""
    hint = "rename one of the two"
    for other, path in readings(name) if "." in name else ():
        if other in network and path in network.outputs_of(other).ports:
            clash = f"is also the reference to output '{path[1:]}' of '{shorten(other)}'"
            raise GraphError(clash, code="duplicate", node=name, hint=hint)
    for path in outputs.named:
        if name + path in network:
            clash = f"the reference to its output '{path[1:]}' is also the name of the node '{shorten(name + path)}'"
            raise GraphError(clash, code="duplicate", node=name, hint=hint)
