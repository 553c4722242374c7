"""Gradients, losses and optimizers: graphs that train what they compute."""

from dmlgraph.training import losses as losses
