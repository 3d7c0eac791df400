"""What an operator sees; now: logs, one line an event, and how a service starts and ends.

configure_logging()   for the entry of each process
message_of()          a log line without its head
run_service()         the entry of a process that the node starts
"""

from sits.observe._logs import configure_logging, message_of
from sits.observe._service import run_service

__all__ = ["configure_logging", "message_of", "run_service"]
