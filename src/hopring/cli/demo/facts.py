"""What the demonstration found out; as JSON these are the words of `hop demo --json`."""

from dataclasses import dataclass, field

from hopring.check.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Flow:
    """What passed in a calm phase, on one side."""

    phase: str
    sites: tuple[str, ...]
    seconds: float
    sent: int
    delivered: int  # Copies: one for each client that got it.
    sent_per_second: float
    delivered_per_second: float


@dataclass(frozen=True, slots=True)
class Latency:
    """From multicast to delivery at a client, of what was sent in a calm phase on one side."""

    service: str
    phase: str
    sites: tuple[str, ...]
    delivered: int
    mean_ms: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Reached:
    """Where the messages of a phase and a side came: by site, how many all clients got, and how many some."""

    phase: str
    sites: tuple[str, ...]
    sent: int
    all_got: dict[str, int]
    some_got: dict[str, int]


@dataclass(frozen=True, slots=True)
class Client:
    """What the client of one daemon did and saw."""

    daemon: str
    sent: int
    agreed: int
    safe: int
    views: int
    signals: int
    last_view: list[str]  # Of the first group, by daemon.


@dataclass(frozen=True, slots=True)
class Change:
    """How long it took until all clients of a side had the view that they should have."""

    phase: str
    seconds: dict[str, float]  # By side.


@dataclass(frozen=True, slots=True)
class Judged:
    """A history, and what is to be said of it."""

    name: str
    events: int
    verdicts: list[Verdict]

    @property
    def good(self) -> bool:
        """Whether every property holds, of something that happened."""
        return bool(self.events) and bool(self.verdicts) and all(self.verdicts)


@dataclass(frozen=True, slots=True)
class Demo:
    """The whole of it."""

    ok: bool
    version: str
    seconds: float
    flows: list[Flow]
    latencies: list[Latency]
    changes: list[Change]
    reached: list[Reached]
    clients: list[Client]
    judged: list[Judged]
    trace: str  # The file.
    spools: dict[str, str] = field(default_factory=dict)  # By site: the directory.
    problems: list[str] = field(default_factory=list)
    report: str | None = None  # The file, if there was a pipeline.
    pipeline: str = ""  # What came of it, or why there was none.
