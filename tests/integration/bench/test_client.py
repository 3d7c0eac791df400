"""The load generator, against servers that do as they are told."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sits.bench import BenchError
from sits.bench._client import Ask, ask, ask_all
from tests.unit.bench.test_client import HEAD, chunk, event


@contextmanager
def serving(serve: Callable[[socket.socket], None], connections: int) -> Iterator[int]:
    """Serve so many connections, each in a thread, and give the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            threads = []
            for _ in range(connections):
                threads.append(threading.Thread(target=serve, args=(listener.accept()[0],)))
                threads[-1].start()
            for thread in threads:
                thread.join()

        accepting = threading.Thread(target=accept)
        accepting.start()
        yield listener.getsockname()[1]
        accepting.join()


def read_request(sock: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"}"):
        data += sock.recv(65536)
    return data


def test_requests_go_at_their_times_and_answers_keep_their_order() -> None:
    got: list[bytes] = []

    def echo(sock: socket.socket) -> None:
        with sock:
            request = read_request(sock)
            got.append(request)
            name = request.rpartition(b'"')[0].rpartition(b'"')[2].decode()
            sock.sendall(HEAD + chunk(event(name)) + b"0\r\n\r\n")

    with serving(echo, 2) as port:
        late = Ask(port, {"model": "late"}, {"Authorization": "Bearer key"}, after_s=0.05)
        answers = ask_all([late, Ask(port, {"model": "early"})])
    assert [answer.pieces[0][1] for answer in answers] == ["late", "early"]
    assert answers[0].sent_s - answers[1].sent_s >= 0.04
    assert b"early" in got[0]
    assert b"Authorization: Bearer key\r\n" in got[1]


def test_an_answer_that_breaks_off_is_told() -> None:
    def cut(sock: socket.socket) -> None:
        with sock:
            read_request(sock)
            sock.sendall(HEAD + chunk(event("Hel")))

    with serving(cut, 1) as port, pytest.raises(BenchError, match="broke off"):
        ask(Ask(port, {}))


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(BenchError, match="a connection broke"):
        ask(Ask(port, {}))
