"""What a gateway is started with. Built once, at the edge; a bad value stops the start."""

from dataclasses import dataclass

from sits._settings import SettingsError

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")

_POSITIVE = (
    "max_connections",
    "header_s",
    "max_body_bytes",
    "body_s",
    "max_messages",
    "max_inputs",
    "max_biases",
    "first_byte_s",
    "idle_s",
    "total_s",
    "api_s",
)


@dataclass(frozen=True)
class Settings:
    """A gateway's settings.

    Attributes:
        control_socket: path of the unix socket from which the routing table comes.
        control_api_socket: path of the unix socket on which the control API speaks HTTP.
        parent_pid: the process that started this one; the gateway dies with it.
        host: address to listen on.
        port: TCP port; 0 takes a free one.
        listen_fd: a listening TCP socket that this process inherited, instead of host and
            port: whoever started it keeps it open, so that a restart refuses nobody.
        allowed_hosts: what a request's `Host` may be: `name` (any port) or `name:port`;
            `*` alone allows everything.
        behind_proxy: believe `X-Forwarded-For` and `X-Forwarded-Proto` of a proxy on this
            machine.
        first_table_s: seconds to wait for control's first table before requests are taken
            (and answered 503 until it comes).
        max_connections: how many connections may be open; the next is answered 503.
        header_s: seconds from the opening of a connection, or from the first byte of a next
            request on it, to the end of the request's headers.
        max_body_bytes: largest request body; a longer one is answered 413.
        body_s: seconds that a client may take to send its body.
        max_messages: most messages in one chat request; more are answered 400.
        max_inputs: most inputs in one request for embeddings; more are answered 400.
        max_biases: most tokens in one request's `logit_bias`; more are answered 400.
        first_byte_s: seconds from the grant of an instance to the first piece.
        idle_s: seconds between two pieces, and for a client to take one.
        total_s: seconds from the first piece to the end of the answer, and from the grant of an
            instance to an answer that has no pieces (vectors).
        api_s: seconds that the control API may take between two parts of an answer.
        keep_alive_s: seconds that an idle connection stays open.
        drain_s: seconds that running answers get to finish after SIGTERM.
    """

    control_socket: str
    control_api_socket: str
    parent_pid: int
    host: str = "127.0.0.1"
    port: int = 7480
    listen_fd: int | None = None
    allowed_hosts: tuple[str, ...] = LOOPBACK_HOSTS
    behind_proxy: bool = False
    first_table_s: float = 5.0
    max_connections: int = 4096
    header_s: float = 10.0
    max_body_bytes: int = 1024 * 1024
    body_s: float = 30.0
    max_messages: int = 2048
    max_inputs: int = 2048
    max_biases: int = 300
    first_byte_s: float = 120.0
    idle_s: float = 60.0
    total_s: float = 3600.0
    api_s: float = 300.0
    keep_alive_s: int = 75
    drain_s: float = 2.0

    def __post_init__(self) -> None:
        """Check what a type cannot say."""
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"port is {self.port}; expected 0 to 65535")
        for name in _POSITIVE:
            if getattr(self, name) <= 0:
                raise SettingsError(f"{name} is {getattr(self, name)}; expected more than 0")
        for name in ("keep_alive_s", "drain_s"):
            if getattr(self, name) < 0:
                raise SettingsError(f"{name} is {getattr(self, name)}; expected 0 or more")
