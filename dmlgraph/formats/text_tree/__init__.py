"""YAML text as a tree of values with their places."""
