"""Objects of the daemons themselves: UPDATE and CONTROL for every daemon, and PING, which crosses one link.

UPDATE is a site's promise, CONTROL a fragment of a message of the membership. Both ends of a link send PINGs;
each carries the sender's clock, the last clock received from the other end, and the time since then. So both
ends measure a round trip, whatever the protocol of the link.
"""

from struct import Struct, unpack
from typing import Final, final

from hopring.errors import Drop, PeerError
from hopring.ids import SITES_MAX, DaemonId, SiteId
from hopring.value import Value
from hopring.wire.objects import OBJECT_HEAD_BYTES, ObjectType, encode_object

# source, seq, lts, aru; the lines of the site's daemons may follow
_UPDATE: Final = Struct("<BQQQ")
_LINE_BYTES: Final = 8
# source, daemon, serial, fragment index, fragment count
_CONTROL: Final = Struct("<BHIHH")
CONTROL_OVERHEAD_BYTES: Final = OBJECT_HEAD_BYTES + _CONTROL.size


@final
class Update(Value):
    """A site's promise (ARU_Update): the sequence of its last bundle, the lowest stamp of later ones, its ARU.

    `lts` holds only for daemons that have all bundles of the site up to `seq`. While resilient bundles wait for
    holders, `lines` has the line of each daemon of the site, in the order of its ring: it has everything below.
    """

    def __init__(self, source: SiteId, seq: int, lts: int, aru: int, lines: tuple[int, ...] = ()) -> None:
        self.source: Final = source
        self.seq: Final = seq
        self.lts: Final = lts
        self.aru: Final = aru
        self.lines: Final = lines


@final
class Control(Value):
    """A fragment of a control message; `serial` counts the control messages of its daemon."""

    def __init__(
        self, source: SiteId, daemon: DaemonId, serial: int, index: int, count: int, chunk: bytes
    ) -> None:
        self.source: Final = source
        self.daemon: Final = daemon
        self.serial: Final = serial
        self.index: Final = index
        self.count: Final = count
        self.chunk: Final = chunk


def encode_update(update: Update) -> bytes:
    """The update as an object."""
    body = _UPDATE.pack(update.source, update.seq, update.lts, update.aru)
    if update.lines:
        body = b"".join([body, *[line.to_bytes(_LINE_BYTES, "little") for line in update.lines]])
    return encode_object(ObjectType.UPDATE, body)


def decode_update(body: memoryview) -> Update:
    """Decodes the body of an UPDATE object."""
    lines, rest_bytes = divmod(len(body) - _UPDATE.size, _LINE_BYTES)
    if rest_bytes or lines < 0:
        raise PeerError(Drop.LENGTH, f"UPDATE of {len(body)} bytes")
    source, seq, lts, aru = _UPDATE.unpack_from(body)
    if lines:
        return Update(_site(source), seq, lts, aru, unpack(f"<{lines}Q", body[_UPDATE.size :]))
    return Update(_site(source), seq, lts, aru)


def encode_control_object(control: Control) -> bytes:
    """The fragment as an object."""
    head = _CONTROL.pack(control.source, control.daemon, control.serial, control.index, control.count)
    return encode_object(ObjectType.CONTROL, head + control.chunk)


def decode_control_object(body: memoryview) -> Control:
    """Decodes the body of a CONTROL object."""
    if len(body) < _CONTROL.size:
        raise PeerError(Drop.TRUNCATED, f"CONTROL of {len(body)} bytes")
    source, daemon, serial, index, count = _CONTROL.unpack_from(body)
    if index >= count:
        raise PeerError(Drop.INCONSISTENT, f"fragment {index} of {count}")
    return Control(_site(source), DaemonId(daemon), serial, index, count, bytes(body[_CONTROL.size :]))


def cut_control(
    source: SiteId, daemon: DaemonId, serial: int, message: bytes, object_bytes_max: int
) -> list[Control]:
    """A control message in fragments; encoded, each is an object of at most this size."""
    size = object_bytes_max - CONTROL_OVERHEAD_BYTES
    count = max(1, -(-len(message) // size))
    return [
        Control(source, daemon, serial, index, count, message[index * size : (index + 1) * size])
        for index in range(count)
    ]


def _site(source: int) -> SiteId:
    if source >= SITES_MAX:
        raise PeerError(Drop.LIMIT, f"site {source}, the limit is {SITES_MAX}")
    return SiteId(source)


# stamp, echo, echo delay
_PING: Final = Struct("<III")


@final
class Ping(Value):
    """Stamps like those of an ACK: the low 32 bits of a microsecond clock; an echo of 0 means none yet."""

    def __init__(self, stamp_us: int, echo_us: int, echo_delay_us: int) -> None:
        self.stamp_us: Final = stamp_us
        self.echo_us: Final = echo_us
        self.echo_delay_us: Final = echo_delay_us


def encode_ping(ping: Ping) -> bytes:
    """The ping as an object."""
    return encode_object(ObjectType.PING, _PING.pack(ping.stamp_us, ping.echo_us, ping.echo_delay_us))


def decode_ping(body: memoryview) -> Ping:
    """Decodes the body of a PING object."""
    if len(body) != _PING.size:
        raise PeerError(Drop.LENGTH, f"PING of {len(body)} bytes, not {_PING.size}")
    return Ping(*_PING.unpack(body))
