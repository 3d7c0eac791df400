"""What a person would write without a platform: a program that loads a model and answers.

    python _plain_process.py MODEL CONTEXT_TOKENS THREADS < MESSAGES

Run by its path; it imports nothing of the platform. It takes the messages of a chat as JSON on
its standard input, and writes the answer's texts, unbuffered, to its standard output.
"""

import importlib
import json
import sys


def main(model: str, context_tokens: str, threads: str) -> None:
    """Answer once."""
    messages = json.load(sys.stdin)
    library = importlib.import_module("llama_cpp")
    count = int(threads)
    llama = library.Llama(
        model, n_ctx=int(context_tokens), n_threads=count, n_threads_batch=count, verbose=False
    )
    chunks = llama.create_chat_completion(messages, temperature=0.0, max_tokens=4, stream=True)
    for chunk in chunks:
        sys.stdout.write(chunk["choices"][0]["delta"].get("content") or "")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
