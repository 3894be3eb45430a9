"""Messages of the groups protocol: of sessions (JOIN, LEAVE, KILL, LOCK, UNLOCK), and of daemons.

Those of daemons are GROUPS, INTEREST, HOLD, PRESENT, RENEW and LAPSED.

Encoding    msgpack arrays with a tag. The first byte tells a group message from a client's bundle: a bundle
            begins with its service, 1 to 6, a group message with the head of a msgpack array. Behind a bundle
            its daemon puts the name of the sending session (`payloads`).
Sender      the surrounding message names the daemon and, for JOIN, LEAVE, KILL, LOCK and UNLOCK, the session.
"""

from typing import Annotated, Final

import msgspec

from hopring.errors import Drop, PeerError
from hopring.groups.names import (
    LOCK_NAME_BYTES_MAX,
    SESSION_NAME_BYTES_MAX,
    Fence,
    GroupViewId,
    is_legal_group,
    is_legal_lock,
    is_legal_name,
)
from hopring.ids import GroupName, Place, ViewId
from hopring.ordering.entry import DAEMON_SESSION
from hopring.services import Service
from hopring.wire.bundle import GROUP_NAME_BYTES_MAX, GROUPS_MAX
from hopring.wire.rmp.lists import MINIMUM_ALL

VERSION_MAX: Final = 2**48
"""The highest version of an interest: one for each change, so no daemon gets near it."""

ANNOUNCED_MAX: Final = 256
"""Limit of the groups in one INTEREST, in each direction."""

HELD_MAX: Final = 256
"""Limit of the groups in one HOLD."""

PRESENCES_MAX: Final = 256
"""Limit of the bundles in one PRESENT."""

PARTS_MAX: Final = 1 << 16
"""Limit of the parts of one daemon's GROUPS."""

SERIAL_MAX: Final = 2**62
"""The highest number of a claim of a lock."""

Count = Annotated[int, msgspec.Meta(ge=0)]
Version = Annotated[int, msgspec.Meta(ge=0, le=VERSION_MAX)]
Session = Annotated[int, msgspec.Meta(ge=0, lt=DAEMON_SESSION)]
Group = Annotated[str, msgspec.Meta(min_length=1, max_length=GROUP_NAME_BYTES_MAX)]
Minimum = Annotated[int, msgspec.Meta(ge=0, le=MINIMUM_ALL)]
LockName = Annotated[str, msgspec.Meta(min_length=1, max_length=LOCK_NAME_BYTES_MAX)]
Serial = Annotated[int, msgspec.Meta(ge=0, le=SERIAL_MAX)]
SessionName = Annotated[str, msgspec.Meta(min_length=1, max_length=SESSION_NAME_BYTES_MAX)]


class GroupJoin(msgspec.Struct, frozen=True, array_like=True, tag="J"):
    """JOIN, Agreed: the session is a member from here on."""

    name: SessionName
    group: Group
    minimum: Minimum = 0  # The fewest members that may go on (groups/minimum.py).


class GroupLeave(msgspec.Struct, frozen=True, array_like=True, tag="L"):
    """LEAVE, Agreed: the session is not a member from here on."""

    group: Group


class GroupKill(msgspec.Struct, frozen=True, array_like=True, tag="K"):
    """KILL, Agreed: the session ends; it leaves all groups, and its name is free."""


class GroupLock(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="C"):
    """LOCK, Agreed: the session, which is a member, claims a lock of the group."""

    group: Group
    lock: LockName
    serial: Serial  # Of the claim, chosen by the session.
    partial: bool = False  # Also in a view that is not primary.


class GroupUnlock(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="U"):
    """UNLOCK, Agreed: the session gives up a claim, whether it holds the lock or waits."""

    serial: Serial


class LeaseRenew(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="R"):
    """RENEW, Safe: delivered in its view, it proves to its sender that all daemons were in it afterwards."""

    view: ViewId
    number: Count


class LeasesLapsed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="X"):
    """LAPSED, Agreed: the leases of daemons that were parted from this view have run out."""

    view: ViewId


class GroupInterest(msgspec.Struct, frozen=True, array_like=True, tag="I"):
    """INTEREST, Safe: the daemon wants the bodies of the messages to `on`, and no longer those to `off`."""

    version: Version  # Rises with each INTEREST of this daemon, since links may reorder them.
    on: Annotated[tuple[Group, ...], msgspec.Meta(max_length=ANNOUNCED_MAX)] = ()
    off: Annotated[tuple[Group, ...], msgspec.Meta(max_length=ANNOUNCED_MAX)] = ()


class GroupHold(msgspec.Struct, frozen=True, array_like=True, tag="H"):
    """HOLD, FIFO: senders to `on` wait for receivers at this daemon, and no longer senders to `off`."""

    on: Annotated[tuple[Group, ...], msgspec.Meta(max_length=HELD_MAX)] = ()
    off: Annotated[tuple[Group, ...], msgspec.Meta(max_length=HELD_MAX)] = ()


class BundlePresence(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The private groups of a bundle whose sessions were connected here at its place in the order."""

    daemon: Count  # The sender's daemon.
    session: Session  # The sender.
    lts: Count
    site: Count
    # Index of the group in the bundle's list, and the session.
    present: Annotated[tuple[tuple[Count, Session], ...], msgspec.Meta(max_length=GROUPS_MAX)]


class GroupPresence(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="P"):
    """PRESENT, Agreed: answers for the receipts of bundles to private groups of this daemon."""

    view: ViewId  # In which the bundles were delivered.
    answers: Annotated[tuple[BundlePresence, ...], msgspec.Meta(max_length=PRESENCES_MAX)]


class LocalGroup(msgspec.Struct, frozen=True, array_like=True):
    """An entry of GROUPS: a group with members at the sender."""

    group: Group
    id: GroupViewId  # Of the last view that these members were shown.
    closing_path: tuple[ViewId, ...]  # The daemons' views left since a signal in that view, if there was one.
    # Session and name.
    members: Annotated[tuple[tuple[Session, SessionName], ...], msgspec.Meta(min_length=1)]


class RetainedEntry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The retained value of a group, with its place in the order (groups/retained.py)."""

    group: Group
    view: ViewId
    lts: Count
    site: Count
    sender: Annotated[str, msgspec.Meta(min_length=1, max_length=GROUP_NAME_BYTES_MAX)]
    bundle: bytes


class LocalClaim(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A claim of a session of the sender, with its place in the order."""

    session: Session
    serial: Serial
    partial: bool
    place: Place


class LocalLock(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A lock with claims at the sender, or one that a daemon parted from the sender may hold."""

    group: Group
    lock: LockName
    claims: tuple[LocalClaim, ...]
    held: Fence | None  # The first of these claims holds it.
    lapsing: bool
    free: bool  # As far as the sender knows, nobody holds it.


class LostMember(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A member that a change of network has taken from a group that has not gone on since."""

    daemon: Count
    name: SessionName
    incarnation: Count
    session: Session
    minimum: Minimum  # That it had stated.


class LocalMinimum(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What is known of the minimum of a group with members at the sender; a long one has several entries."""

    group: Group
    suspended: bool  # As these members were last shown.
    stated: tuple[tuple[Session, Minimum], ...]  # By sessions of the sender.
    lost: tuple[LostMember, ...]


class GroupsPart(msgspec.Struct, frozen=True, array_like=True, tag="G"):
    """GROUPS, Safe, or a part of it: the groups of the sender's sessions."""

    view: ViewId
    part: Count
    parts: Annotated[int, msgspec.Meta(ge=1, le=PARTS_MAX)]
    version: Version  # The version of the sender's interest.
    groups: tuple[LocalGroup, ...] = ()
    interested: tuple[Group, ...] = ()  # Further groups whose messages the sender wants.
    primary: bool = False  # What its sessions were last shown of the daemons' view.
    retained: tuple[RetainedEntry, ...] = ()  # Of those who come from the sender's view, if it speaks for them.
    epoch: Version = 0  # Of the latest primary view that the sender has been in.
    locks: tuple[LocalLock, ...] = ()
    minimums: tuple[LocalMinimum, ...] = ()


GroupMessage = (
    GroupJoin
    | GroupLeave
    | GroupKill
    | GroupLock
    | GroupUnlock
    | GroupInterest
    | GroupHold
    | GroupPresence
    | LeaseRenew
    | LeasesLapsed
    | GroupsPart
)

OfDaemon = GroupInterest | GroupHold | GroupPresence | LeaseRenew | LeasesLapsed | GroupsPart
"""Messages of daemons; the others are of sessions."""

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
    return Service.SAFE if isinstance(message, GroupInterest | GroupsPart | LeaseRenew) else CHANGES_BY


def decode_group_message(payload: bytes | memoryview, service: Service) -> GroupMessage:
    """Decodes a group message and checks the service that carried it."""
    try:
        message = _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PeerError(Drop.INCONSISTENT, f"group message: {error}") from None
    if service is not service_of(message):
        raise PeerError(Drop.INCONSISTENT, f"{type(message).__name__} as {service.name}")
    _check_names(message)
    return message


def _check_names(message: GroupMessage) -> None:
    """Checks names of groups; the decoder has checked the number of characters, not of bytes."""
    legal = True
    if isinstance(message, GroupInterest):
        legal = all(is_legal_group(GroupName(name)) for name in (*message.on, *message.off))
    elif isinstance(message, GroupHold):
        # Receivers fall behind in private groups too.
        legal = all(is_legal_name(GroupName(name)) for name in (*message.on, *message.off))
    elif isinstance(message, GroupsPart):
        names = [*[entry.group for entry in message.groups], *message.interested]
        names += [value.group for value in message.retained]
        names += [entry.group for entry in message.locks]
        names += [entry.group for entry in message.minimums]
        legal = all(is_legal_group(GroupName(name)) for name in names)
        legal = legal and all(is_legal_lock(entry.lock) for entry in message.locks)
    elif isinstance(message, GroupLock):
        legal = is_legal_group(GroupName(message.group)) and is_legal_lock(message.lock)
    if not legal:
        raise PeerError(Drop.INCONSISTENT, f"{type(message).__name__} with an illegal name")
