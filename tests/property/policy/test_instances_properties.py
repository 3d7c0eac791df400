"""A unit's instances through any history: what holds always, and what is reached in the end."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sits.policy import (
    InstanceView,
    Observed,
    Phase,
    ScaleSpec,
    ScaleState,
    Start,
    Stop,
    after_failure,
    decide_instances,
)

IDLE_S = 60.0
ENOUGH_S = 30.0  # the longest backoff


class Scaling(RuleBasedStateMachine):
    """Plays the world around the policy: loads, starts that come up or fail, stops that end."""

    @initialize(low=st.integers(0, 3), more=st.integers(0, 5), capacity=st.integers(1, 8))
    def begin(self, low: int, more: int, capacity: int) -> None:
        self.spec = ScaleSpec(low, max(1, low + more), IDLE_S)
        self.capacity = capacity
        self.state = ScaleState()
        self.instances: dict[str, Phase] = {}
        self.demand = 0
        self.now_s = 0.0
        self.count = 0
        self.decide()

    def decide(self) -> None:
        phases = list(self.instances.values())
        before = dict(self.instances)
        views = tuple(
            InstanceView(name, phase, self.capacity if phase is Phase.READY else 0)
            for name, phase in self.instances.items()
        )
        observed = Observed(self.demand, 0, views)
        decision = decide_instances(self.state, observed, self.spec, self.now_s)
        self.state = decision.next_state
        started = 0
        for action in decision.actions:
            if isinstance(action, Start):
                started += action.count
            else:
                assert before[action.name] is Phase.READY, "only what is ready is stopped"
                self.instances[action.name] = Phase.DRAINING
        if started:
            assert not any(isinstance(action, Stop) for action in decision.actions)
            if Phase.READY not in phases:
                assert Phase.STARTING not in phases, "single flight"
                assert started == 1
            assert self.now_s >= self.state.backoff.retry_at_s, "not before the backoff is over"
        for _ in range(started):
            self.count += 1
            self.instances[f"i{self.count}"] = Phase.STARTING

    def some(self, phase: Phase) -> list[str]:
        return [name for name, current in self.instances.items() if current is phase]

    @rule(demand=st.integers(0, 40))
    def load_changes(self, demand: int) -> None:
        self.demand = demand
        self.decide()

    @rule(seconds=st.floats(0.0, 100.0))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.decide()

    @precondition(lambda self: self.some(Phase.STARTING))
    @rule(data=st.data())
    def a_start_comes_up(self, data: st.DataObject) -> None:
        self.instances[data.draw(st.sampled_from(self.some(Phase.STARTING)))] = Phase.READY
        self.decide()

    @precondition(lambda self: self.some(Phase.STARTING) or self.some(Phase.READY))
    @rule(data=st.data())
    def an_instance_fails(self, data: st.DataObject) -> None:
        living = self.some(Phase.STARTING) + self.some(Phase.READY)
        del self.instances[data.draw(st.sampled_from(living))]
        backoff = after_failure(self.state.backoff, "broke", self.now_s)
        self.state = ScaleState(backoff, self.state.idle_since_s)
        self.decide()

    @precondition(lambda self: self.some(Phase.DRAINING))
    @rule(data=st.data())
    def a_drain_ends(self, data: st.DataObject) -> None:
        del self.instances[data.draw(st.sampled_from(self.some(Phase.DRAINING)))]
        self.decide()

    def settle(self) -> None:
        """Let everything that is under way end well, and deciding end."""
        for _ in range(30):
            for name, phase in list(self.instances.items()):
                if phase is Phase.STARTING:
                    self.instances[name] = Phase.READY
                elif phase is Phase.DRAINING:
                    del self.instances[name]
            self.decide()

    @rule()
    def nothing_in_flight_leads_to_min_instances(self) -> None:
        self.demand = 0
        self.now_s += ENOUGH_S
        self.settle()
        self.now_s += IDLE_S
        self.settle()
        assert len(self.instances) == self.spec.min_instances

    @rule(demand=st.integers(1, 40))
    def demand_leads_to_as_many_as_it_needs(self, demand: int) -> None:
        self.demand = demand
        self.now_s += ENOUGH_S
        self.settle()
        needed = -(-demand // self.capacity)
        assert len(self.instances) >= min(needed, self.spec.max_instances)

    @invariant()
    def never_more_than_max(self) -> None:
        if hasattr(self, "spec"):
            assert len(self.instances) <= self.spec.max_instances


TestScaling = Scaling.TestCase
TestScaling.settings = settings(max_examples=60, stateful_step_count=20)
