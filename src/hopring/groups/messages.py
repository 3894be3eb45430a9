"""The words of groups as payloads of daemons' messages: JOIN, LEAVE, KILL, GROUPS, INTEREST, HOLD, PRESENT;
and bundles.

The first byte tells them apart: a bundle begins with its service, 1 to 6, a word with the head of a msgpack
array. Behind a bundle stands the name of the session that sent it, put there by its daemon. Whose word it is,
is said by the message around it: the daemon, and for JOIN, LEAVE and KILL the session.
"""

from typing import Annotated, Final

import msgspec

from hopring.errors import Drop, PeerError
from hopring.groups.names import SESSION_NAME_BYTES_MAX, GroupViewId
from hopring.ids import ViewId
from hopring.services import Service
from hopring.wire.bundle import GROUP_NAME_BYTES_MAX

Count = Annotated[int, msgspec.Meta(ge=0)]
Group = Annotated[str, msgspec.Meta(min_length=1, max_length=GROUP_NAME_BYTES_MAX)]
SessionName = Annotated[str, msgspec.Meta(min_length=1, max_length=SESSION_NAME_BYTES_MAX)]


class GroupJoin(msgspec.Struct, frozen=True, array_like=True, tag="J"):
    """The session is a member from here on. Agreed."""

    name: SessionName
    group: Group


class GroupLeave(msgspec.Struct, frozen=True, array_like=True, tag="L"):
    """The session is no member from here on. Agreed."""

    group: Group


class GroupKill(msgspec.Struct, frozen=True, array_like=True, tag="K"):
    """The session is nowhere a member from here on, and its name is free. Agreed."""


class GroupInterest(msgspec.Struct, frozen=True, array_like=True, tag="I"):
    """The daemon wants the bodies of these groups' messages, and no longer of those. Safe."""

    version: Count  # Rises with each word of this daemon; links may change their order.
    on: tuple[Group, ...] = ()
    off: tuple[Group, ...] = ()


class GroupHold(msgspec.Struct, frozen=True, array_like=True, tag="H"):
    """Receivers at this daemon are behind in these groups, and in those no longer: senders wait. FIFO."""

    on: tuple[Group, ...] = ()
    off: tuple[Group, ...] = ()


class BundlePresence(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Which of a bundle's private groups were of live sessions of this daemon, at its place in the order."""

    daemon: Count  # The one that the bundle came from.
    session: Count  # Of the bundle.
    lts: Count
    site: Count
    present: tuple[tuple[Count, Count], ...]  # The group's place in the bundle's list, and the session.


class GroupPresence(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="P"):
    """What daemons want to know for receipts of messages to private groups here. Agreed."""

    view: ViewId  # In which the bundles were delivered.
    answers: tuple[BundlePresence, ...]


class LocalGroup(msgspec.Struct, frozen=True, array_like=True):
    """A group with members at the sender of GROUPS."""

    group: Group
    id: GroupViewId  # Of the last view that these members were shown.
    closing_path: tuple[ViewId, ...]  # The daemons' views left since a signal in that view, if there was one.
    members: tuple[tuple[Count, SessionName], ...]  # Session and name.


class GroupsPart(msgspec.Struct, frozen=True, array_like=True, tag="G"):
    """GROUPS, or a part of it: all that is known of the sender's sessions. Safe."""

    view: ViewId
    part: Count
    parts: Annotated[int, msgspec.Meta(ge=1)]
    version: Count  # Of the sender's interest.
    groups: tuple[LocalGroup, ...] = ()
    interested: tuple[Group, ...] = ()  # Further groups whose messages the sender wants.


GroupMessage = GroupJoin | GroupLeave | GroupKill | GroupInterest | GroupHold | GroupPresence | GroupsPart

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[GroupMessage] = msgspec.msgpack.Decoder(GroupMessage)


def encode_group_message(word: GroupMessage) -> bytes:
    """A word as the payload of a message."""
    return _encoder.encode(word)


CHANGES_BY: Final = Service.AGREED
"""Joins, leaves and kills need a place in the order."""


def service_of(word: GroupMessage) -> Service:
    """The service that a word travels with: states and interests must be everywhere."""
    if isinstance(word, GroupHold):
        return Service.FIFO
    return Service.SAFE if isinstance(word, GroupInterest | GroupsPart) else CHANGES_BY


def decode_group_message(payload: bytes | memoryview, service: Service) -> GroupMessage:
    """The word in a message of this service."""
    try:
        word = _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PeerError(Drop.INCONSISTENT, f"word of groups: {error}") from None
    if service is not service_of(word):
        raise PeerError(Drop.INCONSISTENT, f"{type(word).__name__} as {service.name}")
    return word
