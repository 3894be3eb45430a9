"""What the demonstration found out; as JSON these are the words of `hop demo --json`."""

from dataclasses import dataclass

from hopring.check.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Latency:
    """From multicast to receipt, between two sites in both directions."""

    between: tuple[str, str] | None  # None is all sites, each within itself.
    wire_ms: float
    mean_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Tally:
    """Bundles sent; and receipts: one is expected of each daemon that a bundle is for."""

    sent: int = 0
    expected: int = 0
    received: int = 0
    duplicates: int = 0
    lost: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.sent + other.sent,
            self.expected + other.expected,
            self.received + other.received,
            self.duplicates + other.duplicates,
            self.lost + other.lost,
        )


@dataclass(frozen=True, slots=True)
class LinkLoss:
    """A link, both ends together."""

    between: tuple[str, str]
    datagrams: int
    lost: int
    nacks: int
    retransmissions: int


@dataclass(frozen=True, slots=True)
class Clean:
    """Nothing is lost on the way."""

    latencies: list[Latency]
    tally: Tally


@dataclass(frozen=True, slots=True)
class Lossy:
    """Every datagram between sites may be lost."""

    loss_percent: float
    latencies: list[Latency]
    links: list[LinkLoss]
    tally: Tally


@dataclass(frozen=True, slots=True)
class Pruned:
    """Bundles for one site only."""

    source: str
    wanted_by: str
    wanted_bytes: int  # On the branch to it.
    pruned: str
    pruned_bytes: int  # On the branch where nobody wants them.
    pruned_percent: float
    tally: Tally


@dataclass(frozen=True, slots=True)
class Rerouted:
    """A link is cut, and the next network does without."""

    between: tuple[str, str]
    noticed_ms: dict[str, float]  # After the cut, by daemon.
    generation: int
    flowing_ms: float  # After the cut: the first bundle that crossed between the two sites again.
    latencies: list[Latency]
    tally: Tally


@dataclass(frozen=True, slots=True)
class Demo:
    """The whole of it."""

    ok: bool
    version: str
    seconds: float
    clean: Clean
    loss: Lossy
    pruning: Pruned
    cut: Rerouted
    total: Tally
    verdicts: list[Verdict]
    restarts: list[str]  # Networks that ended although nothing was cut, and why.
    trace: str
