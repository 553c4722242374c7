"""`python -m dmlgraph.cli`."""

import sys

from dmlgraph.cli import main

sys.exit(main())
