"""Renders a trace as lines of a scenario: time, place, event, and loss; long runs as counts."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hopring.errors import PeerError
from hopring.membership.messages import decode_daemon_message
from hopring.sim.network import Address, SentDatagram
from hopring.sim.path import LossReason
from hopring.sim.tcp.links import TCP_PORT
from hopring.sim.tcp.stream import SimTcpFlags, SimTcpSegment, decode_segment
from hopring.testing.link_ends import CLUSTER
from hopring.testing.network_check import Ninit, Nlinkfailed, Nmcast, Nreceive
from hopring.testing.trace import (
    DatagramDropped,
    HostChanged,
    LinkEndFailed,
    ObjectReceived,
    ObjectRefused,
    ObjectSubmitted,
    TraceEvent,
)
from hopring.wire.control import decode_control_object
from hopring.wire.data import Data, Missing, Segment
from hopring.wire.hop import Ack, Nack
from hopring.wire.objects import ObjectType, split_objects
from hopring.wire.ring import Held, Hurry, Token
from hopring.wire.routed import Meta, decode_routed
from hopring.wire.train import Frame, MembershipFrame, decode
from hopring.wire.unreliable import Loose

KINDS: Final = frozenset(
    ("DATA", "ACK", "NACK", "TOKEN", "HURRY", "HELD", "LOOSE", "SYN", "FIN", "RST", "BYTES")
)
"""The kinds of frames and, from SYN on, of TCP segments."""

_FRAME_KINDS: Final[Mapping[type, str]] = {
    Ack: "ACK",
    Nack: "NACK",
    Token: "TOKEN",
    Hurry: "HURRY",
    Held: "HELD",
    MembershipFrame: "MEMBERSHIP",
    Loose: "LOOSE",
}
_COUNTED_AS: Final[Mapping[type, str]] = {
    ObjectSubmitted: "submitted",
    ObjectRefused: "refused",
    DatagramDropped: "dropped",
}

_WORD_CHARACTERS_MAX: Final = 24
_WORDS_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class ScenarioLine:
    """One line; `kinds` names the frames in it, for `hide`."""

    at_us: int
    where: str
    what: str
    fate: str = ""
    kinds: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class WireNames:
    """Names for numbers on the wire: daemons, and in an overlay the sites of bundles."""

    hosts: Mapping[int, str]
    sites: Sequence[str] = ()

    def object(self, kind: int, body: memoryview) -> str:
        """An object in a packet: the submitted word, or the site and sequence of its bundle."""
        if not self.sites:
            return word(bytes(body))
        routed = decode_routed(kind, body)
        name = f"{self.sites[routed.source]}:{routed.seq}"
        if isinstance(routed, Meta):
            return f"{name} meta"
        part = f" part {routed.index + 1}/{routed.count}" if routed.count > 1 else ""
        return f"{name} {word(bytes(routed.chunk))}{part}"


def time(at_us: int) -> str:
    """Virtual time in milliseconds, with as many decimals as it has."""
    return f"{at_us / 1_000:.3f}".rstrip("0").rstrip(".") + "ms"


def word(payload: bytes) -> str:
    """An object as its text if it is a word, or else as its size."""
    if 0 < len(payload) <= _WORD_CHARACTERS_MAX and payload.isascii():
        text = payload.decode()
        if text.isprintable() and " " not in text:
            return text
    return f"{len(payload)}B"


def words(objects: list[str]) -> str:
    """A few objects one by one, many as their number."""
    return " ".join(objects) if len(objects) <= _WORDS_MAX else f"{len(objects)} objects"


def frames_of(source: Address, datagram: bytes) -> list[Frame | SimTcpSegment]:
    """The frames of a datagram; none if it is foreign."""
    if source.port == TCP_PORT:
        return [decode_segment(datagram)]
    try:
        return list(decode(datagram, CLUSTER).frames)
    except PeerError:
        return []


def kind(frame: Frame | SimTcpSegment) -> str:
    """The name of a frame's kind, as scenarios use it."""
    match frame:
        case Data() | Segment():
            return "DATA"
        case SimTcpSegment():
            return _tcp_kind(frame)
        case _:
            return _FRAME_KINDS[type(frame)]


def _tcp_kind(segment: SimTcpSegment) -> str:
    for flag in (SimTcpFlags.RST, SimTcpFlags.SYN, SimTcpFlags.FIN):
        if flag in segment.flags:
            return str(flag.name)
    return "BYTES" if segment.data else "ACK"


def line_of(event: TraceEvent, names: WireNames) -> ScenarioLine | None:
    """The line for one event; None for one that a command of the scenario states already."""
    match event:
        case SentDatagram():
            return _sending(event, names)
        case ObjectSubmitted():
            return None
        case ObjectReceived():
            return ScenarioLine(event.at_us, event.host, f"deliver {word(event.payload)}")
        case ObjectRefused():
            return ScenarioLine(event.at_us, event.host, f"refused: {event.reason}")
        case LinkEndFailed():
            return ScenarioLine(event.at_us, event.host, f"link failed: {event.reason}")
        case DatagramDropped():
            return ScenarioLine(event.at_us, event.host, f"drop {event.reason}: {event.detail}")
        case HostChanged():
            return ScenarioLine(event.at_us, event.host, event.change.value)
        case Ninit():
            return ScenarioLine(
                event.at_us, event.daemon, f"starts network {event.network} of {' '.join(event.members)}"
            )
        case Nmcast():
            return None
        case Nreceive():
            return ScenarioLine(event.at_us, event.daemon, f"deliver {word(event.bundle)}")
        case Nlinkfailed():
            return ScenarioLine(event.at_us, event.daemon, f"network failed: {event.reason}")


def _sending(event: SentDatagram, names: WireNames) -> ScenarioLine:
    target = "*" if event.group is not None else event.fates[0][0]
    frames = frames_of(event.source, event.datagram)
    what = " + ".join(_frame(frame, names) for frame in frames) or f"{len(event.datagram)}B of noise"
    where = f"{event.source.host}->{target}"
    return ScenarioLine(event.at_us, where, what, _fate(event), frozenset(map(kind, frames)))


def _fate(event: SentDatagram) -> str:
    lost = {host: loss for host, loss in event.fates if loss is not None}
    if not lost:
        return ""
    reasons = sorted({loss for loss in lost.values() if loss not in (LossReason.TARGETED, LossReason.CHANCE)})
    why = f" ({', '.join(reasons)})" if reasons else ""
    return f"lost{why}" if len(lost) == len(event.fates) else f"lost to {' '.join(lost)}{why}"


def _frame(frame: Frame | SimTcpSegment, names: WireNames) -> str:
    match frame:
        case Data(seq=seq, payload=payload):
            return f"DATA {seq} {words([names.object(kind, body) for kind, body in split_objects(payload)])}"
        case Segment():
            return f"DATA {frame.seq} part {frame.index + 1}/{frame.count}"
        case Ack():
            top = f" top={frame.top}" if frame.top != frame.aru else ""
            return f"ACK aru={frame.aru}{top} sent={frame.max_sent}"
        case Nack():
            return f"NACK {_missing(frame.missing)}"
        case Token():
            return _token(frame, names)
        case Hurry():
            return "HURRY"
        case Held():
            return f"HELD {frame.number}"
        case MembershipFrame():
            return f"MEMBERSHIP of {len(frame.payload)}B"
        case Loose():
            return f"LOOSE of {len(frame.payload)}B"
        case SimTcpSegment():
            return _tcp(frame)


def _missing(missing: tuple[Missing, ...]) -> str:
    return " ".join(map(_request, missing))


def _request(one: Missing) -> str:
    if one.segments:
        parts = [index + 1 for index in range(one.segments.bit_length()) if one.segments >> index & 1]
        return f"{one.seq}[{_ranges(parts)}]"
    return str(one.seq) if one.count == 1 else f"{one.seq}-{one.seq + one.count - 1}"


def _ranges(numbers: list[int]) -> str:
    """Rising numbers with runs joined: 1,3-5."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _token(token: Token, names: WireNames) -> str:
    parts = [f"TOKEN {token.number} seq={token.link_seq} aru={token.link_aru}"]
    if token.link_aru_modifier in names.hosts:
        parts.append(f"by {names.hosts[token.link_aru_modifier]}")
    if token.missing:
        parts.append(f"missing {_missing(token.missing)}")
    return " ".join(parts)


def _tcp(segment: SimTcpSegment) -> str:
    name = _tcp_kind(segment)
    span = f" {segment.seq}-{segment.end - 1}" if segment.data else ""
    return f"{name}{span} ack={segment.ack}" if SimTcpFlags.ACK in segment.flags else f"{name}{span}"


_PART: Final = re.compile(r"(DATA \d+) part (\d+)/(\d+)")
_PARTS: Final = re.compile(r"(DATA \d+) part (\d+)(?:-(\d+))?/(\d+)")
_DELIVERIES_MAX: Final = 8


def align(lines: list[ScenarioLine]) -> list[str]:
    """The lines as text, in columns as wide as they need to be."""
    joined = _join(lines)
    times = [time(line.at_us) for line in joined]
    time_width = max(map(len, times), default=0)
    where_width = max((len(line.where) for line in joined), default=0)
    what_width = max((len(line.what) for line in joined if line.fate), default=0)
    return [
        f"{at:>{time_width}} {line.where:<{where_width}}  {line.what:<{what_width}}  {line.fate}".rstrip()
        for at, line in zip(times, joined, strict=True)
    ]


def _join(lines: list[ScenarioLine]) -> list[ScenarioLine]:
    joined: list[ScenarioLine] = []
    for line in lines:
        together = _together(joined[-1], line) if joined else None
        if together is None:
            joined.append(line)
        else:
            joined[-1] = together
    return [_shorten(line) for line in joined]


def _together(one: ScenarioLine, other: ScenarioLine) -> ScenarioLine | None:
    """Both lines as one, if the second continues the first."""
    if (one.at_us, one.where, one.fate) != (other.at_us, other.where, other.fate):
        return None
    if one.what.startswith("deliver ") and other.what.startswith("deliver "):
        return replace(one, what=f"{one.what} {other.what.removeprefix('deliver ')}")
    first, second = _PARTS.fullmatch(one.what), _PART.fullmatch(other.what)
    if first is None or second is None or first.group(1, 4) != second.group(1, 3):
        return None
    if int(first.group(3) or first.group(2)) + 1 != int(second.group(2)):
        return None
    return replace(one, what=f"{first.group(1)} part {first.group(2)}-{second.group(2)}/{first.group(4)}")


def _shorten(line: ScenarioLine) -> ScenarioLine:
    delivered = line.what.split()[1:]
    if not line.what.startswith("deliver ") or len(delivered) <= _DELIVERIES_MAX:
        return line
    return replace(line, what=f"deliver {len(delivered)} objects from {delivered[0]} to {delivered[-1]}")


def summary(events: Iterable[TraceEvent]) -> list[str]:
    """Counts per host, then per direction, in the order of their names."""
    hosts: dict[str, Counter[str]] = {}
    paths: dict[str, Counter[str]] = {}
    seen: set[tuple[str, bytes]] = set()
    for event in events:
        match event:
            case SentDatagram():
                _count_sending(event, paths)
            case ObjectSubmitted() | ObjectRefused() | DatagramDropped():
                hosts.setdefault(event.host, Counter())[_COUNTED_AS[type(event)]] += 1
            case Nmcast():
                hosts.setdefault(event.daemon, Counter())["multicast"] += 1
            case ObjectReceived():
                _count_receipt(hosts, seen, event.host, event.payload)
            case Nreceive():
                _count_receipt(hosts, seen, event.daemon, event.bundle)
            case LinkEndFailed():
                hosts.setdefault(event.host, Counter())[_failure(event)] += 1
            case Nlinkfailed():
                hosts.setdefault(event.daemon, Counter())[_failure(event)] += 1
            case _:
                pass
    lines = [(name, counts) for table in (hosts, paths) for name, counts in sorted(table.items())]
    width = max((len(name) for name, _counts in lines), default=0)
    return [f"{name:<{width}}  {_text(counts)}" for name, counts in lines]


def _count_receipt(
    hosts: dict[str, Counter[str]], seen: set[tuple[str, bytes]], host: str, payload: bytes
) -> None:
    """Counts a receipt; one of an object that was received before is counted apart."""
    again = (host, payload) in seen
    seen.add((host, payload))
    hosts.setdefault(host, Counter())["received again" if again else "received"] += 1


def _failure(event: LinkEndFailed | Nlinkfailed) -> str:
    return f"failure at {time(event.at_us)}: {event.reason}"


def _count_sending(event: SentDatagram, paths: dict[str, Counter[str]]) -> None:
    for host, loss in event.fates:
        counts = paths.setdefault(f"{event.source.host}->{host}", Counter())
        counts["datagrams sent"] += 1
        counts["lost"] += loss is not None


def _text(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


INNER_KINDS: Final = frozenset(
    (
        *("ALIVE", "JOIN", "REFER", "DECLINE", "LEAVE", "NEWMEMB"),
        *("STATETRANS", "RESEND", "DONE", "BUNDLE", "META", "UPDATE"),
    )
)
"""The membership messages, and the objects that go from site to site."""

# The tag of a recovery message, behind the head of a msgpack array.
_RECOVERY_TAGS: Final = {b"\xa1S": "STATETRANS", b"\xa1D": "RESEND", b"\xa1E": "DONE"}


def inside(frame: Frame | SimTcpSegment) -> list[tuple[str, int | None]]:
    """The inner kinds of a frame, with the site sequence of those that have one."""
    try:
        match frame:
            case MembershipFrame(payload=payload):
                return [(type(decode_daemon_message(payload)).__name__.upper().removeprefix("DAEMON"), None)]
            case Data():
                return [_object(kind, body) for kind, body in split_objects(frame.payload)]
            case _:
                return []
    except PeerError:
        return []


def _object(kind: int, body: memoryview) -> tuple[str, int | None]:
    match kind:
        case ObjectType.UPDATE:
            return "UPDATE", None
        case ObjectType.CONTROL:
            control = decode_control_object(body)
            named = [
                name for tag, name in _RECOVERY_TAGS.items() if control.index == 0 and tag in control.chunk[:5]
            ]
            return (named[0] if named else "CONTROL"), None
        case ObjectType.META:
            return "META", decode_routed(kind, body).seq
        case _:
            return "BUNDLE", decode_routed(kind, body).seq
