"""What an operator sees; now: logs, one line an event, `key=value` after the message.

configure_logging()   for the entry of each process
"""

from sits.observe._logs import configure_logging

__all__ = ["configure_logging"]
