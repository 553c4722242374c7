"""What operators are declared with: the base class, the kinds of fields, and what follows from a declaration.

`operator` has the base class and `fields` the annotations.  The rest is what follows from a declaration: the C struct
(`struct`, `native`), what may be left out (`completion`, `outputs`), what is legal at which level (`support`), the
types of numbers given for tensors (`number_types`), and the Python functions (`signatures`, `calls`).
"""
