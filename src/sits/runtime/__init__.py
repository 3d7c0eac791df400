"""The LLM-optimized runtime: engines, batching, and the processes that answer.

    engine/   one small interface to a model; the llama.cpp engine behind it
    batch/    one instance's requests, turned into engine steps and pieces of text
    host/     base host, template and worker (by fork), or one resident host

Everything here is synchronous and single-threaded: a step of the engine is the clock, and the
sockets are drained between steps. Nothing here knows of HTTP, of units' files or of the store.
"""
