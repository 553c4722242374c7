"""The declaration of operators: the base class, the kinds of fields, and everything that follows from a declaration.

`operator` has the base class and `fields` the annotations.  The other modules derive from a declaration: the C struct
(`struct`, `native`), what may be given (`descriptor`) and what follows from it (`completion`, `outputs`), what is legal
at which level (`support`), the types of numbers given for tensors (`number_types`), and the Python functions
(`signatures`, `calls`).  `fused` has the activations that an operator applies to its result.
"""
