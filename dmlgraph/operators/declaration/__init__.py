"""The declaration of operators: the base class, the kinds of fields, and everything that follows from a declaration.

`operator` has the base class and `fields` the annotations.  The other modules derive from a declaration: the C struct
(`struct`, `native`), the fields that may be left out (`completion`, `outputs`), what is legal at which level
(`support`), the types of numbers given for tensors (`number_types`), and the Python functions (`signatures`, `calls`).
"""
