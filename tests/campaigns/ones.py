"""Shapes with many dimensions of size 1 on `cpu`: views of them, joined, padded and read by several."""

from __future__ import annotations

from support.random_graphs import LEVELS, graph_of

from campaigns import graphs
from campaigns.campaign import Campaign


def one_case(seed: int) -> None:
    graphs.agrees(graph_of(seed, "ones", LEVELS[seed % len(LEVELS)]))


CAMPAIGN = Campaign("ones", "views of shapes with many ones, joined and padded, on cpu: as the reference", one_case)
