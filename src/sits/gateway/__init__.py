"""HTTP in front of the instances: OpenAI's API, units' own endpoints, control's API.

One process, `python -m sits.gateway`, one event loop; `run(settings)` owns everything in it.
It works on with its last routing table while control is away, and holds no state that it
could lose. A request goes down this list, and its answer up:

    _server        the parts wired together; start, drain, end
    _protocol      every connection: how many, how long until there is a request
    _edge          every request: id, Host, key, log line
    _endpoints     paths
    _chat, _query, _embeddings      reading a request into a job (pure; with _body, _fields)
    _relay         carrying a job out: place, first piece, pieces, end (with _disconnect)
    _activator     the queue of each unit; first come, first served
    _workers       one link to each instance, many requests on it (with _inbox)
    _render_chat, _render_query, _render_embeddings     answers into bytes (pure; with _event_text)

beside them `_table` (units and keys of now), `_control_link` (table down, demand up), `_proxy`
(control's API), `_errors` (what callers see), `_exchange` (what the log says), `_settings`.

Templates are never rendered here: a bad one would hold up everybody.
"""

from sits.gateway._server import run
from sits.gateway._settings import LOOPBACK_HOSTS, Settings

__all__ = ["LOOPBACK_HOSTS", "Settings", "run"]
