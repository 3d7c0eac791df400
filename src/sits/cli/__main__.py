"""`python -m sits.cli` is `sits`."""

from sits.cli import main

main()
