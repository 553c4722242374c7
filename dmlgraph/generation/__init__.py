"""Text from decoders: prompts, sampling in the graph, stop tokens, beams and drafts."""

from dmlgraph.generation.generator import Generator as Generator
from dmlgraph.generation.sampling import Sampling as Sampling
