"""Entry of a remote host's process."""

import sys

from sits.runtime.remote import run

sys.exit(run(sys.argv[1:]))
