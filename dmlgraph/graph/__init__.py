"""Graphs as users build them: nodes, values, dims, scopes, and warnings."""
