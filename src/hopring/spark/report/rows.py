"""What the report is about: rows of the gold tables as values, with times in microseconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hopring.value import Value

ALL_GROUPS: Final = ""


class Stay(Value, frozen=True, order=True):
    """A daemon in a view."""

    daemon: str
    begin_us: int
    view: str
    end_us: int | None  # None: nobody saw it end.
    members: tuple[str, ...]
    transitional: tuple[str, ...] = ()
    cause: str = ""
    signalled_us: int | None = None


class Latency(Value, frozen=True, order=True):
    """How long messages of one service took from one site to another."""

    service: str
    from_site: str
    to_site: str
    group: str
    messages: int
    p50_us: float | None
    p90_us: float | None
    p99_us: float | None
    max_us: float | None
    mean_us: float | None
    negative: int  # Clocks that differ: so many seemed to arrive before they were sent.


class Bucket(Value, frozen=True, order=True):
    """How many of them took so long."""

    service: str
    from_site: str
    to_site: str
    low_us: int
    high_us: int
    messages: int


class Link(Value, frozen=True, order=True):
    """What a daemon counted of its link to a peer."""

    daemon: str
    peer: str
    link: str
    sent: int
    received: int
    lost: int
    nacks: int
    retransmissions: int
    loss_ratio: float | None
    round_trip_us: float | None


class GroupStay(Value, frozen=True, order=True):
    """A session in a view of a group."""

    group: str
    begin_us: int
    view: str
    session: str
    end_us: int | None
    members: tuple[str, ...]
    cause: str


class Finding(Value, frozen=True):
    """A property that is broken in one history."""

    run: str
    property: str
    violations: int
    witness: str


class Audit(Value, frozen=True):
    """What the audit says."""

    holds: bool
    runs: tuple[str, ...]
    broken: tuple[Finding, ...]
    judged: Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class Gold:
    """All that there is. None is a table that was not made; an empty one has nothing in it."""

    throughput: Any = None  # A pyarrow.Table with `second_us`: it may be long, so Arrow adds it up.
    latency: list[Latency] | None = None
    histogram: list[Bucket] | None = None
    links: list[Link] | None = None
    membership: list[Stay] | None = None
    group_views: list[GroupStay] | None = None
    summary: dict[str, float] = field(default_factory=dict)
    gaps: Any = None  # A pyarrow.Table of whatever columns.
    audit: Audit | None = None
    left_out: dict[str, int] = field(default_factory=dict)  # By table: rows past the limit of what is read.
