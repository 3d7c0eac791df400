"""SITS: an AI-native serverless platform.

One YAML file binds a model, a prompt template and a scaling policy (an Intelligence Unit);
`sits iu deploy` turns it into a streaming endpoint. The packages, lower layers first:

    spec, policy        what a unit is; every decision, pure
    wire, trust, store  messages between processes; keys; durable records
    observe, sandbox, models
    runtime | gateway | control      siblings: they meet only in lower layers
    testing             fakes that pass the same contract suite as the real thing
    node, cli           process composition; the command
"""

from sits._errors import SitsError
from sits._version import __version__

__all__ = ["SitsError", "__version__"]
