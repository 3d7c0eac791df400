"""A large answer reaches its gateway while the engine goes on with others'."""

import tempfile
import threading
from typing import Any

from sits.runtime.batch import EmbeddingBatcher
from sits.runtime.engine import EmbeddingShape
from sits.runtime.host import Reactor, WorkerServer
from sits.testing import FakeBehaviour, FakeModel
from sits.wire import Embed, Embedded, FromWorker
from tests.links import Link

DIMENSIONS = 4096
INPUTS = 200  # 3.2 MB of vectors, where a socket holds some 200 KB


def test_megabytes_of_vectors_are_taken_within_the_step_that_made_them() -> None:
    model = FakeModel(FakeBehaviour(embedding=True, dimensions=DIMENSIONS))
    engine = model.make_embedding_engine(EmbeddingShape(256, 512, 4096))
    batcher = EmbeddingBatcher(model, engine, lambda: 0)
    got: list[Any] = []
    with tempfile.TemporaryDirectory(prefix="sits-") as directory:
        path = f"{directory}/w.sock"
        reactor = Reactor()
        server = WorkerServer(reactor, batcher)
        server.open("i", "unit", path)

        def gateway() -> None:
            link = Link(path, FromWorker)
            link.send(Embed("large", ((97,),) * INPUTS))
            got.append(link.next(Embedded))
            link.close()

        reader = threading.Thread(target=gateway)
        reader.start()
        while not batcher.request_ids:
            reactor.turn(0.01)
        while batcher.busy:
            server.step()
        # No turn of the reactor has come since.
        assert not any(link.wants_write for link in server._links)
        reader.join(10)
        server.close()
    assert len(got[0].vectors) == INPUTS
    assert len(got[0].vectors[0]) == 4 * DIMENSIONS
