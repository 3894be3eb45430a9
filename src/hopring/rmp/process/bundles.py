"""Bundles between the session of a process and the Data packets of a ring.

Below       Data packets, each with one bundle that goes to one group, and with its sender's name behind it.
Above       the session server, which makes bundles of a client's requests, and shows delivered ones.
Invariants  a Data packet holds at most BODY_BYTES_MAX; what a ring cannot offer is refused, and never weakened.
"""

from typing import Final

from hopring.errors import Drop, PeerError
from hopring.groups.events import Send
from hopring.groups.names import SESSION_NAME_BYTES_MAX, is_legal_session
from hopring.groups.payloads import split_sender
from hopring.groups.private_groups import is_private
from hopring.ids import GroupName
from hopring.rmp.events import DataDelivered
from hopring.rmp.process.numbers import SESSION
from hopring.wire.bundle import Bundle, decode_bundle, encode_bundle, pick
from hopring.wire.rmp.packets import BODY_BYTES_MAX

MESSAGE_BYTES_MAX: Final = 58 * 1024
"""The longest message: with its bundle's head, names and columns it fits a Data packet."""

BUNDLE_BYTES_MAX: Final = BODY_BYTES_MAX - 1 - SESSION_NAME_BYTES_MAX
"""The longest bundle: its sender's name is behind it."""


def refusal_of(send: Send) -> tuple[str, str] | None:
    """Why a ring cannot take this bundle, with the remedy; None if it can."""
    key = send.key
    if len(key.groups) > 1 and not key.mixed:
        groups = " ".join(key.groups)
        return f"one message to several groups ({groups})", "send it to each group, or use daemons (hop://)"
    if key.retained:
        return "retained values", "send it again when somebody joins, or use daemons (hop://)"
    return None


def tickets_of(bundle: Bundle) -> tuple[int, ...]:
    """The tickets of the messages that wait for receipts."""
    return tuple([hint for hint in bundle.hints.tolist() if hint])


def by_group(send: Send) -> list[Send]:
    """The same messages in bundles for one group each, none of them too long."""
    if not send.key.mixed and len(send.bundle) <= BUNDLE_BYTES_MAX:
        return [send]
    bundle = decode_bundle(send.bundle)
    if not send.key.mixed:
        return _halves(send, bundle)
    indexes: dict[int, list[int]] = {}
    for index, group_index in enumerate(bundle.group_indexes.tolist()):
        indexes.setdefault(group_index, []).append(index)
    out: list[Send] = []
    for _, some in sorted(indexes.items()):
        part = pick(bundle, some)
        out += by_group(Send(send.session, decode_bundle(part).key, part, send.deadline_us))
    return out


def _halves(send: Send, bundle: Bundle) -> list[Send]:
    """Cuts a bundle in two; one message alone is never too long."""
    assert len(bundle) > 1, "the session server limits messages"
    bodies, types, hints = bundle.messages(), bundle.types.tolist(), bundle.hints.tolist()
    middle = len(bundle) // 2
    out: list[Send] = []
    for part in (slice(0, middle), slice(middle, len(bundle))):
        mark = send.key.mark
        moved = None if mark is None else mark._replace(first=mark.first + part.start)
        key = send.key.replace(mark=moved)
        encoded = encode_bundle(key, bodies[part], types[part], hints[part])
        out += by_group(Send(send.session, key, encoded, send.deadline_us))
    return out


def decode_body(event: DataDelivered, group: GroupName, known: str) -> tuple[str, Bundle]:
    """The sender's name and the bundle of a Data packet, checked against its packet and the sender's entry.

    `known` is the name in the list, empty for a process that only sends.
    """
    name, payload = split_sender(event.body)
    if (known or name) != name or not is_legal_session(name, str(event.id.source)):
        raise PeerError(Drop.FOREIGN_SENDER, f"a bundle of {name!r}, which is {known!r}")
    bundle = decode_bundle(payload)
    key = bundle.key
    if (key.daemon, key.session, key.service, key.resilience) != (0, SESSION, event.service, event.resilience):
        raise PeerError(Drop.FOREIGN_SENDER, f"a bundle of session {key.session} with {key.service.name}")
    if len(key.groups) != 1 or key.mixed or key.retained:
        raise PeerError(Drop.INCONSISTENT, "a bundle to several groups, or a retained one")
    if key.groups[0] != group and not is_private(key.groups[0]):
        raise PeerError(Drop.INCONSISTENT, f"a bundle to {key.groups[0]!r} in the ring of {group!r}")
    return name, bundle
