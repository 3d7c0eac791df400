"""Messages between the processes of one machine: frames, their types, and the ASGI extension.

Every link is a unix stream socket that carries frames: four bytes of big-endian length, then
one msgpack document, at most `MAX_FRAME_BYTES`. Each link has two closed unions of message
types, one for each direction, named `To…` and `From…` after the side that listens:

    gateway  -> worker    `ToWorker`   / `FromWorker`    one request's life
    control  -> host      `ToHost`     / `FromHost`      templates and instances
    control  -> node      `ToNode`     / `FromNode`      host processes
    gateway  -> control   `ToControl`  / `FromControl`   demand up, routing table down

`FrameSocket` serves the synchronous loops, `Channel` the anyio services; both use the same
`Frames` codec. Nothing here decides anything.
"""

from sits.wire._asgi import PIECE_EXTENSION, PieceAdapter, send_piece
from sits.wire._channel import Channel, connect, serve
from sits.wire._control import (
    FromControl,
    KeyRecord,
    Load,
    RoutedInstance,
    Table,
    TablePatch,
    ToControl,
    UnitKind,
    UnitLoad,
    UnitRoute,
)
from sits.wire._frames import MAX_FRAME_BYTES, Frames, WireError, encode_frame
from sits.wire._host import (
    FromHost,
    FromNode,
    HostDown,
    HostKind,
    HostReady,
    HostUp,
    Instance,
    InstanceGone,
    InstanceReady,
    OpenTemplate,
    RemoteEndpoint,
    Shutdown,
    StartHost,
    StartInstance,
    StopHost,
    StopInstance,
    TemplateFailed,
    TemplateReady,
    Tier,
    ToHost,
    ToNode,
)
from sits.wire._socket import FrameSocket, accept_nowait, listen
from sits.wire._worker import (
    HOPS_HEADER,
    Cancel,
    ChatPrompt,
    Embed,
    Embedded,
    Emitted,
    Failed,
    Finished,
    FinishReason,
    FromWorker,
    Generate,
    Message,
    Piece,
    Sampling,
    Stage,
    TemplatePrompt,
    ToWorker,
    Usage,
)

__all__ = [
    "HOPS_HEADER",
    "MAX_FRAME_BYTES",
    "PIECE_EXTENSION",
    "Cancel",
    "Channel",
    "ChatPrompt",
    "Embed",
    "Embedded",
    "Emitted",
    "Failed",
    "FinishReason",
    "Finished",
    "FrameSocket",
    "Frames",
    "FromControl",
    "FromHost",
    "FromNode",
    "FromWorker",
    "Generate",
    "HostDown",
    "HostKind",
    "HostReady",
    "HostUp",
    "Instance",
    "InstanceGone",
    "InstanceReady",
    "KeyRecord",
    "Load",
    "Message",
    "OpenTemplate",
    "Piece",
    "PieceAdapter",
    "RemoteEndpoint",
    "RoutedInstance",
    "Sampling",
    "Shutdown",
    "Stage",
    "StartHost",
    "StartInstance",
    "StopHost",
    "StopInstance",
    "Table",
    "TablePatch",
    "TemplateFailed",
    "TemplatePrompt",
    "TemplateReady",
    "Tier",
    "ToControl",
    "ToHost",
    "ToNode",
    "ToWorker",
    "UnitKind",
    "UnitLoad",
    "UnitRoute",
    "Usage",
    "WireError",
    "accept_nowait",
    "connect",
    "encode_frame",
    "listen",
    "send_piece",
    "serve",
]
