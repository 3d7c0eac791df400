"""Entry of a base host process."""

import sys

from sits.runtime.host import run

sys.exit(run(sys.argv[1:]))
