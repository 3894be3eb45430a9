"""MESSAGES: a delivered bundle with its place in the order and its sender, as one frame."""

from struct import Struct
from typing import Final, NamedTuple

from hopring.errors import Drop, PeerError
from hopring.groups.names import SESSION_NAME_BYTES_MAX
from hopring.ids import DaemonId, Incarnation, ViewId
from hopring.session.frames import Kind, encode_frame, join_frame
from hopring.session.place import Place
from hopring.wire.bundle import GROUP_NAME_BYTES_MAX, Bundle, decode_bundle

# counter and nonce of the daemons' view, lts, representative, site, bytes of the sender's name, zero
_HEAD: Final = Struct("<QQQHHHH")
MESSAGES_HEAD_BYTES: Final = _HEAD.size
SENDER_BYTES_MAX: Final = GROUP_NAME_BYTES_MAX
PIECE_BYTES_MIN: Final = 8 * 1024
"""From here on it costs less to give the kernel several pieces than to copy them together."""
assert SESSION_NAME_BYTES_MAX < SENDER_BYTES_MAX, "a private group holds the name"


class Messages(NamedTuple):
    """A bundle as a client gets it."""

    sender: str  # Its private group.
    place: Place
    bundle: Bundle


def encode_messages(sender: str, place: Place, bundle: Bundle) -> bytes:
    """The frame."""
    return b"".join(messages_parts(sender, place, bundle))


def messages_parts(sender: str, place: Place, bundle: Bundle) -> tuple[bytes | memoryview, ...]:
    """The same in pieces, of which a long bundle is one as it lies; a short one is cheaper copied."""
    name = sender.encode()
    view = place.view
    head = _HEAD.pack(view.counter, view.nonce, place.lts, view.representative, place.site, len(name), 0)
    if len(bundle.whole) < PIECE_BYTES_MIN:
        return (encode_frame(Kind.MESSAGES, head, bundle.whole, name),)
    size_bytes = len(head) + len(bundle.whole) + len(name)
    return join_frame(Kind.MESSAGES, size_bytes, (head,)), bundle.whole, name


def decode_messages(body: bytes | memoryview) -> Messages:
    """The body of the frame."""
    if len(body) < MESSAGES_HEAD_BYTES:
        raise PeerError(Drop.TRUNCATED, f"MESSAGES of {len(body)} bytes")
    counter, nonce, lts, representative, site, name_bytes, zero = _HEAD.unpack_from(body)
    name_at = len(body) - name_bytes
    if not 0 < name_bytes <= SENDER_BYTES_MAX or name_at < MESSAGES_HEAD_BYTES or zero:
        raise PeerError(Drop.LENGTH, f"MESSAGES of {len(body)} bytes with a name of {name_bytes}")
    try:
        sender = str(body[name_at:], "utf-8")
    except UnicodeDecodeError as error:
        raise PeerError(Drop.INCONSISTENT, "a sender's name is not UTF-8") from error
    view = ViewId(counter, DaemonId(representative), Incarnation(nonce))
    return Messages(
        sender, Place(view, lts, site), decode_bundle(memoryview(body)[MESSAGES_HEAD_BYTES:name_at])
    )
