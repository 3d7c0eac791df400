"""xllamacpp's server, as a program: run by its path, with the Python that has it.

    python _xllamacpp_process.py MODEL PORT SLOTS CONTEXT_TOKENS THREADS

It imports nothing of the platform, and ends when its parent does or is told to.
"""

import importlib
import signal
import sys


def main(model: str, port: str, slots: str, context_tokens: str, threads: str) -> None:
    """Serve until a signal."""
    library = importlib.import_module("xllamacpp")
    params = library.CommonParams()
    params.model.path = model
    params.port = int(port)
    params.n_parallel = int(slots)
    params.n_ctx = int(context_tokens)
    params.cpuparams.n_threads = int(threads)
    params.cpuparams_batch.n_threads = int(threads)
    params.warmup = False
    params.ui = False
    params.fit_params = False
    server = library.Server(params)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    del server


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main(*sys.argv[1:])
