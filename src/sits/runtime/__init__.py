"""The LLM-optimized runtime: engines, batching, and the processes that answer.

    engine/   one small interface to a model; the llama.cpp engines behind it
    batch/    one instance's requests, turned into engine steps and pieces of text, or vectors
    host/     base host, template and worker (by fork), or one resident host
    remote/   a host whose instances are endpoints elsewhere
    prepare/  what a model file is, and the form of it that is fastest here

`engine`, `batch` and `host` are synchronous and single-threaded: a step of the engine is the
clock, and the sockets are drained between steps. `remote` is asynchronous: it runs no engine and
never forks. Nothing here knows of units' files or of the store.
"""
