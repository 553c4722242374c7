"""From a graph to a DML_GRAPH_DESC: views, passes, lowering."""
