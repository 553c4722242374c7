"""Makes and checks the wheels of a release: `python tools/release --help`."""
