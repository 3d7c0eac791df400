"""`python -m sits.runtime.prepare`: see the package."""

import sys

from sits.runtime.prepare import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
