"""`python -m kgen` is the command `kgen`."""

import sys

from kgen.cli import main

sys.exit(main())
