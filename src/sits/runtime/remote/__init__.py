"""Instances whose model is elsewhere: any endpoint that speaks OpenAI's API.

    python -m sits.runtime.remote '<json RemoteSettings>'     started by exec, from the node

One process for each tenant: it holds that tenant's secrets and nobody else's. To control it is a
host, and each of its instances listens on a socket for gateways, as a worker does. Unlike the
hosts that fork, it is asynchronous: it never forks and runs no engine, it only waits for many
connections at once, and has templates rendered by processes of their own. From the outside in:

    _main        settings, the process
    _host        orders from control; instances
    _instance    one instance's socket: requests, cancels, the drain (with _outbox)
    _caller      a request over the endpoints, in order, until one answers
    _rendering   a unit's template -> a conversation, in another process
    _board       which endpoints are left out for now (with `sits.policy`)
    _http        one call: deadlines, statuses, what an error means (with _secrets)
    _chat, _embeddings, _sse     bodies and answers (pure)
    _errors      what can go wrong with an endpoint
"""

from sits.runtime.remote._errors import SecretError
from sits.runtime.remote._main import RemoteSettings, run
from sits.runtime.remote._secrets import Secret, read_secret

__all__ = ["RemoteSettings", "Secret", "SecretError", "read_secret", "run"]
