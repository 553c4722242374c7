"""Device `directml`: graphs on the real DirectML.

`device` compiles and runs them, on what `open_devices` keeps.  `library` finds DirectML and `runtime` loads it;
`versions` says which one Windows has, `install` and `ready` install it, `trial` proves that it works.  `transfer` gives
the runtime the bytes of arrays, and `profile` times single nodes.  `faults` works around DirectML's faults, `refusal`
finds the nodes it refuses, and `software` is the adapter that it runs on if there is no other.
"""
