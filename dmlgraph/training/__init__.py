"""Gradients, losses and optimizers: graphs that train what they compute."""
