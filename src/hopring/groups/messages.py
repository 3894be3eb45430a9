"""Messages of the groups protocol: JOIN, LEAVE, KILL, GROUPS, INTEREST, HOLD and PRESENT.

Encoding    msgpack arrays with a tag. The first byte tells a group message from a client's bundle: a bundle
            begins with its service, 1 to 6, a group message with the head of a msgpack array. Behind a bundle
            its daemon puts the name of the sending session (`payloads`).
Sender      the surrounding message names the daemon and, for JOIN, LEAVE and KILL, the session.
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
    """JOIN, Agreed: the session is a member from here on."""

    name: SessionName
    group: Group


class GroupLeave(msgspec.Struct, frozen=True, array_like=True, tag="L"):
    """LEAVE, Agreed: the session is not a member from here on."""

    group: Group


class GroupKill(msgspec.Struct, frozen=True, array_like=True, tag="K"):
    """KILL, Agreed: the session ends; it leaves all groups, and its name is free."""


class GroupInterest(msgspec.Struct, frozen=True, array_like=True, tag="I"):
    """INTEREST, Safe: the daemon wants the bodies of the messages to `on`, and no longer those to `off`."""

    version: Count  # Rises with each INTEREST of this daemon, since links may reorder them.
    on: tuple[Group, ...] = ()
    off: tuple[Group, ...] = ()


class GroupHold(msgspec.Struct, frozen=True, array_like=True, tag="H"):
    """HOLD, FIFO: senders to `on` wait for receivers at this daemon, and no longer senders to `off`."""

    on: tuple[Group, ...] = ()
    off: tuple[Group, ...] = ()


class BundlePresence(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The private groups of a bundle whose sessions were connected here at its place in the order."""

    daemon: Count  # The sender's daemon.
    session: Count  # The sender.
    lts: Count
    site: Count
    present: tuple[tuple[Count, Count], ...]  # Index of the group in the bundle's list, and the session.


class GroupPresence(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="P"):
    """PRESENT, Agreed: answers for the receipts of bundles to private groups of this daemon."""

    view: ViewId  # In which the bundles were delivered.
    answers: tuple[BundlePresence, ...]


class LocalGroup(msgspec.Struct, frozen=True, array_like=True):
    """An entry of GROUPS: a group with members at the sender."""

    group: Group
    id: GroupViewId  # Of the last view that these members were shown.
    closing_path: tuple[ViewId, ...]  # The daemons' views left since a signal in that view, if there was one.
    members: tuple[tuple[Count, SessionName], ...]  # Session and name.


class GroupsPart(msgspec.Struct, frozen=True, array_like=True, tag="G"):
    """GROUPS, Safe, or a part of it: the groups of the sender's sessions."""

    view: ViewId
    part: Count
    parts: Annotated[int, msgspec.Meta(ge=1)]
    version: Count  # The version of the sender's interest.
    groups: tuple[LocalGroup, ...] = ()
    interested: tuple[Group, ...] = ()  # Further groups whose messages the sender wants.


GroupMessage = GroupJoin | GroupLeave | GroupKill | GroupInterest | GroupHold | GroupPresence | GroupsPart

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[GroupMessage] = msgspec.msgpack.Decoder(GroupMessage)


def encode_group_message(message: GroupMessage) -> bytes:
    """Encodes a group message as a payload."""
    return _encoder.encode(message)


CHANGES_BY: Final = Service.AGREED
"""Joins, leaves and kills need a place in the order."""


def service_of(message: GroupMessage) -> Service:
    """The service that carries a group message: GROUPS and INTEREST must reach all daemons."""
    if isinstance(message, GroupHold):
        return Service.FIFO
    return Service.SAFE if isinstance(message, GroupInterest | GroupsPart) else CHANGES_BY


def decode_group_message(payload: bytes | memoryview, service: Service) -> GroupMessage:
    """Decodes a group message and checks the service that carried it."""
    try:
        message = _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PeerError(Drop.INCONSISTENT, f"group message: {error}") from None
    if service is not service_of(message):
        raise PeerError(Drop.INCONSISTENT, f"{type(message).__name__} as {service.name}")
    return message
