"""Entry of a remote host's process."""

import sys

from sits.runtime.remote import run

# The processes that render import this file under another name.
if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
