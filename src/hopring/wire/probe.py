"""PROBE: an object that measures the link it travels on, and is never forwarded.

Both ends send one in turn; each carries its sender's clock, and the last clock that came from the other end
with the time since. So either end knows a round trip, whatever protocol the link has.
"""

from struct import Struct
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.value import Value
from hopring.wire.objects import ObjectType, encode_object

# stamp, echo, echo delay
_PROBE: Final = Struct("<III")


class Probe(Value, frozen=True):
    """Stamps as those of an ACK: the low 32 bits of a microsecond clock, and a zero echo means none yet."""

    stamp_us: int
    echo_us: int
    echo_delay_us: int


def encode_probe(probe: Probe) -> bytes:
    """The probe as an object."""
    return encode_object(ObjectType.PROBE, _PROBE.pack(probe.stamp_us, probe.echo_us, probe.echo_delay_us))


def decode_probe(body: memoryview) -> Probe:
    """A PROBE object's body."""
    if len(body) != _PROBE.size:
        raise PeerError(Drop.LENGTH, f"PROBE of {len(body)} bytes, not {_PROBE.size}")
    return Probe(*_PROBE.unpack(body))
