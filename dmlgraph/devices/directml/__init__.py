"""Device `directml`: graphs on the real DirectML.

`device` compiles and runs them.  `library` finds DirectML, `install` and `ready` bring it, `trial` proves that it
works.  `faults` keeps graphs from what DirectML does wrong, `refusal` says which nodes it refuses, and `software` is
the adapter that it runs on where there is no other.
"""
