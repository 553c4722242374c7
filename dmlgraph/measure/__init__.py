"""Measurements: how long a graph takes on a device, and where two devices differ."""
