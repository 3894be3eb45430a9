"""Bundles: a run of messages of one session, in columns; the unit that is stamped and ordered.

A bundle is a head, the columns of its messages (offsets, types, hints, and places if it is mixed), the names of
its groups, what only Spread clients can say and see, a mark if it is of a batch (wire/batch_mark.py), and then
all bodies end to end. The messages of a
mixed bundle go to one of its groups each, and their places say which; otherwise every message goes to all.
Offsets and bodies are Arrow's binary layout, and the offsets start at a multiple of 8, so that both can be
mapped without a copy. Daemons look at the head; they never parse a body. Sequence and stamp are not in here:
they come with the fragments (wire.routed).

Invariant   offsets rise from 0 to the bytes of all bodies; whoever holds a Bundle may slice by them.
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
"""Offset, type, hints and place of one message."""
SELF_DISCARD_FLAG: Final = 0x01
_BIG_ENDIAN: Final = 0x02
_MIXED: Final = 0x04
_SPREAD: Final = 0x08

MESSAGES_MAX: Final = 4096
GROUPS_MAX: Final = 128
GROUP_NAME_BYTES_MAX: Final = 128
_PLACES: Final = bytes(range(GROUPS_MAX))
CHANNELS_MAX: Final = 8
SPREAD_NAME_BYTES: Final = 32
"""One name in the list of groups of a Spread client, padded."""
SPREAD_GROUPS_MAX: Final = 100
_SPREAD_HEAD_BYTES: Final = 2
MESSAGE_BYTES_DEFAULT: Final = 144 * 1024
MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024 - 64 * 1024
"""The hard limit for a message, and for all bodies of a bundle together; no bundle then passes 16 MiB."""

_GROUP_LISTS_KEPT_MAX: Final = 256
_EVEN_OFFSETS_KEPT_MAX: Final = 64

_Numbers = tuple[int, int, int, int, int, int, int, int, int, int]
"""The head, unpacked: with a type compiled code reckons with it quickly."""

Column = memoryview
"""A part of a bundle, mapped with the type of its items; mypyc needs a name of ours for it."""


def bundle_bytes_of(message_bytes_max: int) -> int:
    """The largest bundle whose bodies together have this many bytes."""
    columns_bytes = _OFFSET_BYTES + MESSAGES_MAX * COLUMNS_BYTES
    # With a mark it goes to one group, and has room for it where the names of others would be.
    names_bytes = GROUPS_MAX * (1 + GROUP_NAME_BYTES_MAX)
    return BUNDLE_HEAD_BYTES + columns_bytes + names_bytes + message_bytes_max


assert MARK_BYTES_MAX <= (GROUPS_MAX - 1) * (1 + GROUP_NAME_BYTES_MAX), "names of others are longer than a mark"
assert _SPREAD_HEAD_BYTES + 2 * SPREAD_GROUPS_MAX * SPREAD_NAME_BYTES <= GROUPS_MAX * (
    1 + GROUP_NAME_BYTES_MAX
), "so are they than all groups of a Spread client, and its list of them"


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
    ) -> None:
        self.daemon: Final = daemon
        self.session: Final = session  # Its number at the daemon.
        self.service: Final = service
        self.groups: Final = groups  # Distinct, in the order in which the sender named them.
        self.self_discard: Final = self_discard
        self.channel: Final = channel
        # Whether its sender writes integers so; for receivers that want to know.
        self.big_endian: Final = big_endian
        self.mark: Final = mark  # Of a batch that may come again; such a bundle goes to one group.
        self.mixed: Final = mixed  # Each message goes to one of the groups, and not to all; from Causal on.
        # Bits 23 to 30 of a Spread client's type word; no daemon knows a meaning of them.
        self.spread_bits: Final = spread_bits
        # The list of groups as a Spread client wrote it, if `groups` is not just that.
        self.spread_groups: Final = spread_groups


@final
class Bundle(Value):
    """A bundle, mapped and checked; its columns are views of the buffer that it was decoded from."""

    def __init__(
        self,
        key: BundleKey,
        offsets: Column,
        types: Column,
        hints: Column,
        places: Column,
        bodies: Column,
        whole: Column,
    ) -> None:
        self.key: Final = key
        self.offsets: Final = offsets
        self.types: Final = types
        self.hints: Final = hints
        self.places: Final = places  # Of a mixed bundle: for each message, where its group is in `key.groups`.
        self.bodies: Final = bodies
        self.whole: Final = whole  # All of it, as it was decoded.

    def __len__(self) -> int:
        return len(self.types)

    def message(self, index: int) -> memoryview:
        """The body of one message."""
        assert 0 <= index < len(self.types), "no such message"
        return self.bodies[self.offsets[index] : self.offsets[index + 1]]

    def messages(self) -> list[memoryview]:
        """All bodies in their order."""
        ends = self.offsets.tolist()
        bodies = self.bodies
        return [bodies[start:end] for start, end in pairwise(ends)]

    def groups_of(self, index: int) -> tuple[GroupName, ...]:
        """The groups to which one message goes."""
        return (self.key.groups[self.places[index]],) if self.key.mixed else self.key.groups

    def lengths(self) -> list[int]:
        """The bytes of each body."""
        ends = self.offsets.tolist()
        return [end - start for start, end in pairwise(ends)]


class BundleParts(NamedTuple):
    """An encoded bundle, in parts that are not joined yet."""

    parts: list[bytes | memoryview]
    size_bytes: int


def messages_in(bundle: bytes | memoryview) -> int:
    """How many messages a bundle has, as its head says, unchecked: to be counted and nothing else."""
    return int.from_bytes(bundle[12:16], "little")


def with_daemon(bundle: bytes | memoryview, daemon: DaemonId) -> bytes:
    """The same bundle of a sender whose daemon has another number."""
    return b"".join([bundle[:_DAEMON_AT], daemon.to_bytes(2, "little"), bundle[_DAEMON_AT + 2 :]])


def encode_bundle(
    key: BundleKey,
    bodies: Sequence[bytes | memoryview],
    types: Sequence[int],
    hints: Sequence[int],
    places: Sequence[int] = b"",
) -> bytes:
    """A bundle of these messages."""
    return b"".join(bundle_parts(key, bodies, types, hints, places).parts)


def bundle_parts(
    key: BundleKey,
    bodies: Sequence[bytes | memoryview],
    types: Sequence[int],
    hints: Sequence[int],
    places: Sequence[int] = b"",
) -> BundleParts:
    """The same in parts, for who joins it with something else: the bodies are copied once then."""
    assert 0 < len(bodies) <= MESSAGES_MAX, "a bundle holds 1 to MESSAGES_MAX messages"
    assert len(bodies) == len(types) == len(hints), "one type and one set of hints for each message"
    assert len(places) == (len(bodies) if key.mixed else 0), "one place for each message of a mixed bundle"
    assert 0 <= key.channel < CHANNELS_MAX, "no such channel"
    offsets = _offsets_of(list(map(len, bodies)))
    bodies_bytes = int.from_bytes(offsets[-_OFFSET_BYTES:], "little")
    assert bodies_bytes <= MESSAGE_BYTES_MAX, "the bodies are too long for one bundle"
    names = encode_groups(key.groups)
    spread = _spread(key) if _is_spread(key) else b""
    mark = b"" if key.mark is None else _mark(key, len(bodies))
    head = _HEAD.pack(
        key.service,
        _flags(key),
        key.channel,
        len(mark),
        key.daemon,
        len(key.groups),
        key.session,
        len(bodies),
        len(names),
        bodies_bytes,
    )
    front = [head, offsets, array("H", types).tobytes(), bytes(hints), bytes(places), names, spread, mark]
    return BundleParts([*front, *bodies], sum(map(len, front)) + bodies_bytes)


def _offsets_of(sizes: list[int]) -> bytes:
    """The column of offsets of bodies with these sizes, which mostly are all the same."""
    if sizes.count(sizes[0]) == len(sizes):
        return _even_offsets(sizes[0], len(sizes))
    return array("i", list(accumulate(sizes, initial=0))).tobytes()


@lru_cache(maxsize=_EVEN_OFFSETS_KEPT_MAX)
def _even_offsets(size_bytes: int, count: int) -> bytes:
    """The same of so many bodies of one size; remembered, because a sender's messages are alike."""
    return array("i", [size_bytes * at for at in range(count + 1)]).tobytes()


def _mark(key: BundleKey, messages: int) -> bytes:
    assert key.mark is not None, "look first"
    assert len(key.groups) == 1, "a bundle with a mark goes to one group"
    return encode_mark(key.mark, messages)


def _is_spread(key: BundleKey) -> bool:
    return key.spread_bits != 0 or len(key.spread_groups) != 0


def _spread(key: BundleKey) -> bytes:
    assert key.mark is None, "Spread clients have no batches that count once"
    assert not key.mixed, "what is mixed is of native clients"
    count, rest_bytes = divmod(len(key.spread_groups), SPREAD_NAME_BYTES)
    assert not rest_bytes, "names have one size"
    assert count <= SPREAD_GROUPS_MAX, "the list is too long"
    assert len(encode_groups(key.groups)) <= SPREAD_GROUPS_MAX * SPREAD_NAME_BYTES, "it has them all"
    return bytes([key.spread_bits, count]) + key.spread_groups


def _flags(key: BundleKey) -> int:
    mixed = (_MIXED if key.mixed else 0) | (_SPREAD if _is_spread(key) else 0)
    return (SELF_DISCARD_FLAG if key.self_discard else 0) | (_BIG_ENDIAN if key.big_endian else 0) | mixed


def rows_of(bundle: Bundle, start: int, end: int) -> list[tuple[int, int, int]]:
    """Messages of a mixed bundle in a row to the same group: its place, the first, and behind the last."""
    places = bundle.places.tolist()
    out: list[tuple[int, int, int]] = []
    for at in range(start + 1, end + 1):
        if at == end or places[at] != places[start]:
            out.append((places[start], start, at))
            start = at
    return out


def as_of(bundle: Bundle, place: int) -> Bundle:
    """A mixed bundle as if all its messages went to the group in this place.

    It has the same columns: who goes on with it looks only at the messages that do go there.
    """
    key = _keys_by_group(bundle.key)[place]
    columns = bundle.offsets, bundle.types, bundle.hints, bundle.places, bundle.bodies, bundle.whole
    return Bundle(key, *columns)


@lru_cache(maxsize=_GROUP_LISTS_KEPT_MAX)
def _keys_by_group(key: BundleKey) -> tuple[BundleKey, ...]:
    """The keys of the messages to each group of a mixed bundle; cached, like lists of groups."""
    return tuple([key.replace(groups=(group,), mixed=False) for group in key.groups])


def pick(bundle: Bundle, indexes: Sequence[int]) -> bytes:
    """A bundle of some messages of this mixed one, with no name of a group that none of them goes to."""
    old = [bundle.places[index] for index in indexes]
    kept = sorted(set(old))
    groups = tuple([bundle.key.groups[place] for place in kept])
    key = bundle.key.replace(groups=groups, mixed=len(groups) > 1)
    return encode_bundle(
        key,
        [bundle.message(index) for index in indexes],
        [bundle.types[index] for index in indexes],
        [bundle.hints[index] for index in indexes],
        [kept.index(place) for place in old] if key.mixed else b"",
    )


def decode_bundle(buffer: bytes | memoryview) -> Bundle:
    """A bundle as it lies in the buffer, which must hold nothing else; bodies are not touched."""
    size = len(buffer)
    if size < BUNDLE_HEAD_BYTES:
        raise PeerError(Drop.TRUNCATED, f"bundle of {size} bytes")
    head: _Numbers = _HEAD.unpack_from(buffer)
    number, flags, channel, mark_bytes, daemon, groups, session, count, names_bytes, bodies_bytes = head
    service = SERVICES.get(number)
    if service is None:
        raise PeerError(Drop.UNKNOWN_TYPE, f"service {number}")
    if flags > SELF_DISCARD_FLAG | _BIG_ENDIAN | _MIXED | _SPREAD:
        raise PeerError(Drop.INCONSISTENT, f"bundle with flags {flags:#04x}")
    if channel >= CHANNELS_MAX or daemon >= DAEMONS_MAX:
        raise PeerError(Drop.LIMIT, f"bundle of daemon {daemon} on channel {channel}")
    _check_amounts(groups, names_bytes, count, bodies_bytes)
    types_at = BUNDLE_HEAD_BYTES + _OFFSET_BYTES * (count + 1)
    hints_at = types_at + 2 * count
    places_at = hints_at + count
    mixed = flags & _MIXED != 0
    names_at = places_at + (count if mixed else 0)
    spread_at = names_at + names_bytes
    view = memoryview(buffer)
    mark_at = spread_at
    if flags & _SPREAD:
        if mixed or mark_bytes:
            raise PeerError(Drop.INCONSISTENT, "bundle of a Spread client that is mixed or has a mark")
        mark_at += _spread_bytes(view, spread_at, names_bytes)
    bodies_at = mark_at + mark_bytes
    if size != bodies_at + bodies_bytes:
        raise PeerError(Drop.LENGTH, f"bundle of {bodies_at + bodies_bytes} bytes in {size}")
    offsets = view[BUNDLE_HEAD_BYTES:types_at].cast("i")
    _check_offsets(offsets, count, bodies_bytes)
    names = decode_groups(bytes(view[names_at:spread_at]), groups)
    if mark_bytes and groups != 1:
        raise PeerError(Drop.INCONSISTENT, f"bundle with a mark for {groups} groups")
    if mixed:
        _check_places(bytes(view[places_at:names_at]), groups, service)
    return Bundle(
        BundleKey(
            DaemonId(daemon),
            session,
            service,
            names,
            flags & SELF_DISCARD_FLAG != 0,
            channel,
            flags & _BIG_ENDIAN != 0,
            decode_mark(bytes(view[mark_at:bodies_at]), count) if mark_bytes else None,
            mixed,
            view[spread_at] if flags & _SPREAD else 0,
            bytes(view[spread_at + _SPREAD_HEAD_BYTES : mark_at]),
        ),
        offsets,
        view[types_at:hints_at].cast("H"),
        view[hints_at:places_at],
        view[places_at:names_at],
        view[bodies_at:],
        view,
    )


def peek_groups(buffer: memoryview) -> tuple[GroupName, ...]:
    """The groups of a bundle, without a look at its messages."""
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
    """The size of what only Spread clients can say and see, which begins there."""
    if len(view) < at + _SPREAD_HEAD_BYTES:
        raise PeerError(Drop.LENGTH, f"bundle of {len(view)} bytes, its names end at {at}")
    bits: int = view[at]
    count: int = view[at + 1]
    if not bits and not count:
        raise PeerError(Drop.INCONSISTENT, "bundle of a Spread client that says nothing of its own")
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
    # Mostly all messages have one size; then there is a shorter way to see that.
    if end * count == bodies_bytes and offsets.tobytes() == _even_offsets(end, count):
        return
    every = offsets.tolist()
    # Sorting what is sorted is one pass without a Python loop.
    if first != 0 or every[-1] != bodies_bytes or sorted(every) != every:
        raise PeerError(Drop.INCONSISTENT, f"offsets do not rise from 0 to {bodies_bytes}")


def _check_places(places: bytes, groups: int, service: Service) -> None:
    if places.translate(None, _PLACES[:groups]):
        raise PeerError(Drop.INCONSISTENT, f"a message for another than the {groups} groups of its bundle")
    if not service.total:
        # What overtakes a join is kept by its groups, and all of it has the same.
        raise PeerError(Drop.INCONSISTENT, f"mixed bundle of service {service}")


@lru_cache(maxsize=_GROUP_LISTS_KEPT_MAX)
def encode_groups(groups: tuple[GroupName, ...]) -> bytes:
    """Names behind their lengths; remembered, because sessions send to the same groups again and again."""
    assert 0 < len(groups) <= GROUPS_MAX, "a bundle goes to 1 to GROUPS_MAX groups"
    assert len(set(groups)) == len(groups), "a bundle goes to each group once"
    names = [name.encode() for name in groups]
    assert all(0 < len(name) <= GROUP_NAME_BYTES_MAX and 0 not in name for name in names), "check names first"
    return b"".join([bytes([len(name)]) + name for name in names])


@lru_cache(maxsize=_GROUP_LISTS_KEPT_MAX)
def decode_groups(names: bytes, count: int) -> tuple[GroupName, ...]:
    """The names that fill these bytes exactly; remembered like the other way round."""
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
