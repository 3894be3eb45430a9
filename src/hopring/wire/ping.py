"""PING: an object that measures the link it travels on, and is never forwarded.

Both ends send one in turn; each carries its sender's clock, and the last clock that came from the other end
with the time since. So either end knows a round trip, whatever protocol the link has.
"""

from struct import Struct
from typing import Final, final

from hopring.errors import Drop, PeerError
from hopring.value import Value
from hopring.wire.objects import ObjectType, encode_object

# stamp, echo, echo delay
_PING: Final = Struct("<III")


@final
class Ping(Value):
    """Stamps as those of an ACK: the low 32 bits of a microsecond clock, and a zero echo means none yet."""

    def __init__(self, stamp_us: int, echo_us: int, echo_delay_us: int) -> None:
        self.stamp_us: Final = stamp_us
        self.echo_us: Final = echo_us
        self.echo_delay_us: Final = echo_delay_us


def encode_ping(ping: Ping) -> bytes:
    """The ping as an object."""
    return encode_object(ObjectType.PING, _PING.pack(ping.stamp_us, ping.echo_us, ping.echo_delay_us))


def decode_ping(body: memoryview) -> Ping:
    """A PING object's body."""
    if len(body) != _PING.size:
        raise PeerError(Drop.LENGTH, f"PING of {len(body)} bytes, not {_PING.size}")
    return Ping(*_PING.unpack(body))
