"""Which templates are kept, so that the next start is warm, and which go.

Rules, in their order of precedence:

1. A template that is needed is never closed, and opened where it is not there.
2. Any other is kept for `cool_s` after it was last busy. Then it is let go of, and its unit is
   cool, until it is needed again.
3. When the machine has less memory than is to be left free, what nothing needs goes before its
   time: first what is not there yet, then the least worth, until the rest fits. The longer
   something has been idle and the more it takes, the less it is worth. What takes nothing that
   was measured stays: to close it would free nothing that is known of.

With the last template on a host that is kept goes the host, so what the host takes is freed too.
`now_s` is monotonic; should it go back, what is idle is kept longer and nothing else happens.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

TemplateKey = tuple[str, str]  # (host, tenant)


@dataclass(frozen=True)
class TemplateUse:
    """What is remembered of a template between decisions.

    Attributes:
        used_s: when it was last busy, or first heard of.
        busy: it was busy at the last decision.
        cooled: it was let go of, and not needed since.
    """

    used_s: float
    busy: bool = False
    cooled: bool = False


@dataclass(frozen=True)
class TemplateView:
    """One template that is there, or that some unit would start from.

    Attributes:
        is_needed: it may not go: something runs on it, or is to.
        is_busy: requests are in flight, or a revision is got ready: its time begins after that.
        is_open: it is there.
        cool_s: how long it is kept after it was last busy.
        memory_bytes: what it takes by itself, as measured, now or when it was last there; 0
            while that is not known.
    """

    host: str
    tenant: str
    is_needed: bool = False
    is_busy: bool = False
    is_open: bool = False
    cool_s: float = 0.0
    memory_bytes: int = 0

    @property
    def key(self) -> TemplateKey:
        """Host and tenant."""
        return self.host, self.tenant


@dataclass(frozen=True)
class Memory:
    """The machine's memory now, in bytes.

    Attributes:
        available_bytes: what can be taken without anything else being pushed out.
        reserve_bytes: what is to be left of that.
        hosts: what each host takes by itself, as measured.
    """

    available_bytes: int
    reserve_bytes: int
    hosts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TemplateDecision:
    """What to keep, what to remember, and why.

    Attributes:
        keep: the templates that are to be there.
        close: those that are there and are to go, and why; in the order in which they do.
        uses: to be given to the next decision.
        due_s: when to decide again though nothing has happened; None: not needed.
    """

    keep: frozenset[TemplateKey]
    close: Mapping[TemplateKey, str]
    uses: Mapping[TemplateKey, TemplateUse]
    due_s: float | None = None


def decide_templates(
    uses: Mapping[TemplateKey, TemplateUse],
    templates: Iterable[TemplateView],
    memory: Memory | None,
    now_s: float,
) -> TemplateDecision:
    """Decide which templates are there.

    Args:
        uses: the last decision's.
        templates: all that there are, and all that units would start from.
        memory: the machine's; None: it is not known, and nothing goes for its sake.
        now_s: the monotonic time now.
    """
    views = {view.key: view for view in templates}
    now = {key: _use(uses.get(key), view, now_s) for key, view in views.items()}
    keep: list[TemplateView] = []
    close: dict[TemplateKey, str] = {}
    for key, view in views.items():
        if view.is_needed or not (now[key].cooled or now_s >= _until_s(view, now[key])):
            keep.append(view)
        elif view.is_open:
            is_over = now_s >= _until_s(view, now[key])
            close[key] = f"no request for {view.cool_s:g} s" if is_over else "memory was short"
    going_bytes = sum(views[key].memory_bytes for key in close)
    for view in _under_pressure(keep, now, memory, going_bytes, now_s):
        keep.remove(view)
        if view.is_open:
            idle_s = now_s - now[view.key].used_s
            close[view.key] = f"memory is short, and it was idle for {idle_s:.0f} s"
    kept = frozenset(view.key for view in keep)
    next_uses = {key: replace(use, cooled=key not in kept) for key, use in now.items()}
    ends_s = (_until_s(view, now[view.key]) for view in keep if not view.is_needed)
    return TemplateDecision(kept, close, next_uses, min(ends_s, default=None))


def _until_s(view: TemplateView, use: TemplateUse) -> float:
    return use.used_s + view.cool_s


def _use(former: TemplateUse | None, view: TemplateView, now_s: float) -> TemplateUse:
    if former is None or former.busy or view.is_busy:
        return TemplateUse(now_s, view.is_busy)
    return former


def _under_pressure(
    kept: list[TemplateView],
    uses: Mapping[TemplateKey, TemplateUse],
    memory: Memory | None,
    going_bytes: int,
    now_s: float,
) -> list[TemplateView]:
    """Return what has to go for the sake of memory, least worth first.

    Args:
        kept: what would be there.
        uses: when each of it was used.
        memory: the machine's.
        going_bytes: what that which goes in any case takes.
        now_s: the monotonic time now.
    """
    if memory is None:
        return []
    left = Counter(view.host for view in kept)
    missing = memory.reserve_bytes - memory.available_bytes - going_bytes
    missing += sum(view.memory_bytes for view in kept if not view.is_open)
    gone = []
    for view in sorted(kept, key=lambda view: _worth(view, uses[view.key], now_s)):
        if missing <= 0:
            break
        if view.is_needed or (view.is_open and not view.memory_bytes):
            continue
        left[view.host] -= 1
        missing -= view.memory_bytes
        if view.is_open and not left[view.host]:
            missing -= memory.hosts.get(view.host, 0)
        gone.append(view)
    return gone


def _worth(view: TemplateView, use: TemplateUse, now_s: float) -> tuple[bool, float, TemplateKey]:
    return view.is_open, -(now_s - use.used_s) * view.memory_bytes, view.key
