"""Device `directml`: graphs on the real DirectML.

`device` compiles and runs them.  `library` finds DirectML, `install` and `ready` install it, `trial` proves that it
works.  `faults` works around DirectML's faults, `refusal` finds the nodes it refuses, and `software` is the adapter
that it runs on if there is no other.
"""
