"""From histories and counters to facts; nothing here knows processes or screens."""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import ceil
from statistics import fmean

from hopring.cli.demo.facts import Latency, LinkLoss, Tally
from hopring.cli.demo.words import Happening, LinkCount, Received, Sent

Sites = tuple[str, str]
"""A pair of sites, spelled in one order only."""

Counts = dict[tuple[str, str], LinkCount]
"""What the links have carried, by the daemons at their ends, the sender first."""


def tally_of(happenings: Iterable[Happening]) -> Tally:
    """How much was sent, and how much of it came."""
    sent: list[Sent] = []
    receipts: Counter[tuple[str, str]] = Counter()
    for one in happenings:
        if isinstance(one, Sent):
            sent.append(one)
        elif isinstance(one, Received):
            receipts[one.bundle, one.daemon] += 1
    expected = {(one.bundle, daemon) for one in sent for daemon in one.wanted_by}
    return Tally(
        sent=len(sent),
        expected=len(expected),
        received=len(expected & receipts.keys()),
        duplicates=sum(receipts.values()) - len(receipts),
        lost=len(expected - receipts.keys()),
    )


def latencies_of(
    happenings: Iterable[Happening], site_of: Mapping[str, str], wire_ms: Mapping[Sites, int]
) -> list[Latency]:
    """For every pair of sites in `wire_ms`, and last within sites; receipts at the sender are left out."""
    samples: dict[Sites | None, list[float]] = {}
    sent: dict[str, Sent] = {}
    for one in happenings:
        if isinstance(one, Sent):
            sent[one.bundle] = one
        elif isinstance(one, Received) and one.bundle in sent:
            origin = sent[one.bundle]
            if one.daemon != origin.daemon:
                between = _pair(site_of[origin.daemon], site_of[one.daemon], wire_ms)
                samples.setdefault(between, []).append((one.at_us - origin.at_us) / 1_000)
    pairs = [between for between in (*wire_ms, None) if between in samples]
    return [
        _latency(between, 0 if between is None else wire_ms[between], samples[between]) for between in pairs
    ]


def _pair(one: str, other: str, wire_ms: Mapping[Sites, int]) -> Sites | None:
    if one == other:
        return None
    return (one, other) if (one, other) in wire_ms else (other, one)


def _latency(between: Sites | None, wire_ms: int, samples: list[float]) -> Latency:
    ordered = sorted(samples)
    p99_ms = ordered[ceil(0.99 * len(ordered)) - 1]
    return Latency(between, wire_ms, round(fmean(ordered), 2), round(p99_ms, 2))


def difference(after: Counts, before: Counts) -> Counts:
    """What the links carried in between."""
    none = LinkCount(0, 0, 0, 0, 0)
    return {ends: _minus(count, before.get(ends, none)) for ends, count in after.items()}


def _minus(after: LinkCount, before: LinkCount) -> LinkCount:
    return LinkCount(
        after.datagrams - before.datagrams,
        after.lost - before.lost,
        after.bytes - before.bytes,
        after.nacks - before.nacks,
        after.retransmissions - before.retransmissions,
    )


def losses_of(counts: Counts, site_of: Mapping[str, str], pairs: Iterable[Sites]) -> list[LinkLoss]:
    """Both ends of each link together."""
    found = []
    for pair in pairs:
        ends = [count for (one, other), count in counts.items() if {site_of[one], site_of[other]} == set(pair)]
        found.append(
            LinkLoss(
                pair,
                datagrams=sum(end.datagrams for end in ends),
                lost=sum(end.lost for end in ends),
                nacks=sum(end.nacks for end in ends),
                retransmissions=sum(end.retransmissions for end in ends),
            )
        )
    return found
