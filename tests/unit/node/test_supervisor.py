"""How soon a service that ends is started again."""

from sits.node._supervisor import delay_s
from sits.policy import Backoff, after_failure


def test_a_service_is_never_away_for_longer_than_a_few_seconds() -> None:
    """Five control planes killed in a row left the platform without one for half a minute."""
    backoff = Backoff()
    delays = []
    for _ in range(8):
        backoff = after_failure(backoff, "killed by SIGKILL", 100.0)
        delays.append(delay_s(backoff, 100.0))
    assert delays == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0, 4.0, 4.0]
