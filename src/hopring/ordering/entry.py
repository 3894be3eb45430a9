"""Entries of the order: bundles of one view, with their body or with their meta-data only."""

from struct import Struct
from typing import Any, Final, NamedTuple, cast, final

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, SiteId, SiteMask
from hopring.services import SERVICES, Service
from hopring.value import Mutable, Value
from hopring.wire.objects import VIEW_BYTES_MIN

# service, sending daemon, session
_HEAD: Final = Struct("<BHI")
MESSAGE_HEAD_BYTES: Final = _HEAD.size
MESSAGE_HEAD_BYTES_MAX: Final = MESSAGE_HEAD_BYTES + 1
"""With the resilience, which is behind the head of a resilient message."""

_RESILIENT: Final = 0x80  # Added to the service of a resilient message.

DAEMON_SESSION: Final = 0xFFFF_FFFF
"""The session number of messages of daemons themselves, such as GROUPS and INTEREST.

They are ordered like those of clients, unlike CONTROL objects (wire/control.py), which have no stamp."""


class Position(NamedTuple):
    """A position in the order of all bundles: Lamport stamp, then site."""

    lts: int
    site: int


# A call of the class would run a Python function for each bundle.
_new_tuple: Final = cast("Any", tuple.__new__)


def position_at(lts: int, site: int) -> Position:
    """Makes a `Position` without a Python-level call."""
    position: Position = _new_tuple(Position, (lts, site))
    return position


@final
class OrderedMessage(Value):
    """The content of a bundle for its receivers: service, sender and payload."""

    def __init__(
        self,
        service: Service,
        daemon: DaemonId,
        session: int,
        payload: bytes | memoryview,
        resilience: int = 0,
    ) -> None:
        self.service: Final = service
        self.daemon: Final = daemon
        self.session: Final = session
        self.payload: Final = payload
        self.resilience: Final = resilience  # How many lost daemons it survives, or MAJORITY (holders.py).

    @property
    def waits_for_holders(self) -> bool:
        """Whether its turn in the order is not enough: other daemons have to hold it before it is delivered."""
        return self.service.stable or self.resilience != 0


@final
class Entry(Mutable):
    """One bundle of the view; without a message, only its meta-data has arrived."""

    def __init__(
        self,
        source: SiteId,
        seq: int,
        lts: int,
        mask: SiteMask,
        prev: int,
        message: OrderedMessage | None,
        delivered: bool = False,
        passed: bool = False,
    ) -> None:
        self.source = source
        self.seq = seq
        self.lts = lts
        self.mask = mask
        self.prev = prev
        self.message = message
        self.delivered = delivered
        # For FIFO: it is delivered or pruned, and so are all earlier bundles of its session.
        self.passed = passed
        self.holders = 0  # Daemons that were known to have it when it was delivered, if it waited for them.
        self.position: Position
        self.__post_init__()

    def __post_init__(self) -> None:
        self.position = position_at(self.lts, self.source)

    def before(self, lts: int, site: int) -> bool:
        """Whether its position is before this one."""
        return self.lts < lts or (self.lts == lts and self.source < site)


def encode_message(message: OrderedMessage) -> bytes:
    """The body of a bundle as it travels."""
    if message.resilience:
        head = _HEAD.pack(message.service | _RESILIENT, message.daemon, message.session)
        return head + bytes([message.resilience]) + message.payload
    return _HEAD.pack(message.service, message.daemon, message.session) + message.payload


def decode_message(body: bytes | memoryview) -> OrderedMessage:
    """Decodes the body of a bundle into a message of the order."""
    if len(body) < MESSAGE_HEAD_BYTES:
        raise PeerError(Drop.TRUNCATED, f"bundle of {len(body)} bytes")
    head: tuple[int, int, int] = _HEAD.unpack_from(body)
    number, daemon, session = head
    payload_at, resilience = MESSAGE_HEAD_BYTES, 0
    if number & _RESILIENT:
        number, payload_at, resilience = number & ~_RESILIENT, MESSAGE_HEAD_BYTES_MAX, resilience_of(body)
    service = SERVICES.get(number)
    if service is None:
        raise PeerError(Drop.UNKNOWN_TYPE, f"service {number}")
    if resilience and not service.may_be_resilient:
        raise PeerError(Drop.INCONSISTENT, f"{service.name} with resilience {resilience}")
    kept: bytes | memoryview
    if len(body) >= payload_at + VIEW_BYTES_MIN:
        kept = memoryview(body)[payload_at:]
    else:
        kept = bytes(body[payload_at:])
    return OrderedMessage(service, DaemonId(daemon), session, kept, resilience)


def resilience_of(body: bytes | memoryview) -> int:
    """The resilience in the body of a bundle, which is not decoded; 0 if it has none."""
    if not body[0] & _RESILIENT:
        return 0
    if len(body) < MESSAGE_HEAD_BYTES_MAX or not body[MESSAGE_HEAD_BYTES]:
        raise PeerError(Drop.TRUNCATED, "a resilient bundle without its resilience")
    return body[MESSAGE_HEAD_BYTES]


def payload_of(body: bytes) -> memoryview:
    """The payload in the body of a bundle, which is not decoded."""
    return memoryview(body)[MESSAGE_HEAD_BYTES_MAX if body[0] & _RESILIENT else MESSAGE_HEAD_BYTES :]
