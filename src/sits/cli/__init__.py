"""The command `sits`.

Long imports happen in the commands that need them, so that `sits --help` is quick. Results go to
standard output, everything else to standard error; `-o json` prints one JSON document. Exit
status: 0 done, 1 failed, 2 wrong use.
"""

from sits.cli._app import main

__all__ = ["main"]
