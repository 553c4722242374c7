"""How states are named in a model that dmlgraph writes."""

PROPERTY = "dmlgraph.states"  # in its metadata: JSON of the inputs and the outputs with their next values
LENGTH = ".length"  # behind the name of a growing state: the input that is its length
NEXT = ".next"  # behind the name of a state: the output that is its next value
