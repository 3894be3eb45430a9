"""Bundles: consecutive messages of one session, in columns; the unit that is stamped and ordered.

A bundle is a head, the columns of its messages (offsets, types, hints, and group indexes if it is mixed), the
names of its groups, the fields that only Spread clients use, a mark if it is of a batch (wire/batch_mark.py),
its resilience if it has one, and then all bodies. Each message of a mixed bundle goes to one of the groups, by
its group index; otherwise every message goes to all groups. Offsets and bodies are Arrow's binary layout, and
the offsets start at a multiple of 8, so that both can be mapped without a copy. Daemons read the head; they
never parse a body. Sequence and stamp are not part of the bundle: they come with the fragments (wire.routed).

Invariant   offsets rise from 0 to the bytes of all bodies, so a decoded `Bundle` may be sliced by them.
Limit       columns are mapped in place, so the machine has to be little-endian.
"""

import sys
from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from struct import Struct
from typing import Final, NamedTuple, final

from hopring.errors import Drop, PeerError
from hopring.ids import DAEMONS_MAX, DaemonId, GroupName
from hopring.services import SERVICES, Service
from hopring.value import Value
from hopring.wire.batch_mark import MARK_BYTES_MAX, BatchMark, decode_mark, encode_mark

assert sys.byteorder == "little", "columns are mapped in place"

# service, flags, channel, mark bytes, daemon, groups, session, messages, names bytes, bodies bytes
BUNDLE_HEAD_FORMAT: Final = "BBBBHHIIII"
_HEAD: Final = Struct("<" + BUNDLE_HEAD_FORMAT)
BUNDLE_HEAD_BYTES: Final = _HEAD.size
_DAEMON_AT: Final = 4
_OFFSET_BYTES: Final = 4
COLUMNS_BYTES: Final = _OFFSET_BYTES + 2 + 1 + 1
"""The bytes of a message in the columns: offset, type, hints and group index."""
SELF_DISCARD_FLAG: Final = 0x01
_BIG_ENDIAN: Final = 0x02
_MIXED: Final = 0x04
_SPREAD: Final = 0x08
_ENVELOPED: Final = 0x10
_LISTED: Final = 0x20
_RESILIENT: Final = 0x40
RETAINED_FLAG: Final = 0x80
_FLAGS_AT: Final = 1
RETAINED_BYTES_MAX: Final = 16 * 1024
"""The largest body that is retained, its envelope included."""
_RESILIENCE_BYTES: Final = 1

MESSAGES_MAX: Final = 4096
GROUPS_MAX: Final = 128
GROUP_NAME_BYTES_MAX: Final = 128
_GROUP_INDEXES: Final = bytes(range(GROUPS_MAX))
CHANNELS_MAX: Final = 8
SPREAD_NAME_BYTES: Final = 32
"""One name in the list of groups of a Spread client, padded."""
SPREAD_GROUPS_MAX: Final = 100
_SPREAD_HEAD_BYTES: Final = 2
MESSAGE_BYTES_DEFAULT: Final = 144 * 1024
MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024 - 64 * 1024
"""The hard limit for a message, and for all bodies of a bundle together; so no bundle exceeds 16 MiB."""

_GROUP_LISTS_KEPT_MAX: Final = 256
_EVEN_OFFSETS_KEPT_MAX: Final = 64

_Numbers = tuple[int, int, int, int, int, int, int, int, int, int]
"""The type of an unpacked head; with it, compiled code computes faster."""

Column = memoryview
"""A part of a bundle, mapped with the type of its items; mypyc needs an alias for it."""


def bundle_bytes_of(message_bytes_max: int) -> int:
    """The largest bundle whose bodies together have this many bytes."""
    columns_bytes = _OFFSET_BYTES + MESSAGES_MAX * COLUMNS_BYTES
    # A bundle with a mark goes to one group; the mark is shorter than the names of other groups could be.
    names_bytes = GROUPS_MAX * (1 + GROUP_NAME_BYTES_MAX)
    return BUNDLE_HEAD_BYTES + columns_bytes + names_bytes + _RESILIENCE_BYTES + message_bytes_max


assert MARK_BYTES_MAX <= (GROUPS_MAX - 1) * (1 + GROUP_NAME_BYTES_MAX), "names of others are longer than a mark"
assert _SPREAD_HEAD_BYTES + 2 * SPREAD_GROUPS_MAX * SPREAD_NAME_BYTES <= GROUPS_MAX * (
    1 + GROUP_NAME_BYTES_MAX
), "the fields of Spread clients are shorter than the names of all groups"


BUNDLE_BYTES_DEFAULT: Final = bundle_bytes_of(MESSAGE_BYTES_DEFAULT)
BUNDLE_BYTES_MAX: Final = bundle_bytes_of(MESSAGE_BYTES_MAX)


@final
class BundleKey(Value):
    """The properties that all messages of a bundle share; a message with another key starts another bundle."""

    def __init__(
        self,
        daemon: DaemonId,
        session: int,
        service: Service,
        groups: tuple[GroupName, ...],
        self_discard: bool = False,
        channel: int = 0,
        big_endian: bool = False,
        mark: BatchMark | None = None,
        mixed: bool = False,
        spread_bits: int = 0,
        spread_groups: bytes = b"",
        enveloped: bool = False,
        listed: bool = False,
        resilience: int = 0,
        retained: bool = False,
    ) -> None:
        self.daemon: Final = daemon
        self.session: Final = session  # Its number at the daemon.
        self.service: Final = service
        self.groups: Final = groups  # Distinct, in the order in which the sender named them.
        self.self_discard: Final = self_discard
        self.channel: Final = channel
        # Whether the sender's machine is big-endian; passed on to receivers.
        self.big_endian: Final = big_endian
        self.mark: Final = mark  # Of a batch that may be sent again; such a bundle goes to one group.
        # Each message goes to one of the groups, not to all; Causal, Agreed and Safe only.
        self.mixed: Final = mixed
        # Bits 23 to 30 of a Spread client's type field; daemons pass them on.
        self.spread_bits: Final = spread_bits
        # The list of groups as a Spread client wrote it, if it differs from `groups`.
        self.spread_groups: Final = spread_groups
        self.enveloped: Final = enveloped  # Each body begins with an envelope (wire/envelope.py).
        self.listed: Final = listed  # Its receipt lists the members of its group, of which it has one.
        self.resilience: Final = (
            resilience  # How many lost daemons it survives, or MAJORITY (ordering/holders.py).
        )
        self.retained: Final = retained  # Daemons keep it for those who join its group later.


@final
class Bundle(Value):
    """A bundle, mapped and checked; its columns are views of the buffer that it was decoded from."""

    def __init__(
        self,
        key: BundleKey,
        offsets: Column,
        types: Column,
        hints: Column,
        group_indexes: Column,
        bodies: Column,
        whole: Column,
    ) -> None:
        self.key: Final = key
        self.offsets: Final = offsets
        self.types: Final = types
        self.hints: Final = hints
        # Of a mixed bundle: for each message, where its group is in `key.groups`.
        self.group_indexes: Final = group_indexes
        self.bodies: Final = bodies
        self.whole: Final = whole  # The encoded bundle.

    def __len__(self) -> int:
        return len(self.types)

    def message(self, index: int) -> memoryview:
        """The body of one message."""
        assert 0 <= index < len(self.types), "no such message"
        return self.bodies[self.offsets[index] : self.offsets[index + 1]]

    def messages(self) -> list[memoryview]:
        """The bodies of all messages, in order."""
        ends = self.offsets.tolist()
        bodies = self.bodies
        return [bodies[start:end] for start, end in pairwise(ends)]

    def groups_of(self, index: int) -> tuple[GroupName, ...]:
        """The groups to which one message goes."""
        return (self.key.groups[self.group_indexes[index]],) if self.key.mixed else self.key.groups

    def lengths(self) -> list[int]:
        """The bytes of each body."""
        ends = self.offsets.tolist()
        return [end - start for start, end in pairwise(ends)]


class BundleParts(NamedTuple):
    """An encoded bundle, in parts that are not joined yet."""

    parts: list[bytes | memoryview]
    size_bytes: int


def messages_in(bundle: bytes | memoryview) -> int:
    """The number of messages according to the head, which is not checked: for counters only."""
    return int.from_bytes(bundle[12:16], "little")


def with_daemon(bundle: bytes | memoryview, daemon: DaemonId) -> bytes:
    """The same bundle with another number of the sender's daemon."""
    return b"".join([bundle[:_DAEMON_AT], daemon.to_bytes(2, "little"), bundle[_DAEMON_AT + 2 :]])


def encode_bundle(
    key: BundleKey,
    bodies: Sequence[bytes | memoryview],
    types: Sequence[int],
    hints: Sequence[int],
    group_indexes: Sequence[int] = b"",
) -> bytes:
    """Encodes a bundle of these messages."""
    return b"".join(bundle_parts(key, bodies, types, hints, group_indexes).parts)


def bundle_parts(
    key: BundleKey,
    bodies: Sequence[bytes | memoryview],
    types: Sequence[int],
    hints: Sequence[int],
    group_indexes: Sequence[int] = b"",
) -> BundleParts:
    """Encodes a bundle in parts, for a caller that joins them with other bytes, to copy the bodies once."""
    assert 0 < len(bodies) <= MESSAGES_MAX, "a bundle holds 1 to MESSAGES_MAX messages"
    assert len(bodies) == len(types) == len(hints), "one type and one set of hints for each message"
    assert len(group_indexes) == (len(bodies) if key.mixed else 0), (
        "one group index for each message of a mixed bundle"
    )
    assert 0 <= key.channel < CHANNELS_MAX, "no such channel"
    offsets = _offsets_of(list(map(len, bodies)))
    bodies_bytes = int.from_bytes(offsets[-_OFFSET_BYTES:], "little")
    assert bodies_bytes <= MESSAGE_BYTES_MAX, "the bodies are too long for one bundle"
    names = encode_groups(key.groups)
    assert not key.listed or len(key.groups) == 1, "members of one group are listed"
    spread = _spread(key) if _is_spread(key) else b""
    mark = b"" if key.mark is None else _mark(key, len(bodies))
    head = _HEAD.pack(
        key.service,
        flags_of(key),
        key.channel,
        len(mark),
        key.daemon,
        len(key.groups),
        key.session,
        len(bodies),
        len(names),
        bodies_bytes,
    )
    front = [
        head,
        offsets,
        array("H", types).tobytes(),
        bytes(hints),
        bytes(group_indexes),
        names,
        spread,
        mark,
    ]
    if key.resilience:
        assert key.service.may_be_resilient, "check the service first"
        front.append(bytes([key.resilience]))
    return BundleParts([*front, *bodies], sum(map(len, front)) + bodies_bytes)


def _offsets_of(sizes: list[int]) -> bytes:
    """The column of offsets of bodies with these sizes, which often are all equal."""
    if sizes.count(sizes[0]) == len(sizes):
        return _even_offsets(sizes[0], len(sizes))
    return array("i", list(accumulate(sizes, initial=0))).tobytes()


@lru_cache(maxsize=_EVEN_OFFSETS_KEPT_MAX)
def _even_offsets(size_bytes: int, count: int) -> bytes:
    """The column of offsets of bodies of one size; cached, because a sender's messages often have one size."""
    return array("i", [size_bytes * at for at in range(count + 1)]).tobytes()


def _mark(key: BundleKey, messages: int) -> bytes:
    assert key.mark is not None, "check for a mark before"
    assert len(key.groups) == 1, "a bundle with a mark goes to one group"
    return encode_mark(key.mark, messages)


def _is_spread(key: BundleKey) -> bool:
    return key.spread_bits != 0 or len(key.spread_groups) != 0


def _spread(key: BundleKey) -> bytes:
    assert key.mark is None, "bundles of Spread clients have no mark"
    assert not key.mixed, "bundles of Spread clients are not mixed"
    assert not key.enveloped, "messages of Spread clients have no envelopes"
    count, rest_bytes = divmod(len(key.spread_groups), SPREAD_NAME_BYTES)
    assert not rest_bytes, "names have one size"
    assert count <= SPREAD_GROUPS_MAX, "the list is too long"
    assert len(encode_groups(key.groups)) <= SPREAD_GROUPS_MAX * SPREAD_NAME_BYTES, "the list has all groups"
    return bytes([key.spread_bits, count]) + key.spread_groups


def flags_of(key: BundleKey) -> int:
    """The flags of a bundle in its head."""
    content = (_MIXED if key.mixed else 0) | (_SPREAD if _is_spread(key) else 0)
    content |= (_ENVELOPED if key.enveloped else 0) | (_LISTED if key.listed else 0)
    content |= (_RESILIENT if key.resilience else 0) | (RETAINED_FLAG if key.retained else 0)
    return (SELF_DISCARD_FLAG if key.self_discard else 0) | (_BIG_ENDIAN if key.big_endian else 0) | content


def rows_of(bundle: Bundle, start: int, end: int) -> list[tuple[int, int, int]]:
    """Consecutive messages of a mixed bundle to the same group, as (group index, first, one after the last)."""
    group_indexes = bundle.group_indexes.tolist()
    out: list[tuple[int, int, int]] = []
    for at in range(start + 1, end + 1):
        if at == end or group_indexes[at] != group_indexes[start]:
            out.append((group_indexes[start], start, at))
            start = at
    return out


def as_of(bundle: Bundle, group_index: int) -> Bundle:
    """A mixed bundle as if all its messages went to the group with this index.

    It has the same columns: the caller uses only the messages that go to the group.
    """
    key = _keys_by_group(bundle.key)[group_index]
    columns = bundle.offsets, bundle.types, bundle.hints, bundle.group_indexes, bundle.bodies, bundle.whole
    return Bundle(key, *columns)


@lru_cache(maxsize=_GROUP_LISTS_KEPT_MAX)
def _keys_by_group(key: BundleKey) -> tuple[BundleKey, ...]:
    """The keys of the messages to each group of a mixed bundle; cached, like lists of groups."""
    return tuple([key.replace(groups=(group,), mixed=False) for group in key.groups])


def pick(bundle: Bundle, indexes: Sequence[int]) -> bytes:
    """Encodes a bundle of some messages of a mixed one, with the names of their groups only."""
    old = [bundle.group_indexes[index] for index in indexes]
    kept = sorted(set(old))
    groups = tuple([bundle.key.groups[group_index] for group_index in kept])
    key = bundle.key.replace(groups=groups, mixed=len(groups) > 1)
    return encode_bundle(
        key,
        [bundle.message(index) for index in indexes],
        [bundle.types[index] for index in indexes],
        [bundle.hints[index] for index in indexes],
        [kept.index(group_index) for group_index in old] if key.mixed else b"",
    )


def decode_bundle(buffer: bytes | memoryview) -> Bundle:
    """Decodes a bundle in place; it must fill the buffer. Bodies are not read."""
    size = len(buffer)
    if size < BUNDLE_HEAD_BYTES:
        raise PeerError(Drop.TRUNCATED, f"bundle of {size} bytes")
    head: _Numbers = _HEAD.unpack_from(buffer)
    number, flags, channel, mark_bytes, daemon, groups, session, count, names_bytes, bodies_bytes = head
    service = SERVICES.get(number)
    if service is None:
        raise PeerError(Drop.UNKNOWN_TYPE, f"service {number}")
    if channel >= CHANNELS_MAX or daemon >= DAEMONS_MAX:
        raise PeerError(Drop.LIMIT, f"bundle of daemon {daemon} on channel {channel}")
    _check_amounts(groups, names_bytes, count, bodies_bytes)
    types_at = BUNDLE_HEAD_BYTES + _OFFSET_BYTES * (count + 1)
    hints_at = types_at + 2 * count
    group_indexes_at = hints_at + count
    mixed = flags & _MIXED != 0
    names_at = group_indexes_at + (count if mixed else 0)
    spread_at = names_at + names_bytes
    view = memoryview(buffer)
    mark_at = spread_at
    if flags & _SPREAD:
        if mixed or mark_bytes or flags & _ENVELOPED:
            raise PeerError(
                Drop.INCONSISTENT, "bundle of a Spread client that is mixed or has a mark or envelopes"
            )
        mark_at += _spread_bytes(view, spread_at, names_bytes)
    resilience_at = mark_at + mark_bytes
    bodies_at = resilience_at + (_RESILIENCE_BYTES if flags & _RESILIENT else 0)
    if size != bodies_at + bodies_bytes:
        raise PeerError(Drop.LENGTH, f"bundle of {bodies_at + bodies_bytes} bytes in {size}")
    offsets = view[BUNDLE_HEAD_BYTES:types_at].cast("i")
    _check_offsets(offsets, count, bodies_bytes)
    names = decode_groups(bytes(view[names_at:spread_at]), groups)
    if (mark_bytes or flags & _LISTED) and groups != 1:
        raise PeerError(Drop.INCONSISTENT, f"bundle with a mark or a list of members for {groups} groups")
    resilience = view[resilience_at] if flags & _RESILIENT else 0
    if flags & _RESILIENT and (not resilience or not service.may_be_resilient):
        raise PeerError(Drop.INCONSISTENT, f"bundle of service {service} with resilience {resilience}")
    if flags & RETAINED_FLAG:
        _check_retained(service, names, count, bodies_bytes, mark_bytes)
    if mixed:
        _check_group_indexes(bytes(view[group_indexes_at:names_at]), groups, service)
    return Bundle(
        BundleKey(
            DaemonId(daemon),
            session,
            service,
            names,
            flags & SELF_DISCARD_FLAG != 0,
            channel,
            flags & _BIG_ENDIAN != 0,
            decode_mark(bytes(view[mark_at:resilience_at]), count) if mark_bytes else None,
            mixed,
            view[spread_at] if flags & _SPREAD else 0,
            bytes(view[spread_at + _SPREAD_HEAD_BYTES : mark_at]),
            flags & _ENVELOPED != 0,
            flags & _LISTED != 0,
            resilience,
            flags & RETAINED_FLAG != 0,
        ),
        offsets,
        view[types_at:hints_at].cast("H"),
        view[hints_at:group_indexes_at],
        view[group_indexes_at:names_at],
        view[bodies_at:],
        view,
    )


def is_retained(bundle: bytes | memoryview) -> bool:
    """Whether the head says that the message is retained; it is not checked here."""
    return len(bundle) > _FLAGS_AT and bundle[_FLAGS_AT] & RETAINED_FLAG != 0


def _check_retained(
    service: Service, groups: tuple[GroupName, ...], count: int, bodies_bytes: int, mark_bytes: int
) -> None:
    """A value that is retained is one short message with a place in the order, to one group with members."""
    if not service.total or len(groups) != 1 or groups[0].startswith("#") or count != 1 or mark_bytes:
        raise PeerError(Drop.INCONSISTENT, f"a retained bundle of {count} messages to {len(groups)} groups")
    if bodies_bytes > RETAINED_BYTES_MAX:
        raise PeerError(Drop.LIMIT, f"a retained message of {bodies_bytes} bytes")


def peek_groups(buffer: memoryview) -> tuple[GroupName, ...]:
    """Decodes only the names of the groups of a bundle."""
    size = len(buffer)
    if size < BUNDLE_HEAD_BYTES:
        raise PeerError(Drop.TRUNCATED, f"bundle of {size} bytes")
    head: _Numbers = _HEAD.unpack_from(buffer)
    _, flags, _, _, _, groups, _, count, names_bytes, bodies_bytes = head
    _check_amounts(groups, names_bytes, count, bodies_bytes)
    columns_bytes = COLUMNS_BYTES if flags & _MIXED else COLUMNS_BYTES - 1
    names_at = BUNDLE_HEAD_BYTES + _OFFSET_BYTES + columns_bytes * count
    if size < names_at + names_bytes:
        raise PeerError(Drop.LENGTH, f"bundle of {size} bytes, its names end at {names_at + names_bytes}")
    return decode_groups(bytes(buffer[names_at : names_at + names_bytes]), groups)


def _spread_bytes(view: Column, at: int, names_bytes: int) -> int:
    """The size of the fields that only Spread clients use, which begin at this offset."""
    if len(view) < at + _SPREAD_HEAD_BYTES:
        raise PeerError(Drop.LENGTH, f"bundle of {len(view)} bytes, its names end at {at}")
    bits: int = view[at]
    count: int = view[at + 1]
    if not bits and not count:
        raise PeerError(Drop.INCONSISTENT, "bundle of a Spread client that has no fields of its own")
    if count > SPREAD_GROUPS_MAX or names_bytes > SPREAD_GROUPS_MAX * SPREAD_NAME_BYTES:
        raise PeerError(Drop.LIMIT, f"a list of {count} groups beside names of {names_bytes} bytes")
    return _SPREAD_HEAD_BYTES + SPREAD_NAME_BYTES * count


def _check_amounts(groups: int, names_bytes: int, count: int, bodies_bytes: int) -> None:
    if not 0 < groups <= GROUPS_MAX or names_bytes > groups * (1 + GROUP_NAME_BYTES_MAX):
        raise PeerError(Drop.LIMIT, f"bundle for {groups} groups with names of {names_bytes} bytes")
    if not 0 < count <= MESSAGES_MAX or bodies_bytes > MESSAGE_BYTES_MAX:
        raise PeerError(Drop.LIMIT, f"bundle of {count} messages with {bodies_bytes} bytes")


def _check_offsets(offsets: Column, count: int, bodies_bytes: int) -> None:
    first: int = offsets[0]
    end: int = offsets[1]
    if count == 1 and first == 0 and end == bodies_bytes:
        return
    # Often all messages have one size, which is faster to check.
    if end * count == bodies_bytes and offsets.tobytes() == _even_offsets(end, count):
        return
    every = offsets.tolist()
    # Sorting a sorted list is one pass without a Python loop.
    if first != 0 or every[-1] != bodies_bytes or sorted(every) != every:
        raise PeerError(Drop.INCONSISTENT, f"offsets do not rise from 0 to {bodies_bytes}")


def _check_group_indexes(group_indexes: bytes, groups: int, service: Service) -> None:
    if group_indexes.translate(None, _GROUP_INDEXES[:groups]):
        raise PeerError(Drop.INCONSISTENT, f"a message for another than the {groups} groups of its bundle")
    if not service.total:
        # Messages that arrive before an earlier join are stored with one list of groups for the bundle.
        raise PeerError(Drop.INCONSISTENT, f"mixed bundle of service {service}")


@lru_cache(maxsize=_GROUP_LISTS_KEPT_MAX)
def encode_groups(groups: tuple[GroupName, ...]) -> bytes:
    """Encodes names, each after its length; cached, because sessions send to the same groups repeatedly."""
    assert 0 < len(groups) <= GROUPS_MAX, "a bundle goes to 1 to GROUPS_MAX groups"
    assert len(set(groups)) == len(groups), "a bundle goes to each group once"
    names = [name.encode() for name in groups]
    assert all(0 < len(name) <= GROUP_NAME_BYTES_MAX and 0 not in name for name in names), "check names first"
    return b"".join([bytes([len(name)]) + name for name in names])


@lru_cache(maxsize=_GROUP_LISTS_KEPT_MAX)
def decode_groups(names: bytes, count: int) -> tuple[GroupName, ...]:
    """Decodes names, which must fill these bytes exactly; cached like `encode_groups`."""
    groups: list[GroupName] = []
    at = 0
    while at < len(names) and len(groups) < count:
        end = at + 1 + names[at]
        groups.append(_decode_name(names[at + 1 : end]))
        at = end
    if at != len(names) or len(groups) != count:
        raise PeerError(Drop.LENGTH, f"{count} group names do not fill {len(names)} bytes")
    if len(set(groups)) != count:
        raise PeerError(Drop.INCONSISTENT, "a group is named twice")
    return tuple(groups)


def _decode_name(name: bytes) -> GroupName:
    if not 0 < len(name) <= GROUP_NAME_BYTES_MAX:
        raise PeerError(Drop.LIMIT, f"group name of {len(name)} bytes")
    try:
        text = name.decode()
    except UnicodeDecodeError as error:
        raise PeerError(Drop.INCONSISTENT, f"group name {name!r} is not UTF-8") from error
    if "\0" in text:
        raise PeerError(Drop.INCONSISTENT, f"group name {name!r} holds a NUL")
    return GroupName(text)
