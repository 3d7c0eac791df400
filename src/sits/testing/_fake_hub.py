"""A model hub on this machine, with the faults that real ones have.

It speaks the parts of huggingface.co's API that pinning and pulling need: a repository's files
with their LFS digests, its revisions, and `resolve` with ranges, where large files are redirected
to another host name, as a content network is.
"""

import contextlib
import hashlib
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

_PART_BYTES = 64 << 10


@dataclass
class HubFaults:
    """What goes wrong. May be changed while the hub runs.

    Attributes:
        cut_every_bytes: each answer with content breaks off after so many; 0: never.
        stall_after_bytes: each answer with content stops after so many, and says no more.
        stall_s: how long it then stays silent.
        busy_answers: so many requests for content are answered 429 first.
        busy_api_answers: the same for requests about a repository.
        retry_after: the `Retry-After` of those.
        alter: content comes with one byte changed.
        ignore_ranges: content comes from its start, whatever was asked for.
    """

    cut_every_bytes: int = 0
    stall_after_bytes: int = 0
    stall_s: float = 5.0
    busy_answers: int = 0
    busy_api_answers: int = 0
    retry_after: str = "1"
    alter: bool = False
    ignore_ranges: bool = False


@dataclass(frozen=True)
class Seen:
    """One request that the hub got."""

    method: str
    path: str
    host: str
    range: str | None
    authorization: str | None


@dataclass
class _Repository:
    commit: str
    files: Mapping[str, bytes]
    lfs: bool
    gated: bool
    tag: str | None


@dataclass
class FakeHub:
    """A hub in a thread of this process, as a context manager.

    Attributes:
        faults: what goes wrong.
        seen: every request, in order.
        sent_bytes: path of a file to how many bytes of its content were sent.
    """

    faults: HubFaults = field(default_factory=HubFaults)
    seen: list[Seen] = field(default_factory=list)
    sent_bytes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Take a port; nothing is answered before `__enter__`."""
        self._repositories: dict[str, _Repository] = {}
        self._aliases: dict[str, str] = {}
        self.connections: set[socket.socket] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        """Start answering."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._thread.join()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):  # the client has closed it
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        """The hub's address, for `HF_ENDPOINT` or `HubSettings.endpoint`."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def content_host(self) -> str:
        """The host that content is redirected to: another name of this one."""
        return f"localhost:{self._server.server_port}"

    def add(
        self,
        repository: str,
        files: Mapping[str, bytes],
        *,
        lfs: bool = True,
        gated: bool = False,
        alias: str | None = None,
        tag: str | None = None,
    ) -> str:
        """Put a repository at its next commit there; return the commit.

        Args:
            repository: `ORG/NAME`.
            files: path to content.
            lfs: whether the files are kept with LFS (in git itself otherwise).
            gated: whether it is answered 403.
            alias: an old name that redirects to it.
            tag: a revision's name that means this commit.
        """
        parts = b"".join(
            name.encode() + hashlib.sha256(data).digest() for name, data in files.items()
        )
        commit = hashlib.sha1(parts, usedforsecurity=False).hexdigest()
        self._repositories[repository] = _Repository(commit, dict(files), lfs, gated, tag)
        if alias:
            self._aliases[alias] = repository
        return commit

    def find(self, name: str) -> tuple[_Repository | None, str | None]:
        """Return the repository of a name, or the name that it has now."""
        return self._repositories.get(name), self._aliases.get(name)

    def content(self, sha256: str) -> tuple[str, bytes] | None:
        """Return path and content of a file kept with LFS."""
        for repository in self._repositories.values():
            for name, data in repository.files.items():
                if hashlib.sha256(data).hexdigest() == sha256:
                    return name, data
        return None


def _make_handler(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        pass

    Handler.hub = hub
    return Handler


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        """Remember the connection, which may outlive the server's own thread."""
        super().setup()
        self.hub.connections.add(self.connection)

    def finish(self) -> None:
        """Forget the connection."""
        super().finish()
        self.hub.connections.discard(self.connection)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the library
        """Say nothing."""

    def do_HEAD(self) -> None:
        """Answer as GET, without content."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer one request."""
        headers = self.headers
        seen = Seen(
            self.command,
            self.path,
            headers["Host"] or "",
            headers["Range"],
            headers["Authorization"],
        )
        self.hub.seen.append(seen)
        path = unquote(urlsplit(self.path).path)
        if path.startswith("/content/"):
            self._content(path.removeprefix("/content/"))
        elif path.startswith("/api/models/"):
            self._about(path.removeprefix("/api/models/"))
        elif "/resolve/" in path:
            self._resolve(path[1:])
        else:
            self._fail(404, "")

    def _about(self, path: str) -> None:
        if self.hub.faults.busy_api_answers > 0:
            self.hub.faults.busy_api_answers -= 1
            self._busy()
            return
        name, _, rest = path.partition("/revision/")
        name = name.removesuffix("/refs")
        repository = self._repository(name, "/api/models/", path)
        if repository is None:
            return
        if path.endswith("/refs"):
            main = {"name": "main", "ref": "refs/heads/main", "targetCommit": repository.commit}
            tag = {**main, "name": repository.tag, "ref": f"refs/tags/{repository.tag}"}
            tags = [tag] if repository.tag else []
            self._json({"branches": [main], "tags": tags, "converts": []})
        elif rest not in {"", "main", repository.commit, repository.tag}:
            self._fail(404, "RevisionNotFound")
        else:
            files = [_sibling(n, data, lfs=repository.lfs) for n, data in repository.files.items()]
            self._json({"id": name, "sha": repository.commit, "siblings": files})

    def _resolve(self, path: str) -> None:
        name, _, rest = path.partition("/resolve/")
        _, _, file = rest.partition("/")
        repository = self._repository(name, "/", path)
        if repository is None:
            return
        data = repository.files.get(file)
        if data is None:
            self._fail(404, "EntryNotFound")
        elif not repository.lfs:
            self._send(file, data)
        else:
            sha256 = hashlib.sha256(data).hexdigest()
            self.send_response(302)
            self.send_header("X-Repo-Commit", repository.commit)
            self.send_header("X-Linked-Etag", f'"{sha256}"')
            self.send_header("X-Linked-Size", str(len(data)))
            self.send_header("Location", f"http://{self.hub.content_host}/content/{sha256}")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _repository(self, name: str, before: str, path: str) -> _Repository | None:
        repository, moved_to = self.hub.find(name)
        if moved_to:
            self.send_response(307)
            self.send_header("Location", before + path.replace(name, moved_to, 1))
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif repository is None:
            self._fail(404, "RepoNotFound")
        elif repository.gated:
            self._fail(403, "GatedRepo")
        else:
            return repository
        return None

    def _content(self, sha256: str) -> None:
        found = self.hub.content(sha256)
        if found is None:
            self._fail(404, "")
        else:
            self._send(*found)

    def _send(self, name: str, data: bytes) -> None:
        faults = self.hub.faults
        if faults.busy_answers > 0:
            faults.busy_answers -= 1
            self._busy()
            return
        start, end = self._span(len(data))
        if start >= len(data):
            self._fail(416, "")
            return
        self.send_response(206 if self.headers["Range"] and not faults.ignore_ranges else 200)
        self.send_header("Content-Length", str(end - start))
        self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        self.end_headers()
        if self.command == "HEAD":
            return
        view = memoryview(data)
        for at in range(start, end, _PART_BYTES):
            part = bytes(view[at : min(end, at + _PART_BYTES)])
            if not self._send_part(name, part, at - start):
                return

    def _send_part(self, name: str, part: bytes, sent: int) -> bool:
        """Send some content; return whether to go on."""
        faults = self.hub.faults
        cut, stall = faults.cut_every_bytes, faults.stall_after_bytes
        limit = min((n for n in (cut, stall) if n), default=sent + len(part))
        part = part[: limit - sent]
        if faults.alter and sent == 0:
            part = bytes([part[0] ^ 1]) + part[1:]
        try:
            self.wfile.write(part)
            self.hub.sent_bytes[name] += len(part)
        except OSError:  # the client has what it wanted
            self.close_connection = True
            return False
        if sent + len(part) < limit or not (cut or stall):
            return True
        if stall and limit == stall:
            time.sleep(faults.stall_s)
        self.close_connection = True
        return False

    def _span(self, size: int) -> tuple[int, int]:
        text = self.headers["Range"]
        if not text or self.hub.faults.ignore_ranges:
            return 0, size
        first, _, last = text.removeprefix("bytes=").partition("-")
        return int(first), min(size, int(last) + 1) if last else size

    def _busy(self) -> None:
        self.send_response(429)
        self.send_header("Retry-After", self.hub.faults.retry_after)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _fail(self, status: int, code: str) -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _json(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _sibling(name: str, data: bytes, *, lfs: bool) -> dict[str, Any]:
    git = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    sibling: dict[str, Any] = {"rfilename": name, "size": len(data), "blobId": git}
    if lfs:
        sha256 = hashlib.sha256(data).hexdigest()
        sibling["lfs"] = {"sha256": sha256, "size": len(data), "pointerSize": 134}
    return sibling
