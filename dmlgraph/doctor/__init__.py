"""The doctor: finds the node that a device computes wrong."""
