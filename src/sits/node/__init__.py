"""Process composition: `sits up`, and what it takes to start, watch and end the rest.

The node starts gateway, control and base hosts by exec, starts them again when they end, and
decides nothing: which hosts there are is control's word. It owns what processes share: the
home directory and its lock, the directory of sockets, the listening TCP socket (so that a
gateway's restart refuses no connection), and the log files.

    load_settings()   defaults < sits.toml < SITS_* < flags
    run()             the whole platform, until it is told to stop
    prepare_home()    makes the directory of all that lasts
    running_node()    the node that runs on a home directory, if one does
    shut_down()       ends it

`run` and `shut_down` bring the rest of the platform with them: they are imported when they are
first asked for, so that a command that only looks where the platform is starts quickly.
"""

import importlib
from typing import TYPE_CHECKING, Any

from sits.node._home import NodeError, RunningNode, prepare_home, running_node
from sits.node._settings import Settings, load_settings

if TYPE_CHECKING:
    from sits.node._run import run
    from sits.node._shutdown import shut_down

_LATER = {"run": "sits.node._run", "shut_down": "sits.node._shutdown"}

__all__ = [
    "NodeError",
    "RunningNode",
    "Settings",
    "load_settings",
    "prepare_home",
    "run",
    "running_node",
    "shut_down",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)
